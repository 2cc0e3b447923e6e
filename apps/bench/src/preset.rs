//! The experiments that ship, by name, and families of them.
//!
//! Their sizes are those that were published, with the figure that came of them; `quick` of each is a size that
//! a small machine does in minutes, and its results say that it is.

use anyhow::{Result, anyhow};
use serde::{Deserialize, Serialize};

use crate::workload::Experiment;
use crate::yaml::{self, Source};

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
    "liveramp-overload",
    "confluent-throughput",
    "confluent-latency",
    "confluent-disk-ceiling",
];

/// Several experiments under one name.
#[derive(Debug, Clone)]
pub struct Family {
    /// By which it is called.
    pub name: String,
    /// What it shows.
    pub about: String,
    /// Its experiments, in order.
    pub members: Vec<&'static Preset>,
    /// Whether it is made of their short forms, whoever asks.
    pub is_quick: bool,
    /// The file that says so, if there is one.
    pub text: Option<&'static str>,
}

/// The main picture, in minutes.
const QUICK: &str = include_str!("../workloads/quick.yaml");
/// What begins with one of these is a family, with who published it.
const PUBLISHED: [(&str, &str); 3] = [
    ("linkedin", "What LinkedIn measured in 2014"),
    ("liveramp", "What LiveRamp measured in 2013"),
    ("confluent", "What Confluent measured"),
];

/// A file that names experiments.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Picture {
    name: String,
    about: String,
    experiments: Vec<String>,
}

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

impl Family {
    /// All of them.
    pub fn all() -> Result<Vec<Self>> {
        let published = PUBLISHED.map(|(name, about)| Self {
            name: name.to_owned(),
            about: about.to_owned(),
            members: PRESETS.iter().filter(|preset| is_of(preset.name, name)).collect(),
            is_quick: false,
            text: None,
        });
        let source = Source { name: "quick", text: QUICK };
        let fields = source.fields()?;
        source.only(&fields, &yaml::names::<Picture>())?;
        let Picture { name, about, experiments } = source.typed(&fields)?;
        let members = experiments.iter().map(|name| Preset::find(name)).collect::<Result<_>>()?;
        let quick = Self { name, about, members, is_quick: true, text: Some(QUICK) };
        Ok([quick].into_iter().chain(published).collect())
    }

    /// The one of this name, if there is one.
    pub fn find(name: &str) -> Result<Option<Self>> {
        Ok(Self::all()?.into_iter().find(|family| family.name == name))
    }
}

/// Whether a name is that of the family, a hyphen, and its own.
fn is_of(name: &str, family: &str) -> bool {
    name.strip_prefix(family).is_some_and(|rest| rest.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Point;

    #[test]
    fn those_that_ship_can_be_read_in_both_sizes() {
        for preset in PRESETS {
            let full = preset.experiment(false).expect(preset.name);
            let quick = preset.experiment(true).expect(preset.name);
            assert_eq!((&*full.name, &*quick.name), (preset.name, preset.name));
            assert_eq!(full.axes, quick.axes, "{}: a short run asks the same", preset.name);
            let published = full.published.as_ref().expect(preset.name);
            assert!(!published.source.is_empty() && !published.hardware.is_empty(), "{}", preset.name);
            assert!(!published.result.is_empty() && !full.about.is_empty(), "{}", preset.name);
        }
    }

    #[test]
    fn presets_give_a_jvm_time_to_warm_up() {
        for preset in PRESETS {
            // Those of LiveRamp have many points: their short forms would take an hour.
            let least = match preset.name {
                "confluent-latency" => [60.0, 30.0],
                name if name.starts_with("liveramp") => [10.0, 7.0],
                _ => [10.0, 10.0],
            };
            for (is_quick, least) in [false, true].into_iter().zip(least) {
                for Point { workload, .. } in preset.experiment(is_quick).expect(preset.name).points {
                    let is_warm = workload.warmup_seconds >= least || workload.stored;
                    let is_excused =
                        workload.ceiling.is_some() || is_quick && workload.replication_factor < 3;
                    assert!(is_warm || is_excused, "{}: {workload:?}", preset.name);
                }
            }
        }
    }

    #[test]
    fn a_family_is_all_whose_names_begin_with_its_own() {
        let members = |name: &str| {
            let family = Family::find(name).expect("they can be read")?;
            assert!(!family.about.is_empty(), "{name}");
            Some(family.members.iter().map(|preset| preset.name).collect::<Vec<_>>())
        };
        let sizes = PUBLISHED.map(|(name, _)| {
            let members = members(name).expect(name);
            assert!(members.iter().all(|member| member.starts_with(name)), "{members:?}");
            members.len()
        });
        assert_eq!(sizes.iter().sum::<usize>(), PRESETS.len(), "each is in one of them");
        assert_eq!(members("linkedin").and_then(|members| members.first().copied()), Some("linkedin-1p-rf1"));
        assert_eq!((members("linked"), members("linkedin-3c")), (None, None));
        assert!(!is_of("linkedinx-3c", "linkedin") && !is_of("linkedin", "linkedin"));
        let quick = Family::find("quick").expect("it can be read").expect("there is one");
        assert!(quick.is_quick && quick.members.len() > 4);
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
