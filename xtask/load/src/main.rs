//! Load for the benchmark that neither our tools nor Kafka's make.
//!
//! ```text
//!   produce BROKER TOPIC RECORDS RECORD_BYTES WAY [NAME=VALUE...]   writes with librdkafka
//!   consume BROKER TOPIC RECORDS WAY [NAME=VALUE...]                reads with librdkafka
//!   close BROKER TOPIC RECORD_BYTES BUFFER_BYTES TIMEOUT_MS [PID]   closes a producer of ours that is full,
//!                                                                   while the broker PID is stopped
//!   group WHAT ...                                                  what is done to consumer groups: see there
//!   limits FILE BYTES                                               what the machine can do at all
//!   version                                                         which librdkafka it is
//! ```
//!
//! WAY is `crate` for the calls that the crate `rdkafka` has, one for each record, or `bulk` for the
//! quickest that librdkafka itself has. The last line is one JSON object.

mod close;
mod consume;
mod groups;
mod limits;
mod produce;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rdkafka::ClientConfig;
use serde_json::{Value, json};

const USAGE: &str = "\
produce BROKER TOPIC RECORDS RECORD_BYTES crate|bulk [NAME=VALUE...]
consume BROKER TOPIC RECORDS crate|bulk [NAME=VALUE...]
close BROKER TOPIC RECORD_BYTES BUFFER_BYTES TIMEOUT_MS [PID]
group join|members|commit|offsets|lag ...
limits FILE BYTES
version";

/// So long without a word, and something hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// How librdkafka is called.
#[derive(Clone, Copy)]
enum Way {
    Crate,
    Bulk,
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let said = match words[..] {
        ["produce", broker, topic, records, bytes, way, ref settings @ ..] => {
            produce::run(&config(broker, settings)?, topic, (records.parse()?, bytes.parse()?), way_of(way)?)?
        }
        ["consume", broker, topic, records, way, ref settings @ ..] => {
            consume::run(&config(broker, settings)?, topic, records.parse()?, way_of(way)?)?
        }
        ["close", broker, topic, bytes, buffer, timeout, ref stopped @ ..] => {
            let timeout = Duration::from_millis(timeout.parse()?);
            let stopped = stopped.first().map(|pid| pid.parse()).transpose()?;
            close::run(broker, topic, (bytes.parse()?, buffer.parse()?), timeout, stopped)?
        }
        ["group", ref words @ ..] => groups::run(words)?,
        ["limits", file, bytes] => limits::run(Path::new(file), bytes.parse()?)?,
        ["version"] => Value::from(rdkafka::util::get_rdkafka_version().1),
        _ => bail!("{USAGE}"),
    };
    println!("{said}");
    Ok(())
}

fn way_of(word: &str) -> Result<Way> {
    match word {
        "crate" => Ok(Way::Crate),
        "bulk" => Ok(Way::Bulk),
        _ => bail!("{word} is neither crate nor bulk\n{USAGE}"),
    }
}

fn config(broker: &str, settings: &[&str]) -> Result<ClientConfig> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", broker);
    for setting in settings {
        let (name, value) = setting.split_once('=').with_context(|| format!("{setting} is no NAME=VALUE"))?;
        config.set(name, value);
    }
    Ok(config)
}

/// What a run came to.
fn result(records: u64, bytes: u64, since: Instant) -> Value {
    let seconds = since.elapsed().as_secs_f64();
    json!({
        "records": records,
        "seconds": seconds,
        "records_per_sec": records as f64 / seconds,
        "mb_per_sec": bytes as f64 / seconds / 1e6,
    })
}

/// Letters by chance, more than any batch holds and a record more: values are stretches of it, since
/// drawing each letter would take longer than sending it.
struct Letters {
    text: Vec<u8>,
    size: usize,
    at: usize,
}

impl Letters {
    const BYTES: usize = 4 << 20;

    fn new(size: usize) -> Self {
        let mut state = 1_u64;
        let letters = (0..Self::BYTES + size).map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            b'A' + (state >> 33) as u8 % 26
        });
        Self { text: letters.collect(), size, at: 0 }
    }

    fn next(&mut self) -> &[u8] {
        let start = self.at;
        self.at = (start + self.size) % Self::BYTES;
        &self.text[start..start + self.size]
    }
}
