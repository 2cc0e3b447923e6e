//! Whether what was measured at full speed was as fast at its end as at its start: a system that still warms up is told
//! by a rate that is less than what it comes to, and one that tires by one that is more.

use super::resources::median;
use super::{Report, RunReport};
use crate::load::Second;
use crate::tries::{GAIN_MIN, WARMUP_IN_VAIN_MAX, ended_steady, last_gain};
use crate::workload::{Pace, Workload};

/// Thirds that differ by more than this share are worth a word.
const DRIFT: f64 = 0.15;
/// Of less than so many whole seconds it is not known.
const SECONDS_MIN: usize = 6;

impl Report {
    /// What was said of it while it was made, and what its seconds say.
    pub fn remarks(&self) -> Vec<String> {
        let systems = self.system_names();
        let of_seconds = systems.iter().flat_map(|name| {
            [self.warmed_up(name), self.drift(name, true), self.drift(name, false), self.is_short(name)]
                .into_iter()
                .flatten()
        });
        self.notes.iter().cloned().chain(of_seconds).collect()
    }

    fn system_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for system in self.points.iter().flat_map(|point| &point.systems) {
            if !names.contains(&&*system.name) {
                names.push(&system.name);
            }
        }
        names
    }

    /// How often the workload was tried on a system's brokers before each run.
    fn warmed_up(&self, name: &str) -> Option<String> {
        let systems =
            self.points.iter().flat_map(|point| &point.systems).filter(|system| system.name == name);
        let runs: Vec<&RunReport> =
            systems.flat_map(|system| &system.runs).filter(|run| run.warmup_tries > 0).collect();
        let cold: Vec<&RunReport> = runs.iter().copied().filter(|run| !run.are_brokers_kept).collect();
        let tries = || cold.iter().map(|run| run.warmup_tries);
        let (least, most) = (tries().min()?, tries().max()?);
        let times = if least == most { most.to_string() } else { format!("{least} to {most}") };
        let gains = cold.iter().filter_map(|run| last_gain(&run.warmup_speeds));
        let gain = gains.reduce(f64::max).filter(|gain| *gain > GAIN_MIN - 1.0);
        let is_unsteady = |speeds: &[f64]| !speeds.is_empty() && !ended_steady(speeds);
        let unsteady = cold.iter().filter(|run| is_unsteady(&run.warmup_speeds)).count();
        let still = match (gain, unsteady) {
            (Some(gain), _) => {
                let gain = 100.0 * gain;
                format!(", of which the last was still up to {gain:.0} % faster than the best before it")
            }
            (None, 0) => String::new(),
            (None, _) => format!(
                ", which ended {unsteady} times by their number and not because the last {WARMUP_IN_VAIN_MAX} were in vain"
            ),
        };
        let when = match runs.len() - cold.len() {
            0 => format!("before each run{still}"),
            kept => format!(
                "before {} of {} runs{still}; before the other {kept} by one, on the brokers of the point before",
                cold.len(),
                runs.len()
            ),
        };
        Some(format!("{name} was warmed up by {times} tries of what is measured {when}"))
    }

    /// Whether runs of a system at full speed were too short to show whether it became faster or slower.
    fn is_short(&self, name: &str) -> Option<String> {
        let points = self.points.iter().filter(|point| is_full_speed(&point.workload));
        let systems = points.flat_map(|point| &point.systems).filter(|system| system.name == name);
        let runs: Vec<usize> = systems
            .flat_map(|system| &system.runs)
            .filter(|run| run.got_through())
            .map(|run| steady(run).len())
            .collect();
        let least = runs.iter().min()?;
        let short = runs.iter().filter(|seconds| **seconds < SECONDS_MIN).count();
        (short > 0).then(|| {
            format!(
                "{short} of {} runs of {name} had fewer than {SECONDS_MIN} whole seconds ({least} at least): whether it \
                 still became faster or slower does not show",
                runs.len()
            )
        })
    }

    /// Whether a system became faster, or slower, while it was measured: at how many points, and how much at most.
    fn drift(&self, name: &str, faster: bool) -> Option<String> {
        let mut found: Vec<(f64, String)> = Vec::new();
        let mut looked_at = 0;
        for point in self.points.iter().filter(|point| is_full_speed(&point.workload)) {
            let system = point.systems.iter().find(|system| system.name == name);
            let Some(times) = system.and_then(|system| median(system, of_run)) else { continue };
            looked_at += 1;
            let share = if faster { times - 1.0 } else { 1.0 - times };
            if share > DRIFT {
                found.push((share, point.label()));
            }
        }
        let (most, at) = found.iter().max_by(|one, other| one.0.total_cmp(&other.0))?;
        let (most, word) = (100.0 * most, if faster { "faster" } else { "slower" });
        let of = if at.is_empty() { String::new() } else { format!(" (at {at})") };
        let points =
            if looked_at > 1 { format!(" at {} of {looked_at} points", found.len()) } else { String::new() };
        Some(format!(
            "{name} became {word} while it was measured{points}: the last third of a run was {most:.0} % {word} than the \
             first{of}; a longer run tells another rate"
        ))
    }
}

/// Only what is sent and read as fast as can be has a rate of its own.
fn is_full_speed(workload: &Workload) -> bool {
    workload.search.is_none() && (workload.rate == Pace::Max || workload.one_at_a_time || workload.stored)
}

fn steady(run: &RunReport) -> Vec<&Second> {
    run.seconds.iter().filter(|second| !second.is_warmup).collect()
}

/// How many times as fast the last third was as the first.
fn of_run(run: &RunReport) -> Option<f64> {
    let seconds = steady(run);
    if seconds.len() < SECONDS_MIN {
        return None;
    }
    let rate = |of: &[&Second]| {
        let records = |second: &&Second| match run.written {
            Some(_) => second.written.records,
            None => second.read.records,
        };
        let took: f64 = of.iter().map(|second| second.to - second.from).sum();
        of.iter().map(records).sum::<u64>() as f64 / took
    };
    let third = seconds.len() / 3;
    let times = rate(&seconds[seconds.len() - third..]) / rate(&seconds[..third]);
    (times.is_finite() && times > 0.0).then_some(times)
}

#[cfg(test)]
mod tests {
    use super::super::tests::report;
    use super::*;
    use crate::meter::Counts;

    #[test]
    fn who_becomes_faster_while_it_is_measured_is_told() {
        let mut report = report(Workload::default(), &[("ours", &[10.0, 10.0]), ("theirs", &[5.0, 5.0])]);
        let seconds = |rates: &[u64]| {
            let second = |(at, records): (u32, &u64)| Second {
                from: f64::from(at),
                to: f64::from(at) + 1.0,
                is_warmup: at == 0,
                written: Counts { records: *records, bytes: 0 },
                ..Second::default()
            };
            (0..).zip(rates).map(second).collect::<Vec<_>>()
        };
        let systems = &mut report.points[0].systems;
        for run in &mut systems[0].runs {
            run.seconds = seconds(&[1, 10, 11, 9, 10, 10, 11]);
        }
        for run in &mut systems[1].runs {
            // The first is its warm-up.
            run.seconds = seconds(&[900, 4, 4, 5, 5, 6, 6]);
        }
        assert_eq!(
            report.remarks(),
            [
                "theirs became faster while it was measured: the last third of a run was 50 % faster than the first; a longer \
              run tells another rate"
            ]
        );
        for second in report.points[0].systems[1].runs.iter_mut().flat_map(|run| &mut run.seconds) {
            second.written.records = 1 + 10 / (1 + second.from as u64);
        }
        assert!(report.remarks()[0].starts_with("theirs became slower"), "{:?}", report.remarks());
        for run in &mut report.points[0].systems[0].runs[1..] {
            run.seconds.truncate(4);
        }
        assert_eq!(
            report.remarks()[0],
            "1 of 2 runs of ours had fewer than 6 whole seconds (3 at least): whether it still became faster or slower \
             does not show"
        );
        report.points[0].workload.rate = Pace::Rate(crate::schedule::Rate::constant(5.0));
        assert!(report.remarks().is_empty(), "whoever keeps a rate keeps it");
        for (run, speeds) in
            report.points[0].systems[1].runs.iter_mut().zip([[1.0, 2.0, 1.9], [1.0, 2.0, 2.2]])
        {
            (run.warmup_tries, run.warmup_speeds) = (3, speeds.to_vec());
        }
        assert_eq!(
            report.remarks(),
            [
                "theirs was warmed up by 3 tries of what is measured before each run, of which the last was still up to 10 % \
              faster than the best before it"
            ]
        );
        let last = |report: &mut Report, speeds: &[f64]| {
            let runs = &mut report.points[0].systems[1].runs;
            runs[0].warmup_speeds = speeds.to_vec();
            (runs[1].warmup_tries, runs[1].warmup_speeds, runs[1].are_brokers_kept) = (1, vec![2.0], true);
            report.remarks().pop().unwrap_or_default()
        };
        let of_kept = "before the other 1 by one, on the brokers of the point before";
        let told = "theirs was warmed up by 3 tries of what is measured before 1 of 2 runs";
        assert_eq!(last(&mut report, &[1.0, 2.0, 1.9, 2.0]), format!("{told}; {of_kept}"));
        let unsteady = "which ended 1 times by their number and not because the last 2 were in vain";
        assert_eq!(last(&mut report, &[1.0, 2.0, 2.05]), format!("{told}, {unsteady}; {of_kept}"));
    }
}
