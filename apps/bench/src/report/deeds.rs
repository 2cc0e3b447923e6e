//! What was done to brokers while they were measured, and for how long it was felt.

use super::{Grid, Report, RunReport};
use crate::load::Second;

/// What is answered so long after something was done is its doing, unless more was done by then.
const FELT_SECONDS: f64 = 60.0;

impl Report {
    /// What was done to brokers in each run, with the longest that a record then waited for its acknowledgement:
    /// from when it was due, if it was due at any time.
    pub fn deeds(&self) -> Grid {
        let mut grid = Grid::new(["", "", "run", "second", "what", "slowest acknowledgement, ms"]);
        for point in &self.points {
            for system in &point.systems {
                for (number, run) in (1..).zip(&system.runs) {
                    for (place, deed) in run.faults.iter().enumerate() {
                        let next = run.faults.get(place + 1).map_or(f64::MAX, |next| next.at);
                        let slowest = slowest(run, deed.at, next.min(deed.at + FELT_SECONDS));
                        grid.row([
                            point.label(),
                            system.name.clone(),
                            number.to_string(),
                            format!("{:.1}", deed.at),
                            deed.what.clone(),
                            slowest.map_or_else(String::new, |ns| format!("{:.0}", ns as f64 / 1e6)),
                        ]);
                    }
                }
            }
        }
        grid.compact()
    }
}

/// Of the seconds that are over in that time, the first to have begun before it included.
fn slowest(run: &RunReport, from: f64, to: f64) -> Option<u64> {
    let is_felt = |second: &&Second| second.to > from && second.from < to;
    run.seconds.iter().filter(is_felt).filter_map(|second| Some(second.response_ns?.max)).max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::{Quantiles, histogram};
    use crate::system::Deed;
    use crate::workload::Workload;

    #[test]
    fn each_deed_is_told_with_what_it_cost() {
        let second = |from: f64, ms: u64| {
            let mut all = histogram();
            all.saturating_record(ms * 1_000_000);
            Second { from, to: from + 1.0, response_ns: Quantiles::of(&all), ..Second::default() }
        };
        let mut report = crate::report::tests::report(Workload::default(), &[("vltava", &[10.0])]);
        assert!(report.deeds().is_empty(), "nothing was done");
        let run = &mut report.points[0].systems[0].runs[0];
        run.seconds =
            vec![second(0.0, 900), second(1.0, 2), second(2.0, 130), second(3.0, 3), second(4.0, 1)];
        let deed = |at, what: &str| Deed { at, what: what.to_owned() };
        run.faults = vec![deed(2.3, "kill -9 of broker 2"), deed(4.1, "broker 2 started again")];
        let text = report.deeds().text();
        let line = |what: &str| text.lines().find(|line| line.contains(what)).map(str::to_owned);
        assert!(line("kill -9 of broker 2").is_some_and(|line| line.ends_with(" 130")), "{text}");
        assert!(line("broker 2 started again").is_some_and(|line| line.trim_end().ends_with('1')), "{text}");
    }
}
