//! What the harness says of a broker.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use hdrhistogram::Histogram;
use vltava_bench::driver::{Driver, Warmup};
use vltava_bench::load::{self, Outcome, Target};
use vltava_bench::report::Report;
use vltava_bench::resources::Sources;
use vltava_bench::suite::Suite;
use vltava_bench::system::Site;
use vltava_bench::workload::{Experiment, Workload};

use crate::broker::Broker;

/// A workload, as a file has it.
pub(crate) fn workload(text: &str) -> Workload {
    let experiment = Experiment::read("w.yaml", &format!("name: truth\n{text}"), false);
    experiment.expect("it is right").points.remove(0).workload
}

/// Runs a workload on a broker.
pub(crate) fn run(broker: &Broker, text: &str) -> Outcome {
    let (servers, workload) = (broker.servers(), workload(text));
    let (driver, sources, stop) = (Driver::at(&servers), Sources::default(), AtomicBool::new(false));
    let target = Target {
        servers: &servers,
        sources,
        driver: &driver,
        workload: &workload,
        stop: &stop,
        read_for: Duration::ZERO,
    };
    load::run(target, &mut |_| {}).expect("the broker answers")
}

/// Has all of an experiment measured on a broker.
pub(crate) fn measure(broker: &Broker, text: &str) -> Report {
    measure_warm(broker, text, None)
}

/// The same, on a broker that is warmed up before.
pub(crate) fn measure_warm(broker: &Broker, text: &str, warmup: Option<Warmup>) -> Report {
    let experiment = Experiment::read("w.yaml", &format!("name: truth\n{text}"), false).expect("it is right");
    let drivers = [Driver { warmup, ..Driver::at(&broker.servers()) }];
    let stop = AtomicBool::new(false);
    let dir = std::env::temp_dir();
    let site = Site { vltava: "none".into(), kafka: None, dir, port: 20_000, ballast: None };
    let suite = Suite {
        experiment: &experiment,
        drivers: &drivers,
        runs: 1,
        site: &site,
        ceilings: None,
        command: "",
        version: "",
        fleet: None,
        export: None,
        stop: &stop,
    };
    suite.measure(&mut |_| {}).expect("what fails is part of the report")
}

/// Times, so that they can be compared with a histogram's.
pub(crate) struct Truth(Vec<u64>);

/// A histogram has three digits.
const PRECISION: f64 = 1e-3;

impl Truth {
    pub(crate) fn of(times: impl IntoIterator<Item = Duration>) -> Self {
        let mut nanos: Vec<u64> = times.into_iter().map(|time| time.as_nanos() as u64).collect();
        nanos.sort_unstable();
        Self(nanos)
    }

    /// The time that so large a share of them does not exceed.
    pub(crate) fn at(&self, quantile: f64) -> f64 {
        let place = (quantile * self.0.len() as f64).ceil() as usize;
        self.0[place.clamp(1, self.0.len()) - 1] as f64
    }

    /// Every one of the histogram's is at least as long as its own.
    pub(crate) fn is_least_of(&self, found: &Histogram<u64>, what: &str) {
        assert_eq!(found.len(), self.0.len() as u64, "{what}: every record is counted once");
        for quantile in [0.0, 0.01, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0] {
            let (least, found) = (self.at(quantile), found.value_at_quantile(quantile) as f64);
            assert!(found >= least * (1.0 - PRECISION), "{what}, {quantile}: {found} ns, at least {least}");
        }
    }
}

impl Truth {
    /// None of the histogram's is longer than its own.
    pub(crate) fn is_most_of(&self, found: &Histogram<u64>, what: &str) {
        assert_eq!(found.len(), self.0.len() as u64, "{what}: every record is counted once");
        for quantile in [0.0, 0.01, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0] {
            let (most, found) = (self.at(quantile), found.value_at_quantile(quantile) as f64);
            assert!(found <= most * (1.0 + PRECISION), "{what}, {quantile}: {found} ns, at most {most}");
        }
    }
}

/// How many took longer.
pub(crate) fn longer_than(time: Duration, found: &Histogram<u64>) -> u64 {
    found.count_between(time.as_nanos() as u64, u64::MAX)
}
