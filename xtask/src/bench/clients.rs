//! The programs whose clients are measured: how each is called, and what it says.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::broker::{Side, Site};
use super::load::{Payload, Produced, Said, output, produce};

/// What all producers are set to, where the settings of one are those of another.
const BATCH_BYTES: u64 = 128 << 10;
const BUFFER_BYTES: u64 = 32 << 20;
const IN_FLIGHT: u64 = 5;

/// A client and the broker that it works with: a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) client: Client,
    pub(super) side: Side,
    pub(super) column: &'static str,
}

/// Whose client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Client {
    /// Ours, by `vltava perf`.
    Ours,
    /// librdkafka by the calls of the crate `rdkafka`, one for each record.
    Librdkafka,
    /// librdkafka by its own calls, which take and give many records at once.
    Quickest,
    /// Kafka's, by its own tools.
    Java,
}

pub(super) const OURS: &str = "ours on Vltava";
pub(super) const LIBRDKAFKA: &str = "librdkafka on Vltava";
pub(super) const QUICKEST: &str = "librdkafka's quickest on Vltava";
pub(super) const OURS_ON_KAFKA: &str = "ours on Kafka";
pub(super) const LIBRDKAFKA_ON_KAFKA: &str = "librdkafka on Kafka";
pub(super) const JAVA: &str = "Java on Kafka";

const VLTAVA: Side = Side::Vltava("os");

/// In the order of the columns.
pub(super) const PAIRS: [Pair; 6] = [
    Pair { client: Client::Ours, side: VLTAVA, column: OURS },
    Pair { client: Client::Librdkafka, side: VLTAVA, column: LIBRDKAFKA },
    Pair { client: Client::Quickest, side: VLTAVA, column: QUICKEST },
    Pair { client: Client::Ours, side: Side::Kafka, column: OURS_ON_KAFKA },
    Pair { client: Client::Librdkafka, side: Side::Kafka, column: LIBRDKAFKA_ON_KAFKA },
    Pair { client: Client::Java, side: Side::Kafka, column: JAVA },
];

/// What is divided by what.
pub(super) const RATIOS: [(&str, &str, &str); 3] = [
    ("ours ÷ Java on Kafka", OURS, JAVA),
    ("ours ÷ librdkafka", OURS, LIBRDKAFKA),
    ("on Kafka: ours ÷ librdkafka", OURS_ON_KAFKA, LIBRDKAFKA_ON_KAFKA),
];

/// What a run of a program came to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ran {
    pub(super) records_per_second: f64,
    pub(super) rss_peak_mib: f64,
    /// When it said so.
    pub(super) ended: Instant,
}

/// Records of so many bytes for a topic.
#[derive(Debug, Clone, Copy)]
pub(super) struct Records {
    pub(super) topic: &'static str,
    pub(super) count: u64,
    pub(super) bytes: u64,
    /// How many of them, the first, do not count in the rate.
    pub(super) warm_up: u64,
}

impl Client {
    /// Writes records with it, as fast as they are taken.
    pub(super) fn produce(self, site: &Site, to: SocketAddr, records: Records, acks: &str) -> Result<Ran> {
        let Records { topic, count, bytes, warm_up } = records;
        let mut command = match self {
            Self::Ours => {
                let settings = self.producer_settings(acks);
                let offered = Offered { rate: -1.0, hlog: None };
                return Ok(ours(site, to, records, offered, &words(&settings))?.0);
            }
            Self::Java => {
                let acks = format!("acks={acks}");
                let made = produce(site, to, topic, (count, warm_up), Payload::Random(bytes), &[&acks])?;
                let Produced { records_per_second, rss_peak_mib, ended, .. } = made;
                return Ok(Ran { records_per_second, rss_peak_mib, ended });
            }
            Self::Librdkafka | Self::Quickest => Command::new(load(site)?),
        };
        command.args(["produce", &to.to_string(), topic, &count.to_string(), &bytes.to_string(), self.way()]);
        command.args(self.producer_settings(acks));
        ran(&output(site, &mut command, count)?, count).map(|(ran, _)| ran)
    }

    /// Reads so many records from the beginning of a topic with it.
    pub(super) fn consume(self, site: &Site, from: SocketAddr, topic: &str, count: u64) -> Result<Ran> {
        let (server, records) = (from.to_string(), count.to_string());
        let of_tool = ["--bootstrap-server", &server, "--topic", topic, "--num-records", &records];
        let mut command = match self {
            Self::Ours => {
                let mut command = Command::new(&site.vltava);
                command.args(["perf", "consumer"]).args(of_tool).arg("--json");
                command
            }
            Self::Java => {
                let mut command = Command::new(site.kafka.join("tool"));
                command.arg("ConsumerPerformance").args(of_tool);
                let Said { out, rss_peak_mib, ended } = output(site, &mut command, count)?;
                let rate = fetch_rate(&out, count).with_context(|| format!("cannot read\n{out}"))?;
                return Ok(Ran { records_per_second: rate, rss_peak_mib, ended });
            }
            Self::Librdkafka | Self::Quickest => {
                let mut command = Command::new(load(site)?);
                command.args(["consume", &server, topic, &records, self.way()]).args(CONSUMER_SETTINGS);
                command
            }
        };
        ran(&output(site, &mut command, count)?, count).map(|(ran, _)| ran)
    }

    /// What its producer is told.
    pub(super) fn producer_settings(self, acks: &str) -> Vec<String> {
        let mut settings = vec![("acks", acks.to_owned())];
        let mut shared = || {
            settings.push(("enable.idempotence", (acks == "all").to_string()));
            settings.push(("max.in.flight.requests.per.connection", IN_FLIGHT.to_string()));
            settings.push(("compression.type", "none".to_owned()));
        };
        match self {
            Self::Java => {}
            Self::Ours => {
                shared();
                settings.push(("batch.size", BATCH_BYTES.to_string()));
                settings.push(("buffer.memory", BUFFER_BYTES.to_string()));
            }
            Self::Librdkafka | Self::Quickest => {
                shared();
                settings.push(("batch.size", BATCH_BYTES.to_string()));
                // By default it waits so long. Without that it neither gathers records nor stays with a
                // partition, and takes three times the CPU.
                settings.push(("linger.ms", "5".to_owned()));
                settings.push(("queue.buffering.max.kbytes", (BUFFER_BYTES >> 10).to_string()));
                settings.push(("queue.buffering.max.messages", "0".to_owned()));
            }
        }
        settings.iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    /// Its command line for people, without the paths of this machine.
    pub(super) fn words_of_produce(self, records: Records, acks: &str) -> String {
        let Records { topic, count, bytes, warm_up } = records;
        let settings = self.producer_settings(acks).join(" ");
        let warm_up = if warm_up > 0 { format!(" --warmup-records {warm_up}") } else { String::new() };
        let of_tool = format!(
            "--bootstrap-server BOOTSTRAP --topic {topic} --num-records {count} --record-size {bytes}{warm_up} \
             --throughput -1 --command-property {settings}"
        );
        match self {
            Self::Ours => format!("`vltava perf producer {of_tool}`"),
            Self::Java => format!("`$KAFKA/tool ProducerPerformance {of_tool}`"),
            Self::Librdkafka | Self::Quickest => {
                let way = self.way();
                format!("`vltava-bench-load produce BOOTSTRAP {topic} {count} {bytes} {way} {settings}`")
            }
        }
    }

    /// The same for reading.
    pub(super) fn words_of_consume(self, topic: &str, count: u64) -> String {
        let of_tool = format!("--bootstrap-server BOOTSTRAP --topic {topic} --num-records {count}");
        match self {
            Self::Ours => format!("`vltava perf consumer {of_tool}`"),
            Self::Java => format!("`$KAFKA/tool ConsumerPerformance {of_tool}` (its fetch.nMsg.sec)"),
            Self::Librdkafka | Self::Quickest => format!(
                "`vltava-bench-load consume BOOTSTRAP {topic} {count} {} {}`",
                self.way(),
                CONSUMER_SETTINGS.join(" ")
            ),
        }
    }

    fn way(self) -> &'static str {
        if self == Self::Quickest { "bulk" } else { "crate" }
    }
}

/// By default librdkafka reads ahead less than comes at once, and then rests for a second.
const CONSUMER_SETTINGS: [&str; 3] =
    ["queued.min.messages=1000000", "queued.max.messages.kbytes=262144", "fetch.queue.backoff.ms=1"];

/// What a producer of ours is given.
#[derive(Debug, Clone, Copy)]
pub(super) struct Offered<'a> {
    /// Records a second at most; -1 is as many as it takes.
    pub(super) rate: f64,
    /// Where it leaves histograms, and for how many milliseconds each.
    pub(super) hlog: Option<(&'a Path, u64)>,
}

/// Writes with ours; all that it said, too.
pub(super) fn ours(
    site: &Site,
    to: SocketAddr,
    records: Records,
    offered: Offered<'_>,
    settings: &[&str],
) -> Result<(Ran, Value)> {
    let Records { topic, count, bytes, warm_up } = records;
    let Offered { rate, hlog } = offered;
    let mut command = Command::new(&site.vltava);
    command.args(["perf", "producer", "--bootstrap-server", &to.to_string(), "--topic", topic]);
    command.args(["--num-records", &count.to_string(), "--record-size", &bytes.to_string()]);
    command.args(["--warmup-records", &warm_up.to_string(), "--throughput", &rate.to_string()]);
    if let Some((file, every_ms)) = hlog {
        command.args(["--reporting-interval", &every_ms.to_string(), "--hlog"]).arg(file);
    }
    command.args(["--json", "--command-property"]).args(settings);
    ran(&output(site, &mut command, count)?, count - warm_up)
}

/// Our program with librdkafka in it.
pub(super) fn load(site: &Site) -> Result<&Path> {
    site.load.as_deref().context("the load program is not built")
}

/// What the machine can do and no more, in bytes a second.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Through a socket and a checksum into a file.
    pub(super) written: f64,
    /// Out of a file through a socket to a checksum.
    pub(super) read: f64,
    /// Out of a file through a socket and a checksum into another file.
    pub(super) copied: f64,
}

/// Measures that with so many bytes.
pub(super) fn limits(site: &Site, bytes: u64) -> Result<Limits> {
    let file = site.dir.join("limits");
    let mut command = Command::new(load(site)?);
    command.arg("limits").arg(&file).arg(bytes.to_string());
    // A slow disk may take its time, as with that many records.
    let said = json(&output(site, &mut command, bytes >> 10)?.out)?;
    let of = |name| number(&said, &[name]);
    let (written, read) = (of("write_bytes_per_sec")?, of("read_bytes_per_sec")?);
    Ok(Limits { written, read, copied: of("copy_bytes_per_sec")? })
}

/// Writes with ours to get a topic full of the same batches, whoever reads them.
pub(super) fn fill(site: &Site, to: SocketAddr, records: Records) -> Result<()> {
    Client::Ours.produce(site, to, records, "1").map(drop)
}

/// Settings as words.
pub(super) fn words(settings: &[String]) -> Vec<&str> {
    settings.iter().map(String::as_str).collect()
}

/// What a program of ours said, which must be about so many records.
fn ran(said: &Said, records: u64) -> Result<(Ran, Value)> {
    let json = json(&said.out)?;
    let count = number(&json, &["records"])?;
    ensure!(count >= records as f64, "{count} of {records} records:\n{}", said.out);
    let records_per_second = number(&json, &["records_per_sec"])?;
    Ok((Ran { records_per_second, rss_peak_mib: said.rss_peak_mib, ended: said.ended }, json))
}

/// The JSON object in the last line.
pub(super) fn json(out: &str) -> Result<Value> {
    let line = out.trim_end().lines().last().unwrap_or_default();
    serde_json::from_str(line).with_context(|| format!("the last line is no JSON:\n{out}"))
}

/// A number in an object in an object.
pub(super) fn number(json: &Value, path: &[&str]) -> Result<f64> {
    let found = path.iter().try_fold(json, |json, name| json.get(name)).and_then(Value::as_f64);
    found.with_context(|| format!("there is no {} in {json}", path.join(".")))
}

/// Records a second by the line of ConsumerPerformance, without what it took to join its group.
fn fetch_rate(out: &str, records: u64) -> Option<f64> {
    let fields: Vec<&str> = out.lines().rfind(|line| line.starts_with("20"))?.split(", ").collect();
    let [.., count, _, _, _, _, rate] = fields[..] else { return None };
    (count.parse::<u64>().ok()? >= records).then(|| rate.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fetch_rate_is_read_from_kafkas_line() {
        let out = "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, \
                   rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec\n\
                   2026-11-21 15:08:02:717, 2026-11-21 15:08:10:101, 1907.3486, 258.3082, 20000000, \
                   2708559.0466, 3186, 4198, 454.3470, 4764173.4159\n";
        assert_eq!(fetch_rate(out, 20000000), Some(4764173.4159));
        assert_eq!(fetch_rate(out, 20000001), None);
        assert_eq!(fetch_rate("nothing", 1), None);
    }

    #[test]
    fn the_last_line_of_ours_is_read() {
        let said = |out: &str| Said { out: out.to_owned(), rss_peak_mib: 40.5, ended: Instant::now() };
        let out =
            "5 records sent, …\n{\"records\":5,\"records_per_sec\":2.5,\"send_call_ns\":{\"p9999\":7}}\n";
        let (result, json) = ran(&said(out), 5).unwrap();
        assert_eq!((result.records_per_second, result.rss_peak_mib), (2.5, 40.5));
        assert_eq!(number(&json, &["send_call_ns", "p9999"]).unwrap(), 7.0);
        assert!(number(&json, &["send_call_ns", "p1"]).is_err());
        assert!(ran(&said(out), 6).is_err(), "a record is missing");
        assert!(ran(&said("5 records sent"), 5).is_err());
    }

    #[test]
    fn librdkafka_is_set_as_ours_is() {
        let (ours, theirs) = (Client::Ours.producer_settings("1"), Client::Librdkafka.producer_settings("1"));
        for name in ["acks=", "batch.size=", "enable.idempotence=", "max.in.flight", "compression.type="] {
            let of = |settings: &[String]| settings.iter().find(|line| line.starts_with(name)).cloned();
            assert!(of(&ours).is_some() && of(&ours) == of(&theirs), "{name} {ours:?} {theirs:?}");
        }
        assert_eq!(Client::Quickest.producer_settings("1"), theirs);
    }
}
