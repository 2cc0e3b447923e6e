//! The figures by which runs are compared.

use super::{FlowReport, RunReport};
use crate::histogram::Quantiles;
use crate::statistics::Better;
use crate::workload::{Pace, Workload};

/// A number of a run.
#[derive(Debug, Clone, Copy)]
pub struct Figure {
    /// By which files know it.
    pub name: &'static str,
    /// What it is, for people.
    pub title: &'static str,
    /// How it is shown.
    pub unit: Unit,
    /// Whether more of it is better.
    pub better: Better,
    is_latency: bool,
    /// Whether it is of interest only where more is sent than is taken.
    is_of_overload: bool,
    of: fn(&RunReport) -> Option<f64>,
}

/// How a figure is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Whole ones a second.
    PerSecond,
    /// With a digit behind the point.
    MibPerSecond,
    /// Nanoseconds, shown in a unit that fits.
    Nanoseconds,
    /// Of memory.
    Bytes,
    /// Whole ones.
    Records,
    /// A part of something, shown in percent.
    Share,
}

/// All of them, the most important first.
pub const FIGURES: &[Figure] = &[
    rate("kept_records_per_sec", "kept up with at most, records/s", Unit::PerSecond, |run| {
        run.kept_per_sec()
    }),
    rate("kept_mib_per_sec", "kept up with at most, MiB/s", Unit::MibPerSecond, |run| {
        let flow = run.written.as_ref().filter(|flow| flow.records_per_sec > 0.0)?;
        Some(run.kept_per_sec()? * flow.mib_per_sec / flow.records_per_sec)
    }),
    rate("written_records_per_sec", "written, records/s", Unit::PerSecond, |run| of(&run.written, records)),
    rate("written_mib_per_sec", "written, MiB/s", Unit::MibPerSecond, |run| of(&run.written, mib)),
    rate("read_records_per_sec", "read, records/s", Unit::PerSecond, |run| of(&run.read, records)),
    rate("read_mib_per_sec", "read, MiB/s", Unit::MibPerSecond, |run| of(&run.read, mib)),
    time("response_p50_ns", "until acknowledged, p50", |run| response(&run.written, |found| found.p50)),
    time("response_p99_ns", "until acknowledged, p99", |run| response(&run.written, |found| found.p99)),
    time("response_p999_ns", "until acknowledged, p99.9", |run| response(&run.written, |found| found.p999)),
    // Of few records there is no such part.
    time("response_p9999_ns", "until acknowledged, p99.99", |run| {
        rare(&run.written, 1e5, |found| found.p9999)
    }),
    time("response_p99999_ns", "until acknowledged, p99.999", |run| {
        rare(&run.written, 1e6, |found| found.p99999)
    }),
    time("delay_p99_ns", "from due until taken, p99", |run| {
        run.written.as_ref()?.delay_ns.as_ref().map(|found| found.p99 as f64)
    }),
    time("service_p99_ns", "from taken until acknowledged, p99", |run| {
        run.written.as_ref()?.service_ns.as_ref().map(|found| found.p99 as f64)
    }),
    time("wire_p99_ns", "from the wire until acknowledged, p99", |run| {
        run.written.as_ref()?.wire_ns.as_ref().map(|found| found.p99 as f64)
    }),
    time("end_to_end_p50_ns", "until read, p50", |run| response(&run.read, |found| found.p50)),
    time("end_to_end_p99_ns", "until read, p99", |run| response(&run.read, |found| found.p99)),
    time("end_to_end_p999_ns", "until read, p99.9", |run| response(&run.read, |found| found.p999)),
    time("end_to_end_p9999_ns", "until read, p99.99", |run| rare(&run.read, 1e5, |found| found.p9999)),
    time("end_to_end_p99999_ns", "until read, p99.999", |run| rare(&run.read, 1e6, |found| found.p99999)),
    cost("first_written_ns", "first acknowledgement, after the start", Unit::Nanoseconds, |run| {
        first(&run.written)
    }),
    cost("first_read_ns", "first record read, after the start", Unit::Nanoseconds, |run| first(&run.read)),
    time("send_call_mean_ns", "call of send, mean", |run| run.send_call_ns.map(|found| found.mean)),
    time("send_call_p99_ns", "call of send, p99", |run| run.send_call_ns.map(|found| found.p99 as f64)),
    time("send_call_max_ns", "call of send, longest", |run| run.send_call_ns.map(|found| found.max as f64)),
    rate(
        "stored_first_records_per_sec",
        "written while it fits in memory, records/s",
        Unit::PerSecond,
        |run| run.growth.map(|found| found.first_per_sec),
    ),
    rate("stored_last_records_per_sec", "written behind that, records/s", Unit::PerSecond, |run| {
        run.growth.map(|found| found.last_per_sec)
    }),
    rate("stored_ratio", "behind, of while it fits", Unit::Share, |run| run.growth.map(|found| found.ratio)),
    Figure {
        is_of_overload: true,
        ..rate("overload_of_full_speed", "written, of full speed", Unit::Share, |run| {
            Some(run.written.as_ref()?.records_per_sec / run.full_speed_per_sec?)
        })
    },
    cost("broker_cpu_ns_per_record", "broker CPU a record", Unit::Nanoseconds, |run| {
        run.resources?.broker_cpu_ns_per_record
    }),
    cost("client_cpu_ns_per_record", "client CPU a record", Unit::Nanoseconds, |run| {
        run.resources.map(|found| found.client_cpu_ns_per_record)
    }),
    cost("broker_rss_bytes", "broker memory", Unit::Bytes, |run| {
        run.resources?.rss_bytes_of_brokers().map(|bytes| bytes as f64)
    }),
    overload("client_rss_bytes", "client memory", Unit::Bytes, |run| {
        run.resources.map(|found| found.used.client.rss_bytes as f64)
    }),
    overload("failed_records", "given up, records", Unit::Records, |run| Some(run.failed as f64)),
    overload("close_ns", "close", Unit::Nanoseconds, |run| run.close_ns.map(|found| found as f64)),
];

fn first(flow: &Option<FlowReport>) -> Option<f64> {
    flow.as_ref()?.first_ns.map(|nanos| nanos as f64)
}

type Of = fn(&RunReport) -> Option<f64>;

const fn rate(name: &'static str, title: &'static str, unit: Unit, of: Of) -> Figure {
    Figure { name, title, unit, better: Better::Higher, is_latency: false, is_of_overload: false, of }
}

const fn time(name: &'static str, title: &'static str, of: Of) -> Figure {
    Figure {
        name,
        title,
        unit: Unit::Nanoseconds,
        better: Better::Lower,
        is_latency: true,
        is_of_overload: false,
        of,
    }
}

const fn cost(name: &'static str, title: &'static str, unit: Unit, of: Of) -> Figure {
    Figure { name, title, unit, better: Better::Lower, is_latency: false, is_of_overload: false, of }
}

const fn overload(name: &'static str, title: &'static str, unit: Unit, of: Of) -> Figure {
    Figure { is_of_overload: true, ..cost(name, title, unit, of) }
}

fn of(flow: &Option<FlowReport>, figure: fn(&FlowReport) -> f64) -> Option<f64> {
    flow.as_ref().map(figure)
}

fn records(flow: &FlowReport) -> f64 {
    flow.records_per_sec
}

fn mib(flow: &FlowReport) -> f64 {
    flow.mib_per_sec
}

fn response(flow: &Option<FlowReport>, at: fn(&Quantiles) -> u64) -> Option<f64> {
    flow.as_ref()?.response_ns.as_ref().map(|found| at(found) as f64)
}

/// A part so rare that at least so many have to be counted: ten, then, are beyond it.
fn rare(flow: &Option<FlowReport>, least: f64, at: fn(&Quantiles) -> u64) -> Option<f64> {
    let found = flow.as_ref()?.response_ns.as_ref()?;
    (found.count as f64 >= least).then(|| at(found) as f64)
}

impl Figure {
    /// The one of this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        FIGURES.iter().find(|figure| figure.name == name)
    }

    /// Its value in a run, if the run has it.
    pub fn of(&self, run: &RunReport) -> Option<f64> {
        (self.of)(run)
    }

    /// Whether it says something of a system. Sent as fast as can be, records wait in line, and their latency
    /// is the length of that line; sent at a rate, they come through at that rate or the system is overloaded.
    pub fn says_something(&self, workload: &Workload) -> bool {
        if self.is_of_overload {
            return workload.is_overload();
        }
        let is_paced = (workload.rate != Pace::Max || workload.search.is_some()) && !workload.stored;
        match (self.is_latency, self.better) {
            (true, _) => is_paced || workload.one_at_a_time,
            // Of a rate that could not be kept the throughput tells.
            (false, Better::Higher) => !workload.one_at_a_time,
            (false, Better::Lower) => true,
        }
    }

    /// Whether it tells one system from another. Where the load is a share of what each takes, each has a load of its
    /// own: what the same load does to both, their latencies do not say.
    pub fn compares_systems(&self, workload: &Workload) -> bool {
        self.says_something(workload) && !(self.is_latency && workload.is_overload())
    }

    /// Whether it is a time that something took.
    pub const fn is_latency(&self) -> bool {
        self.is_latency
    }

    /// Whether it says how much came through.
    pub const fn is_rate(&self) -> bool {
        matches!(self.unit, Unit::PerSecond | Unit::MibPerSecond)
    }

    /// A value for people.
    pub fn show(&self, value: f64) -> String {
        match self.unit {
            Unit::PerSecond | Unit::Records => thousands(value),
            Unit::MibPerSecond => format!("{value:.1}"),
            Unit::Nanoseconds => crate::histogram::in_words(value as u64),
            Unit::Bytes => format!("{:.0} MiB", value / crate::histogram::MIB),
            Unit::Share => format!("{:.0} %", value * 100.0),
        }
    }
}

/// A whole number with its thousands apart.
pub(super) fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut said = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            said.push(' ');
        }
        said.push(digit);
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::Probe;
    use crate::workload::Goal;

    #[test]
    fn values_are_shown_for_people() {
        let show = |name, value| Figure::find(name).expect(name).show(value);
        assert_eq!(show("written_records_per_sec", 1_583_000.4), "1 583 000");
        assert_eq!(show("written_records_per_sec", 999.0), "999");
        assert_eq!(show("written_mib_per_sec", 150.26), "150.3");
        assert_eq!(show("response_p99_ns", 1_500_000.0), "1500 µs");
        assert_eq!(show("overload_of_full_speed", 0.934), "93 %");
    }

    #[test]
    fn rare_latencies_are_told_where_there_are_enough_records() {
        let of = |count| {
            let mut report = crate::report::tests::report(Workload::default(), &[("vltava", &[10.0])]);
            let mut run = report.points[0].systems.remove(0).runs.remove(0);
            if let Some(found) = run.written.as_mut().and_then(|flow| flow.response_ns.as_mut()) {
                found.count = count;
            }
            ["response_p9999_ns", "response_p99999_ns"].map(|name| Figure::find(name).expect(name).of(&run))
        };
        assert_eq!(of(99_999), [None, None]);
        assert_eq!(of(100_000), [Some(1.0), None]);
        assert_eq!(of(1_000_000), [Some(1.0), Some(1.0)]);
    }

    #[test]
    fn a_rate_that_was_looked_for_is_told_unless_none_was_kept_up_with() {
        let workload = Workload { search: Some(Goal::default()), ..Workload::default() };
        let mut report = crate::report::tests::report(workload, &[("vltava", &[10.0])]);
        let mut run = report.points[0].systems.remove(0).runs.remove(0);
        let kept = |run: &RunReport| Figure::find("kept_records_per_sec").expect("it is one").of(run);
        run.rate = Some(12.0);
        assert_eq!(kept(&run), None, "it was set");
        run.probes =
            vec![Probe { rate: 12.0, written_per_sec: 12.0, backlog_growth: 0.0, p99_ns: 1, failed: 0 }];
        assert_eq!(
            kept(&run),
            Some(12.0),
            "and not the 10 that came through until the last was acknowledged"
        );
        run.is_rate_missed = true;
        assert_eq!(kept(&run), None);
    }

    #[test]
    fn latency_says_nothing_at_full_speed() {
        let says = |name, workload: &Workload| Figure::find(name).expect(name).says_something(workload);
        let fast = Workload::default();
        assert!(says("written_records_per_sec", &fast) && !says("response_p99_ns", &fast));
        let rate = serde_json::from_value(5_000.into()).expect("it is a rate");
        let paced = Workload { rate, ..Workload::default() };
        assert!(says("written_records_per_sec", &paced) && says("response_p99_ns", &paced));
        let searching = Workload { search: Some(Goal::default()), ..Workload::default() };
        assert!(says("response_p99_ns", &searching), "it is measured at the rate that was found");
        let in_turn = Workload { one_at_a_time: true, ..Workload::default() };
        assert!(!says("written_records_per_sec", &in_turn) && says("end_to_end_p99_ns", &in_turn));
        let rate = serde_json::from_value("150%".into()).expect("it is a rate");
        let overload = Workload { rate, ..Workload::default() };
        assert!(says("overload_of_full_speed", &overload) && !says("overload_of_full_speed", &paced));
        assert!(
            says("close_ns", &overload) && says("response_p99_ns", &overload) && !says("close_ns", &paced)
        );
        let compares = |name, workload: &Workload| Figure::find(name).expect(name).compares_systems(workload);
        for name in ["response_p99_ns", "send_call_mean_ns"] {
            assert!(compares(name, &paced) && !compares(name, &overload), "{name}");
        }
        for name in ["overload_of_full_speed", "broker_rss_bytes", "close_ns", "failed_records"] {
            assert!(compares(name, &overload), "{name}");
        }
    }
}
