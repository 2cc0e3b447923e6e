//! How a benchmark goes on, on stderr: a line for each run, and on a terminal one that tells of each second.

use std::io::{self, IsTerminal, Write};

use bench::histogram::in_words;
use bench::load::Second;
use bench::report::{FIGURES, RunReport};
use bench::suite::Event;

pub(super) struct Live {
    is_terminal: bool,
    is_shown: bool,
}

impl Live {
    pub(super) fn begin() -> Self {
        Self { is_terminal: io::stderr().is_terminal(), is_shown: false }
    }

    pub(super) fn tell(&mut self, event: &Event<'_>) {
        match event {
            Event::Run { number, of, point, driver } => {
                let at = point.label();
                let at = if at.is_empty() { at } else { format!(" · {at}") };
                self.end();
                self.say(&format!("run {number} of {of} · {}{at}\n", driver.name));
            }
            Event::Second(window) if self.is_terminal => {
                self.is_shown = true;
                self.say(&format!("\r\x1b[K  {}", of_second(window.second)));
            }
            Event::Second(_) => {}
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
    let wanted = ["written_records_per_sec", "read_records_per_sec", "response_p99_ns", "end_to_end_p99_ns"];
    let figures = FIGURES.iter().filter(|figure| wanted.contains(&figure.name));
    let mut words: Vec<String> = figures
        .filter_map(|figure| Some(format!("{} {}", figure.title, figure.show(figure.of(run)?))))
        .collect();
    if let Some(error_ns) = run.clocks.iter().map(|clock| clock.error_ns).max() {
        words.push(format!("clocks of {} workers to within {}", run.clocks.len(), in_words(error_ns)));
    }
    words.push(run.wrong.clone().unwrap_or_else(|| "all records are as sent".to_owned()));
    words.join(" · ")
}
