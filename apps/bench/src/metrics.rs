//! What brokers count themselves, read from the pages that they have for Prometheus.
//!
//! Only what grows is taken, each name once, whatever its labels: counters, and the sums and counts of histograms
//! and summaries. What a run took is the difference of two pages. Of what does not grow there is the memory of the
//! process, by the name that Prometheus gives it.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

/// What each name came to, of all labels together.
pub type Counted = BTreeMap<String, f64>;

/// A broker that does not answer by then has other things to do.
const PATIENCE: Duration = Duration::from_secs(2);
/// A page for people and programs is not longer.
const PAGE_BYTES_MAX: u64 = 64 << 20;

/// What Prometheus calls the processor time of the process that has the page, in seconds, and the memory that it has.
const CPU_SECONDS: &str = "process_cpu_seconds_total";
const RSS_BYTES: &str = "process_resident_memory_bytes";
/// When that process was started, in seconds since 1970.
const STARTED: &str = "process_start_time_seconds";

/// What the page of one broker says.
#[derive(Debug, Clone, Default, PartialEq)]
struct Page {
    /// What only grows.
    counted: Counted,
    /// Processor time of its process, if it says it.
    cpu_seconds: Option<f64>,
    /// Memory of its process, if it says it.
    rss_bytes: Option<f64>,
    /// When its process was started, if it says it.
    started: Option<f64>,
}

/// What kind of samples a name has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Counter,
    /// A histogram or a summary: what grows has its own endings.
    Distribution,
    Other,
}

/// What brokers counted between two looks at their pages.
#[derive(Debug, Clone, Default)]
pub struct Scraped<'a> {
    urls: &'a [String],
    before: Option<Vec<Page>>,
    /// Why a page could not be read.
    fault: Option<String>,
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Grown {
    /// What grew, and by how much.
    pub counted: Counted,
    /// Flushes of logs, where brokers say how many they did.
    pub flushes: Option<u64>,
    /// How long they took, together, where brokers say that.
    pub flush_seconds: Option<f64>,
    /// Processor time that the processes of all brokers used, where each of them says it.
    #[serde(default)]
    pub cpu_seconds: Option<f64>,
    /// Memory that they had, before or behind, whenever it was more; where each of them says it.
    #[serde(default)]
    pub rss_bytes: Option<u64>,
}

impl<'a> Scraped<'a> {
    /// The pages at these addresses; nothing is read as long as there are none.
    pub fn of(urls: &'a [String]) -> Self {
        Self { urls, before: None, fault: None }
    }

    /// Has a first look, if there was none.
    pub fn begin(&mut self) {
        if self.urls.is_empty() || self.before.is_some() || self.fault.is_some() {
            return;
        }
        match read(self.urls) {
            Ok(pages) => self.before = Some(pages),
            Err(error) => self.fault = Some(format!("{error:#}")),
        }
    }

    /// Has the last look: what grew since the first, and what could not be read.
    pub fn end(self) -> (Option<Grown>, Option<String>) {
        let Some(before) = self.before else { return (None, self.fault) };
        match read(self.urls) {
            Ok(pages) => (Some(Grown::between(&before, &pages)), None),
            Err(error) => (None, Some(format!("{error:#}"))),
        }
    }
}

impl Grown {
    /// Of the same brokers, in the same order.
    fn between(before: &[Page], now: &[Page]) -> Self {
        let (mut counted, mut all) = (Counted::new(), Counted::new());
        for (now, before) in now.iter().zip(before) {
            add(&mut counted, now.since(before));
            add(&mut all, now.counted.clone());
        }
        let flushes = flushes(&all, &counted);
        let cpu_seconds = now.iter().zip(before).map(|(now, before)| now.cpu_seconds_since(before)).sum();
        let rss_bytes = |pages: &[Page]| pages.iter().map(|page| page.rss_bytes).sum::<Option<f64>>();
        Self {
            counted,
            flushes: flushes.map(|(count, _)| count),
            flush_seconds: flushes.map(|(_, seconds)| seconds).filter(|seconds| *seconds > 0.0),
            cpu_seconds,
            rss_bytes: rss_bytes(now).zip(rss_bytes(before)).map(|(now, before)| now.max(before) as u64),
        }
    }
}

impl Page {
    fn of(text: &str) -> Self {
        let says = |name: &str| {
            let mut samples = text.lines().filter_map(|line| sample(line.trim()));
            samples.find(|(found, _)| *found == name).map(|(_, value)| value)
        };
        Self {
            counted: parse(text),
            cpu_seconds: says(CPU_SECONDS),
            rss_bytes: says(RSS_BYTES),
            started: says(STARTED),
        }
    }

    /// What its broker counted since then; what did not change is left out. One that was started anew meanwhile began
    /// at nothing: what it had counted before that nobody knows. Of one that was not, what became less has lost some of
    /// its parts, and says nothing.
    fn since(&self, before: &Self) -> Counted {
        let is_anew = self.is_started_since(before);
        let grown = self.counted.iter().map(|(name, now)| {
            let from = before.counted.get(name).copied().unwrap_or_default();
            (name, if is_anew.unwrap_or(from > *now) { *now } else { now - from })
        });
        grown.filter(|(_, grown)| *grown > 0.0).map(|(name, grown)| (name.clone(), grown)).collect()
    }

    /// Nothing of one that was started anew: what its process used before that nobody knows.
    fn cpu_seconds_since(&self, before: &Self) -> Option<f64> {
        let grown = self.cpu_seconds? - before.cpu_seconds?;
        (self.is_started_since(before) != Some(true) && grown >= 0.0).then_some(grown)
    }

    /// Where it says when it was.
    fn is_started_since(&self, before: &Self) -> Option<bool> {
        // The system's clock may be set meanwhile, by a little.
        self.started.zip(before.started).map(|(now, before)| now > before + 1.0)
    }
}

fn add(sum: &mut Counted, more: Counted) {
    for (name, value) in more {
        *sum.entry(name).or_default() += value;
    }
}

/// What the pages at some addresses say, each.
fn read(urls: &[String]) -> Result<Vec<Page>> {
    let page = |url: &String| get(url).with_context(|| format!("cannot read the metrics at {url}"));
    urls.iter().map(|url| Ok(Page::of(&page(url)?))).collect()
}

/// Reads a page: what grows, by name.
fn parse(page: &str) -> Counted {
    let mut kinds: BTreeMap<&str, Kind> = BTreeMap::new();
    let mut counted = Counted::new();
    for line in page.lines().map(str::trim) {
        if let Some(said) = line.strip_prefix("# TYPE ") {
            let Some((name, kind)) = said.split_once(' ') else { continue };
            let kind = match kind.trim() {
                "counter" => Kind::Counter,
                "histogram" | "summary" => Kind::Distribution,
                _ => Kind::Other,
            };
            kinds.insert(name, kind);
        } else if let Some((name, value)) = sample(line).filter(|(name, _)| grows(name, &kinds)) {
            *counted.entry(name.to_owned()).or_default() += value;
        }
    }
    counted
}

/// Whether what has this name only grows.
fn grows(name: &str, kinds: &BTreeMap<&str, Kind>) -> bool {
    let endings = ["_total", "_count", "_sum"];
    let ending = endings.into_iter().find(|ending| name.ends_with(ending));
    let of_all = ending.map_or(name, |ending| &name[..name.len() - ending.len()]);
    match kinds.get(name).or_else(|| kinds.get(of_all)) {
        Some(Kind::Counter) => true,
        Some(Kind::Distribution) => matches!(ending, Some("_count" | "_sum")),
        Some(Kind::Other) => false,
        // Nobody says what it is: names are given so that one knows.
        None => ending.is_some(),
    }
}

/// The name and the value of `name{label="text"} value`; the labels may hold any text.
fn sample(line: &str) -> Option<(&str, f64)> {
    if line.starts_with('#') {
        return None;
    }
    let end = line.find(['{', ' ', '\t'])?;
    let (name, rest) = line.split_at(end);
    let rest = match rest.strip_prefix('{') {
        Some(labels) => behind_labels(labels)?,
        None => rest,
    };
    let value: f64 = rest.split_whitespace().next()?.parse().ok()?;
    (value.is_finite() && !name.is_empty()).then_some((name, value))
}

fn behind_labels(text: &str) -> Option<&str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, letter) in text.char_indices() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            '}' if !is_quoted => return text.get(at + 1..),
            _ => {}
        }
    }
    None
}

/// Gets a page by HTTP/1.0, which ends it where the connection ends.
fn get(url: &str) -> Result<String> {
    let Some(rest) = url.strip_prefix("http://") else { bail!("only http:// addresses are read") };
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let address = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
    let address = address.to_socket_addrs()?.next().context("there is no such host")?;
    let mut connection = TcpStream::connect_timeout(&address, PATIENCE)?;
    connection.set_read_timeout(Some(PATIENCE))?;
    connection.set_write_timeout(Some(PATIENCE))?;
    let asked = format!("GET /{path} HTTP/1.0\r\nHost: {host}\r\nAccept: text/plain\r\n\r\n");
    connection.write_all(asked.as_bytes())?;
    let mut answer = String::new();
    connection.take(PAGE_BYTES_MAX).read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("the answer is no HTTP")?;
    let status = head.split_whitespace().nth(1).unwrap_or_default();
    ensure!(status == "200", "the answer is {}", head.lines().next().unwrap_or_default());
    Ok(body.to_owned())
}

/// How many flushes of what `grew` the brokers say that they did, and how long those took together; `None` if
/// nothing of that kind is on their pages.
fn flushes(page: &Counted, grew: &Counted) -> Option<(u64, f64)> {
    /// Ours, and Kafka's by the names that the examples of the JMX exporter give it: a count alone.
    const NAMES: [(&str, &str); 2] = [
        ("vltava_log_flush_seconds_count", "vltava_log_flush_seconds_sum"),
        ("kafka_log_logflushstats_logflushrateandtimems_count", ""),
    ];
    let of = |name: &str| grew.get(name).copied().unwrap_or(0.0);
    let known = NAMES.iter().find(|(count, _)| page.contains_key(*count))?;
    Some((of(known.0) as u64, of(known.1)))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    const PAGE: &str = r#"
# HELP vltava_produce_records_total Records.
# TYPE vltava_produce_records_total counter
vltava_produce_records_total{topic="a b} c",why="he said \"}\""} 5
vltava_produce_records_total{topic="other"} 2 1700000000000
# TYPE vltava_partitions gauge
vltava_partitions 6
# TYPE vltava_log_flush_seconds histogram
vltava_log_flush_seconds_bucket{le="+Inf"} 4
vltava_log_flush_seconds_sum 0.5
vltava_log_flush_seconds_count 4
# TYPE jvm_gc summary
jvm_gc{quantile="0.5"} 3
jvm_gc_count{gc="G1"} 2
# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total 12.5
# TYPE process_resident_memory_bytes gauge
process_resident_memory_bytes 1048576
untyped_total 1.5e3
untyped_bytes 9
broken{ 1
nothing NaN
"#;

    #[test]
    fn a_page_is_what_grows_whatever_its_labels() {
        let expected = [
            ("jvm_gc_count", 2.0),
            ("process_cpu_seconds_total", 12.5),
            ("untyped_total", 1_500.0),
            ("vltava_log_flush_seconds_count", 4.0),
            ("vltava_log_flush_seconds_sum", 0.5),
            ("vltava_produce_records_total", 7.0),
        ];
        assert_eq!(parse(PAGE), expected.map(|(name, value)| (name.to_owned(), value)).into());
        // As OpenMetrics has it, the name of a counter's kind is without its ending.
        let open = "# TYPE a counter\na_total 1\na_created 1700000000\n# EOF\n";
        assert_eq!(parse(open), [("a_total".to_owned(), 1.0)].into());
    }

    fn counted(pairs: &[(&str, f64)]) -> Counted {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    #[test]
    fn what_a_run_took_is_the_difference() {
        let page = |counted, started| Page { counted, started, ..Page::default() };
        let then = counted(&[("a", 1.0), ("same", 3.0), ("less", 9.0)]);
        let before = page(then.clone(), Some(1e9));
        let now = counted(&[("a", 4.0), ("same", 3.0), ("less", 1.0), ("first", 2.0)]);
        let grown = page(now.clone(), Some(1e9)).since(&before);
        assert_eq!(grown, counted(&[("a", 3.0), ("first", 2.0)]), "some of its topics are gone");
        let grown = page(now.clone(), None).since(&page(then, None));
        assert_eq!(grown, counted(&[("a", 3.0), ("less", 1.0), ("first", 2.0)]), "it may have begun anew");
        assert_eq!(page(now.clone(), Some(1e9 + 30.0)).since(&before), now, "it was started anew");
        // One of three was, and had counted much.
        let flushed = |count: f64, started| page(counted(&[("flushes_total", count)]), Some(started));
        let all = [flushed(1_000.0, 1.0), flushed(1_000.0, 1.0), flushed(1_000.0, 1.0)];
        let later = [flushed(1_500.0, 1.0), flushed(250.0, 60.0), flushed(1_500.0, 1.0)];
        assert_eq!(Grown::between(&all, &later).counted, counted(&[("flushes_total", 1_250.0)]));
        let page = parse(PAGE);
        assert_eq!(flushes(&page, &page), Some((4, 0.5)));
        assert_eq!(flushes(&page, &Counted::new()), Some((0, 0.0)), "none were needed");
        assert_eq!(flushes(&now, &now), None);
    }

    #[test]
    fn what_the_processes_took_is_known_if_each_of_them_says_it() {
        let page = |cpu_seconds, rss_bytes| Page { cpu_seconds, rss_bytes, ..Page::default() };
        let took = |before: &[Page], now: &[Page]| {
            let grown = Grown::between(before, now);
            (grown.cpu_seconds, grown.rss_bytes)
        };
        assert_eq!(took(&[page(Some(2.0), Some(7.0))], &[page(Some(5.0), Some(6.0))]), (Some(3.0), Some(7)));
        let (one, other) = (page(Some(2.0), Some(7.0)), page(None, None));
        assert_eq!(took(&[one.clone(), other.clone()], &[one.clone(), other]), (None, None));
        let (old, anew) = (page(Some(9.0), None), page(Some(1.0), None));
        assert_eq!(took(&[one.clone(), old], &[one, anew]).0, None, "one was started again");
    }

    #[test]
    fn pages_of_several_brokers_are_added() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let url = format!("http://{}/metrics", listener.local_addr().expect("it listens"));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for answer in ["200 OK", "200 OK", "200 OK", "200 OK", "404 Not Found"] {
                    let (mut connection, _) = listener.accept().expect("it listens");
                    let mut asked = [0; 1024];
                    let count = connection.read(&mut asked).expect("it asks");
                    assert!(asked[..count].starts_with(b"GET /metrics HTTP/1.0\r\n"));
                    let answer = format!("HTTP/1.1 {answer}\r\ncontent-type: text/plain\r\n\r\n{PAGE}");
                    connection.write_all(answer.as_bytes()).expect("it reads");
                }
            });
            let both = read(&[url.clone(), url.clone()]).expect("they answer");
            let grown = Grown::between(&[Page::default(), Page::default()], &both);
            assert_eq!(grown.counted["vltava_produce_records_total"], 14.0);
            assert_eq!((both[0].cpu_seconds, both[1].rss_bytes), (Some(12.5), Some(1_048_576.0)));
            let urls = [url.clone()];
            let mut scraped = Scraped::of(&urls);
            scraped.begin();
            scraped.begin();
            let (grown, fault) = scraped.end();
            let grown = grown.expect("both looks were had");
            assert_eq!((grown.counted, grown.flushes, grown.flush_seconds), (Counted::new(), Some(0), None));
            assert_eq!((grown.cpu_seconds, grown.rss_bytes), (Some(0.0), Some(1_048_576)));
            assert_eq!(fault, None);
            let said = format!("{:#}", read(std::slice::from_ref(&url)).expect_err("it is not there"));
            assert!(said.ends_with("the answer is HTTP/1.1 404 Not Found"), "{said}");
        });
        let said = format!("{:#}", read(&["https://a/".to_owned()]).expect_err("that is not spoken"));
        assert!(said.ends_with("only http:// addresses are read"), "{said}");
    }
}
