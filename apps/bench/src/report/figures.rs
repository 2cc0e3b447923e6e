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
}

/// All of them, the most important first.
pub const FIGURES: &[Figure] = &[
    rate("written_records_per_sec", "written, records/s", Unit::PerSecond, |run| of(&run.written, records)),
    rate("written_mib_per_sec", "written, MiB/s", Unit::MibPerSecond, |run| of(&run.written, mib)),
    rate("read_records_per_sec", "read, records/s", Unit::PerSecond, |run| of(&run.read, records)),
    rate("read_mib_per_sec", "read, MiB/s", Unit::MibPerSecond, |run| of(&run.read, mib)),
    time("response_p50_ns", "until acknowledged, p50", |run| response(&run.written, |found| found.p50)),
    time("response_p99_ns", "until acknowledged, p99", |run| response(&run.written, |found| found.p99)),
    time("response_p999_ns", "until acknowledged, p99.9", |run| response(&run.written, |found| found.p999)),
    time("end_to_end_p50_ns", "until read, p50", |run| response(&run.read, |found| found.p50)),
    time("end_to_end_p99_ns", "until read, p99", |run| response(&run.read, |found| found.p99)),
    time("end_to_end_p999_ns", "until read, p99.9", |run| response(&run.read, |found| found.p999)),
    time("send_call_p99_ns", "call of send, p99", |run| run.send_call_ns.map(|found| found.p99 as f64)),
    time("send_call_max_ns", "call of send, longest", |run| run.send_call_ns.map(|found| found.max as f64)),
    cost("broker_cpu_ns_per_record", "broker CPU a record", Unit::Nanoseconds, |run| {
        run.resources?.broker_cpu_ns_per_record
    }),
    cost("client_cpu_ns_per_record", "client CPU a record", Unit::Nanoseconds, |run| {
        run.resources.map(|found| found.client_cpu_ns_per_record)
    }),
    cost("broker_rss_bytes", "broker memory", Unit::Bytes, |run| {
        run.resources?.used.brokers.map(|found| found.rss_bytes as f64)
    }),
    overload("client_rss_bytes", "client memory", Unit::Bytes, |run| {
        run.resources.map(|found| found.used.client.rss_bytes as f64)
    }),
    overload("failed_records", "given up, records", Unit::Records, |run| Some(run.failed as f64)),
    overload("close_ns", "close", Unit::Nanoseconds, |run| run.close_ns.map(|found| found as f64)),
];

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
        let is_paced = workload.rate != Pace::Max && !workload.stored;
        match (self.is_latency, self.better) {
            (true, _) => is_paced || workload.one_at_a_time,
            // Of a rate that could not be kept the throughput tells.
            (false, Better::Higher) => !workload.one_at_a_time,
            (false, Better::Lower) => true,
        }
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

    #[test]
    fn values_are_shown_for_people() {
        let show = |name, value| Figure::find(name).expect(name).show(value);
        assert_eq!(show("written_records_per_sec", 1_583_000.4), "1 583 000");
        assert_eq!(show("written_records_per_sec", 999.0), "999");
        assert_eq!(show("written_mib_per_sec", 150.26), "150.3");
        assert_eq!(show("response_p99_ns", 1_500_000.0), "1500 µs");
    }

    #[test]
    fn latency_says_nothing_at_full_speed() {
        let says = |name, workload: &Workload| Figure::find(name).expect(name).says_something(workload);
        let fast = Workload::default();
        assert!(says("written_records_per_sec", &fast) && !says("response_p99_ns", &fast));
        let rate = serde_json::from_value(5_000.into()).expect("it is a rate");
        let paced = Workload { rate, ..Workload::default() };
        assert!(says("written_records_per_sec", &paced) && says("response_p99_ns", &paced));
        let in_turn = Workload { one_at_a_time: true, ..Workload::default() };
        assert!(!says("written_records_per_sec", &in_turn) && says("end_to_end_p99_ns", &in_turn));
        let rate = serde_json::from_value("150%".into()).expect("it is a rate");
        let overload = Workload { rate, ..Workload::default() };
        assert!(
            says("close_ns", &overload) && says("response_p99_ns", &overload) && !says("close_ns", &paced)
        );
    }
}
