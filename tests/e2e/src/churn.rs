//! Someone who creates topics and deletes some of them again, and remembers what it was told.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail, ensure};
use base::TopicId;
use client::admin::NewTopic;
use client::producer::BuildError;
use client::{Admin, ClientError, ConnectOptions, Connection};
use wire::messages::create_topics::{CreatableTopic, CreateTopicsRequest};
use wire::messages::delete_topics::{DeleteTopicState, DeleteTopicsRequest};

use crate::progress::Progress;

/// How many topics may be there at a time.
const TOPICS_MAX: usize = 30;
/// How many requests it sends in one life of a node.
const REQUESTS_MAX: usize = 40;

/// The setting of topics with samples: these say that they are of 2024, which is older than most keep.
pub const FOR_EVER: (&str, &str) = ("retention.ms", "-1");

/// See the module.
#[derive(Debug, Default)]
pub struct Churn {
    created: u64,
    /// What must be there: id and number of partitions.
    there: BTreeMap<String, (TopicId, usize)>,
    /// What must not.
    gone: BTreeSet<String>,
    /// What may be there or not, for nobody answered.
    unknown: BTreeSet<String>,
}

/// Someone who creates topics.
pub fn admin(bootstrap: &str) -> Result<Admin, BuildError> {
    Admin::new(bootstrap)
}

impl Churn {
    /// Creates a topic that stays.
    pub fn create(
        &mut self,
        admin: &Admin,
        name: &str,
        partitions: i32,
        configs: &[(&str, &str)],
    ) -> Result<()> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let topic = NewTopic {
            partitions: Some(partitions),
            replication_factor: Some(1),
            configs: configs.iter().map(owned).collect(),
            ..NewTopic::named(name)
        };
        let created = admin.create_topic(topic).wait()?;
        let Some(id) = created.id else { bail!("{name} was created without an id") };
        self.there.insert(name.to_owned(), (id, partitions as usize));
        Ok(())
    }

    /// Works until it is stopped, has done enough, or the node is gone.
    pub(crate) fn run(&mut self, bootstrap: &str, progress: &Progress) -> Result<()> {
        let Ok(mut connection) = Connection::connect(bootstrap, ConnectOptions::default()) else {
            return Ok(());
        };
        for _ in 0..REQUESTS_MAX {
            if progress.is_stopped() {
                break;
            }
            if let Err(error) = self.one(&mut connection) {
                let why = error.downcast_ref::<ClientError>();
                return match why {
                    Some(ClientError::Broken { .. } | ClientError::Closed { .. }) => Ok(()),
                    _ => Err(error.context("creating and deleting topics")),
                };
            }
        }
        Ok(())
    }

    /// Asks for one thing, once: a client that tried again would not know what its first try did.
    fn one(&mut self, connection: &mut Connection) -> Result<()> {
        let oldest = self.there.keys().find(|name| name.starts_with("churn-")).cloned();
        self.created += 1;
        match oldest {
            Some(oldest) if self.there.len() > TOPICS_MAX || (self.created - 1).is_multiple_of(3) => {
                self.there.remove(&oldest);
                self.unknown.insert(oldest.clone());
                delete(connection, &oldest)?;
                self.unknown.remove(&oldest);
                self.gone.insert(oldest);
            }
            _ => {
                let name = format!("churn-{:06}", self.created);
                let partitions = 1 + (self.created % 3) as i32;
                self.unknown.insert(name.clone());
                let id = create(connection, &name, partitions)?;
                self.unknown.remove(&name);
                self.there.insert(name, (id, partitions as usize));
            }
        }
        Ok(())
    }

    /// How many topics must be there.
    pub fn topics(&self) -> usize {
        self.there.len()
    }

    /// Fails if a topic is not what it was said to be.
    pub fn check(&self, admin: &Admin) -> Result<()> {
        let found = admin.list_topics().wait()?;
        let by_name: BTreeMap<_, _> = found.iter().map(|topic| (topic.name.as_str(), topic)).collect();
        for (name, (id, partitions)) in &self.there {
            let Some(topic) = by_name.get(name.as_str()) else { bail!("topic {name} is lost") };
            ensure!(topic.id == *id, "topic {name} had the id {id:?} and has {:?}", topic.id);
            let count = topic.partitions.len();
            ensure!(count == *partitions, "topic {name} had {partitions} partitions and has {count}");
            for partition in &topic.partitions {
                ensure!(partition.leader.is_some(), "{name}-{} has no leader", partition.index);
            }
        }
        for name in &self.gone {
            ensure!(!by_name.contains_key(name.as_str()), "topic {name} was deleted and is back");
        }
        let known = |name: &str| self.there.contains_key(name) || self.unknown.contains(name);
        for topic in found.iter().filter(|topic| !topic.is_internal) {
            ensure!(known(&topic.name), "topic {} was never created", topic.name);
        }
        Ok(())
    }
}

fn create(connection: &mut Connection, name: &str, partitions: i32) -> Result<TopicId> {
    let topic =
        CreatableTopic { name, num_partitions: partitions, replication_factor: 1, ..Default::default() };
    let request = CreateTopicsRequest { topics: vec![topic], timeout_ms: 30_000, ..Default::default() };
    let answer = connection.ask(&request)?;
    let answer = answer.read()?;
    let Some(made) = answer.topics.first() else { bail!("no answer about {name}") };
    ClientError::check(|| format!("topic {name}"), made.error_code, made.error_message)?;
    ensure!(!made.topic_id.is_zero(), "{name} was created without an id");
    Ok(TopicId(made.topic_id))
}

fn delete(connection: &mut Connection, name: &str) -> Result<()> {
    let topic = DeleteTopicState { name: Some(name), ..Default::default() };
    let request = DeleteTopicsRequest { topics: vec![topic], timeout_ms: 30_000, ..Default::default() };
    let answer = connection.ask(&request)?;
    let answer = answer.read()?;
    let Some(gone) = answer.responses.first() else { bail!("no answer about {name}") };
    Ok(ClientError::check(|| format!("topic {name}"), gone.error_code, gone.error_message)?)
}
