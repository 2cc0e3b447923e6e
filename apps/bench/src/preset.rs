//! The experiments that ship, by name.
//!
//! Their sizes are those that were published, with the figure that came of them; `quick` of each is a size that
//! a small machine does in minutes, and its results say that it is.

use anyhow::{Result, anyhow};

use crate::workload::Experiment;
use crate::yaml;

/// An experiment that ships.
#[derive(Debug, Clone, Copy)]
pub struct Preset {
    /// By which it is called.
    pub name: &'static str,
    /// The file, which is what `bench show` prints.
    pub text: &'static str,
}

macro_rules! presets {
    ($($name:literal,)*) => {
        &[$(Preset { name: $name, text: include_str!(concat!("../workloads/", $name, ".yaml")) },)*]
    };
}

/// All of them, in the order of the publications.
pub const PRESETS: &[Preset] = presets![
    "linkedin-1p-rf1",
    "linkedin-1p-rf3-async",
    "linkedin-1p-rf3-sync",
    "linkedin-3p-rf3-async",
    "linkedin-1c",
    "linkedin-3c",
    "linkedin-1p1c",
    "linkedin-stored-data",
    "linkedin-record-size",
    "linkedin-e2e-latency",
    "liveramp-baseline",
    "liveramp-producers",
    "liveramp-partitions",
    "liveramp-replicas",
    "liveramp-topics",
    "liveramp-acks",
    "liveramp-send-latency",
    "confluent-throughput",
    "confluent-latency",
];

impl Preset {
    /// The one of this name.
    pub fn find(name: &str) -> Result<&'static Self> {
        let names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
        PRESETS.iter().find(|preset| preset.name == name).ok_or_else(|| match yaml::nearest(name, &names) {
            Some(near) => anyhow!("there is no benchmark {name}: did you mean {near}?"),
            None => anyhow!("there is no benchmark {name}; `vltava bench list` lists them"),
        })
    }

    /// What is to be measured.
    pub fn experiment(&self, is_quick: bool) -> Result<Experiment> {
        Experiment::read(self.name, self.text, is_quick)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_ship_can_be_read_in_both_sizes() {
        for preset in PRESETS {
            let full = preset.experiment(false).expect(preset.name);
            let quick = preset.experiment(true).expect(preset.name);
            assert_eq!((&*full.name, &*quick.name), (preset.name, preset.name));
            assert_eq!(full.axes, quick.axes, "{}: a short run asks the same", preset.name);
            let published = full.published.expect(preset.name);
            assert!(!published.source.is_empty() && !published.hardware.is_empty(), "{}", preset.name);
            assert!(!published.result.is_empty() && !full.about.is_empty(), "{}", preset.name);
        }
    }

    #[test]
    fn a_name_that_is_nearly_one_is_told() {
        let said = |name| Preset::find(name).expect_err("there is none").to_string();
        assert_eq!(
            said("linkedin-1p-rf2"),
            "there is no benchmark linkedin-1p-rf2: did you mean linkedin-1p-rf1?"
        );
        assert_eq!(said("x"), "there is no benchmark x; `vltava bench list` lists them");
        assert_eq!(Preset::find("linkedin-3c").expect("it is there").name, "linkedin-3c");
    }
}
