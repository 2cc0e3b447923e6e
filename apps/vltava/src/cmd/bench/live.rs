//! How a benchmark goes on, on stderr: a line for each run, and on a terminal one that tells of each second, how
//! much is done, and how long the rest will take at this pace.

use std::io::{self, IsTerminal, Write};

use bench::histogram::in_words;
use bench::load::Second;
use bench::report::{FIGURES, RunReport};
use bench::suite::Event;
use bench::workload::Workload;

pub(super) struct Live {
    is_terminal: bool,
    is_shown: bool,
    progress: Progress,
}

impl Live {
    pub(super) fn begin() -> Self {
        Self { is_terminal: io::stderr().is_terminal(), is_shown: false, progress: Progress::default() }
    }

    pub(super) fn tell(&mut self, event: &Event<'_>) {
        match event {
            Event::Run { number, of, point, driver, .. } => {
                let at = point.label();
                let at = if at.is_empty() { at } else { format!(" · {at}") };
                self.end();
                self.progress = Progress::of(&point.workload);
                self.say(&format!("run {number} of {of} · {}{at}\n", driver.name));
            }
            Event::Second { part, window } if self.is_terminal && window.is_whole => {
                self.is_shown = true;
                let part =
                    if part.is_empty() { self.progress.after(window.second) } else { format!("{part} · ") };
                self.say(&format!("\r\x1b[K  {part}{}", of_second(window.second)));
            }
            Event::Second { .. } => {}
            Event::Done(run) => {
                self.end();
                self.say(&format!("  {}\n", of_run(run)));
            }
        }
    }

    /// Takes the line away.
    pub(super) fn end(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            self.say("\r\x1b[K");
        }
    }

    fn say(&self, text: &str) {
        let mut stderr = io::stderr().lock();
        // Whoever closed the terminal does not miss it.
        let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
    }
}

/// How much of a run is done.
#[derive(Default)]
struct Progress {
    /// Measured records that there will be, or else how long it takes with its warm-up.
    records: Option<u64>,
    seconds: f64,
    is_stored: bool,
    /// Measured records so far, and when the first of them came.
    counted: u64,
    from: f64,
}

impl Progress {
    fn of(workload: &Workload) -> Self {
        Self {
            records: workload.records,
            // Brokers are warm by the time that more is sent than they take.
            seconds: if workload.is_overload() { 0.0 } else { workload.warmup_seconds } + workload.seconds,
            is_stored: workload.stored,
            ..Self::default()
        }
    }

    /// A bar and what is left, after one more second; nothing before anything is known.
    fn after(&mut self, second: &Second) -> String {
        let count = if self.is_stored { second.read.records } else { second.written.records };
        if second.is_warmup {
            self.from = second.to;
        } else {
            self.counted += count;
        }
        let share = match self.records {
            Some(records) => self.counted as f64 / records.max(1) as f64,
            None => second.to / self.seconds,
        };
        if share <= 0.0 {
            return String::new();
        }
        let since = if self.records.is_some() { second.to - self.from } else { second.to };
        let share = share.min(1.0);
        let left = since / share - since;
        let full = (share * f64::from(BAR)) as usize;
        let bar: String = (0..BAR as usize).map(|at| if at < full { '█' } else { '░' }).collect();
        format!("{bar} {:3.0} % · {left:.0} s left · ", 100.0 * share)
    }
}

/// Characters of a bar.
const BAR: u32 = 20;

fn of_second(second: &Second) -> String {
    let seconds = (second.to - second.from).max(1e-3);
    let rate = |records: u64| records as f64 / seconds;
    let mut words = vec![format!("{:4.0} s", second.to)];
    if second.is_warmup {
        words.push("warm-up".to_owned());
    }
    if second.written.records > 0 {
        words.push(format!("{:.0} records/s written", rate(second.written.records)));
    }
    if let Some(found) = &second.response_ns {
        words.push(format!("p50 {} p99 {}", in_words(found.p50), in_words(found.p99)));
    }
    if second.read.records > 0 {
        words.push(format!("{:.0} records/s read", rate(second.read.records)));
    }
    if let Some(found) = &second.end_to_end_ns {
        words.push(format!("until read p50 {} p99 {}", in_words(found.p50), in_words(found.p99)));
    }
    words.join(" · ")
}

fn of_run(run: &RunReport) -> String {
    let wanted = [
        "kept_records_per_sec",
        "written_records_per_sec",
        "read_records_per_sec",
        "response_p99_ns",
        "end_to_end_p99_ns",
    ];
    let figures = FIGURES.iter().filter(|figure| wanted.contains(&figure.name));
    let mut words: Vec<String> = figures
        .filter_map(|figure| Some(format!("{} {}", figure.title, figure.show(figure.of(run)?))))
        .collect();
    if let Some(error_ns) = run.clock_error_ns() {
        words.push(format!("clocks of {} workers to within {}", run.clocks.len(), in_words(error_ns)));
    }
    words.push(run.wrong.clone().unwrap_or_else(|| "all records are as sent".to_owned()));
    words.join(" · ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(from: f64, records: u64, is_warmup: bool) -> Second {
        let mut second = Second { from, to: from + 1.0, is_warmup, ..Second::default() };
        second.written.records = records;
        second
    }

    #[test]
    fn what_is_done_and_what_is_left_is_told_by_records_or_by_time() {
        let mut progress = Progress::of(&Workload { records: Some(4_000), ..Workload::default() });
        assert_eq!(progress.after(&second(0.0, 900, true)), "", "a warm-up counts for nothing");
        let done = progress.after(&second(1.0, 1_000, false));
        assert_eq!(done, "█████░░░░░░░░░░░░░░░  25 % · 3 s left · ");
        let done = progress.after(&second(2.0, 9_000, false));
        assert!(done.contains("100 % · 0 s left"), "{done}");

        let timed = Workload { warmup_seconds: 1.0, seconds: 9.0, ..Workload::default() };
        let mut progress = Progress::of(&timed);
        let done = progress.after(&second(1.0, 0, false));
        assert_eq!(done, "████░░░░░░░░░░░░░░░░  20 % · 8 s left · ");
    }
}
