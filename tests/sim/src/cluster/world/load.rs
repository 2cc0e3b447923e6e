//! Who uses the topics of a run.

use super::World;
use crate::cluster::client::Client;
use crate::cluster::client::deleter::Deleter;
use crate::cluster::client::producer::{ProducerClient, ProducerOptions};
use crate::cluster::client::reader::Reader;
use crate::random::Random;

impl World {
    /// The clients that use the topics, once these are there.
    pub(crate) fn begin_load(&mut self) {
        let targets = self.targets();
        self.begin_groups(&targets);
        for number in 0..self.options.producers + self.options.careless {
            let options = ProducerOptions {
                client: self.clients.len(),
                nodes: self.options.nodes,
                acks_all: number < self.options.producers,
                send_every_us: self.options.send_every_us,
                burst: self.options.burst,
                targets: targets.clone(),
            };
            let random = Random::stream(self.seed, &format!("producer {number}"));
            let producer = ProducerClient::new(options, self.seed ^ number as u64, random);
            self.add_client(Client::Producer(producer));
        }
        for number in 0..self.options.readers {
            let random = Random::stream(self.seed, &format!("reader {number}"));
            let reader = Reader::new(self.clients.len(), self.options.nodes, targets.clone(), random);
            self.add_client(Client::Reader(reader));
        }
        for number in 0..self.options.deleters {
            let random = Random::stream(self.seed, &format!("deleter {number}"));
            let deleter = Deleter::new(self.clients.len(), self.options.nodes, targets.clone(), random);
            self.add_client(Client::Deleter(deleter));
        }
    }
}
