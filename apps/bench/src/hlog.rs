//! Histograms of each interval in a file, in the log format of HdrHistogram (version 2 histograms,
//! compressed), which its tools read and plot.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, anyhow};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

use crate::files::stem;
use crate::histogram::histogram;
use crate::load::Window;
use crate::name::in_a_name;
use crate::report::Report;
use crate::suite::Event;

/// A log that is being written.
pub struct Hlog {
    path: PathBuf,
    file: BufWriter<File>,
    serializer: V2DeflateSerializer,
}

impl Hlog {
    /// Times of intervals count from here on.
    pub fn create(path: &Path, what: &str) -> Result<Self> {
        let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        let (mut file, mut serializer) = (BufWriter::new(file), V2DeflateSerializer::new());
        let now = SystemTime::now();
        IntervalLogWriterBuilder::new()
            .add_comment("[Histogram log format version 1.3]")
            .add_comment(&format!("[{what}, in nanoseconds]"))
            .with_start_time(now)
            .with_base_time(now)
            .begin_log_with(&mut file, &mut serializer)?;
        Ok(Self { path: path.to_owned(), file, serializer })
    }

    /// Adds an interval, from and to times after the start.
    pub fn write(
        &mut self,
        from: Duration,
        to: Duration,
        tag: Option<&str>,
        histogram: &Histogram<u64>,
    ) -> Result<()> {
        let mut log = IntervalLogWriterBuilder::new().begin_log_with(&mut self.file, &mut self.serializer)?;
        log.write_histogram(histogram, from, to.saturating_sub(from), tag.and_then(Tag::new))
            .map_err(|error| anyhow!("cannot write {}: {error}", self.path.display()))
    }

    /// Ends the file.
    pub fn finish(mut self) -> Result<()> {
        self.file.flush().with_context(|| format!("cannot write {}", self.path.display()))
    }
}

/// Latencies of each interval, for the file of histograms if there is one.
pub struct Intervals {
    hlog: Option<Hlog>,
    started: Instant,
    interval: Duration,
    current: Histogram<u64>,
    since: Duration,
}

impl Intervals {
    /// Without a path nothing is written.
    pub fn new(path: Option<&Path>, what: &str, interval_ms: u64) -> Result<Self> {
        let hlog = path.map(|path| Hlog::create(path, what)).transpose()?;
        let interval = Duration::from_millis(interval_ms);
        Ok(Self { hlog, started: Instant::now(), interval, current: histogram(), since: Duration::ZERO })
    }

    /// Counts one, and writes the interval if it is over.
    pub fn record(&mut self, latency: Duration) -> Result<()> {
        if self.hlog.is_none() {
            return Ok(());
        }
        self.current.saturating_record(latency.as_nanos() as u64);
        if self.started.elapsed() - self.since < self.interval {
            return Ok(());
        }
        self.write()
    }

    fn write(&mut self) -> Result<()> {
        let Some(hlog) = &mut self.hlog else { return Ok(()) };
        let now = self.started.elapsed();
        hlog.write(self.since, now, None, &self.current)?;
        self.current.reset();
        self.since = now;
        Ok(())
    }

    /// Writes what is left, and ends the file.
    pub fn finish(mut self) -> Result<()> {
        self.write()?;
        self.hlog.map_or(Ok(()), Hlog::finish)
    }
}

/// The seconds of a suite's runs in one file: each run and each time that is measured with a tag of its own,
/// `SYSTEM.POINT.run1.acknowledged` or `….read`. Where a rate is looked for, what it was looked for by and the run at what
/// was found have their own: `….run1.full_speed.read`, `….run1.try_of_5000_records/s.read`, `….run1.run_at_4500_records/s.read`.
pub struct Runs {
    hlog: Hlog,
    folder: PathBuf,
    started: Instant,
    run: String,
}

impl Runs {
    /// Writes into `NAME.hlog.partial` of a folder, until it is known what becomes of it.
    pub fn create(folder: &Path, name: &str) -> Result<Self> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let path = folder.join(format!("{}.hlog.partial", in_a_name(name)));
        let hlog = Hlog::create(&path, &format!("latencies of {name}"))?;
        Ok(Self { hlog, folder: folder.to_owned(), started: Instant::now(), run: String::new() })
    }

    /// What a suite tells while it goes on.
    pub fn tell(&mut self, event: &Event<'_>) -> Result<()> {
        match event {
            Event::Run { run, point, driver, .. } => {
                let words = [driver.name.clone(), point.label(), format!("run{run}")];
                let words: Vec<&str> =
                    words.iter().map(String::as_str).filter(|word| !word.is_empty()).collect();
                self.run = words.join(".");
                Ok(())
            }
            Event::Second { part, window } => self.write(part, window),
            Event::Done(_) => Ok(()),
        }
    }

    fn write(&mut self, part: &str, window: &Window<'_>) -> Result<()> {
        let Window { second, written, read, .. } = window;
        let to = self.started.elapsed();
        let from = to.saturating_sub(Duration::from_secs_f64((second.to - second.from).max(0.0)));
        let warmup = if second.is_warmup { ".warmup" } else { "" };
        for (what, histogram) in [("acknowledged", &written.response), ("read", &read.response)] {
            if !histogram.is_empty() {
                let part = if part.is_empty() { String::new() } else { format!(".{part}") };
                // These end a tag.
                let tag = format!("{}{part}.{what}{warmup}", self.run).replace([' ', ',', '\r', '\n'], "_");
                self.hlog.write(from, to, Some(&tag), histogram)?;
            }
        }
        Ok(())
    }

    /// Ends the file, and gives it the name that goes with a report; it is removed if there is none.
    pub fn finish(self, report: Option<&Report>) -> Result<()> {
        let partial = self.hlog.path.clone();
        self.hlog.finish()?;
        let Some(report) = report else { return Ok(fs::remove_file(&partial)?) };
        let path = self.folder.join(format!("{}.hlog", stem(report)));
        fs::rename(&partial, &path).with_context(|| format!("cannot write {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;
    use crate::load::Second;
    use crate::meter::Measured;

    /// What lies in each tag of a log, and of what is in none.
    fn by_tag(path: &Path) -> BTreeMap<String, Histogram<u64>> {
        let text = fs::read(path).expect("it is there");
        let (mut found, mut deserializer) = (BTreeMap::new(), Deserializer::new());
        for entry in IntervalLogIterator::new(&text) {
            let LogEntry::Interval(interval) = entry.expect("each line can be read") else { continue };
            let bytes = BASE64_STANDARD.decode(interval.encoded_histogram()).expect("it is base64");
            let part: Histogram<u64> = deserializer.deserialize(&mut &bytes[..]).expect("it is a histogram");
            let tag = interval.tag().map(|tag| tag.as_str().to_owned()).unwrap_or_default();
            found.entry(tag).or_insert_with(histogram).add(&part).expect("they have the same bounds");
        }
        found
    }

    /// Also what came behind the last whole second.
    #[test]
    fn the_seconds_of_a_run_are_all_of_it() {
        let folder = tempfile::tempdir().expect("there is a place for files");
        let mut runs = Runs::create(folder.path(), "a b").expect("it can be written");
        runs.run = "vltava.acks=all, x.run1".to_owned();
        let (mut written, mut read) = (histogram(), histogram());
        for (at, is_whole) in [(0, true), (1, true), (2, true), (3, false)] {
            let mut measured = [Measured::default(), Measured::default()];
            measured[0].response.saturating_record(1_000_000 * (at + 1));
            measured[1].response.saturating_record(3_000_000 * (at + 1));
            if at > 0 {
                written.add(&measured[0].response).expect("they have the same bounds");
                read.add(&measured[1].response).expect("they have the same bounds");
            }
            let (from, to) = (at as f64, at as f64 + if is_whole { 1.0 } else { 0.2 });
            let second = Second { from, to, is_warmup: at == 0, ..Second::default() };
            let window = Window { second: &second, written: &measured[0], read: &measured[1], is_whole };
            runs.tell(&Event::Second { part: "", window: &window }).expect("it can be written");
        }
        let report = crate::report::tests::report(crate::workload::Workload::default(), &[]);
        let report = Report { name: "a b".to_owned(), ..report };
        runs.finish(Some(&report)).expect("it can be written");
        let mut found = by_tag(&folder.path().join("a_b.hlog"));
        assert_eq!(found.remove("vltava.acks=all__x.run1.acknowledged"), Some(written));
        assert_eq!(found.remove("vltava.acks=all__x.run1.read"), Some(read));
        let warmup: Vec<&str> = found.keys().map(String::as_str).collect();
        assert_eq!(
            warmup,
            ["vltava.acks=all__x.run1.acknowledged.warmup", "vltava.acks=all__x.run1.read.warmup"]
        );
    }

    #[test]
    fn what_was_written_is_read_without_loss() {
        let folder = tempfile::tempdir().expect("there is a place for files");
        let path = folder.path().join("run.hlog");
        let mut log = Hlog::create(&path, "latency").expect("it can be written");
        let (mut all, mut deserializer) = (histogram(), Deserializer::new());
        for second in 0..3 {
            let mut interval = histogram();
            for nanos in [1, 1_000 + second, 5_000_000_000 * (second + 1)] {
                interval.saturating_record(nanos);
            }
            all.add(&interval).expect("they have the same bounds");
            let from = Duration::from_secs(second);
            log.write(from, from + Duration::from_secs(1), None, &interval).expect("it can be written");
            log.write(from, from + Duration::from_secs(1), Some("service"), &interval).expect("it can, too");
        }
        log.finish().expect("it can be written");
        let text = fs::read(&path).expect("it is there");
        let (mut merged, mut tagged) = (histogram(), 0);
        for entry in IntervalLogIterator::new(&text) {
            let LogEntry::Interval(interval) = entry.expect("each line can be read") else { continue };
            if interval.tag().is_some() {
                tagged += 1;
                continue;
            }
            assert_eq!(interval.duration(), Duration::from_secs(1));
            let histogram = BASE64_STANDARD.decode(interval.encoded_histogram()).expect("it is base64");
            let histogram: Histogram<u64> =
                deserializer.deserialize(&mut &histogram[..]).expect("it is a histogram");
            merged.add(&histogram).expect("they have the same bounds");
        }
        assert_eq!(tagged, 3);
        assert_eq!(merged, all);
    }
}
