//! Who may import whom: each `Cargo.toml` against `layers.toml`.
//!
//! The table and the crates must agree both ways, so that the table is the truth and not a wish: a
//! crate uses exactly the crates its line names. What only its tests use may lie anywhere below it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde::Deserialize;

use super::Finding;
use super::files::Tree;

/// The crates of others that those of `core/` may use, and use: they compute. What waits, reads clocks, draws lots, logs
/// or opens files and sockets is none of them.
const IN_CORE: &[&str] = &[
    "crc-fast",
    "flate2",
    "foldhash",
    "hashbrown",
    "lz4_flex",
    "regex",
    "regex-lite",
    "serde",
    "smallvec",
    "snap",
    "thiserror",
    "zstd",
];

/// The sections of the table, lowest first: a crate uses those of its own section and below.
const SECTIONS: &[&str] = &["core", "edge", "apps", "tests"];

/// The one crate of `edge/` that puts the others together.
const WIRING: &str = "server";
/// What every crate of `edge/` may use: log lines and metrics are made everywhere.
const SHARED_EDGE: &str = "telemetry";

/// Section (the folder) → crate → the crates it uses.
type Layers = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
struct Manifest {
    #[serde(default)]
    dependencies: BTreeMap<String, toml::Value>,
    #[serde(default)]
    dev_dependencies: BTreeMap<String, toml::Value>,
    #[serde(default)]
    build_dependencies: BTreeMap<String, toml::Value>,
    /// What is used on some systems only.
    #[serde(default)]
    target: BTreeMap<String, Manifest>,
    workspace: Option<WorkspaceTable>,
}

impl Manifest {
    /// What the crate itself is made with, on any system.
    fn uses(&self) -> BTreeSet<String> {
        let own = self.dependencies.keys().chain(self.build_dependencies.keys()).cloned();
        own.chain(self.target.values().flat_map(Self::uses)).collect()
    }

    /// What its tests use besides.
    fn tests_use(&self) -> BTreeSet<String> {
        let own = self.dev_dependencies.keys().cloned();
        own.chain(self.target.values().flat_map(Self::tests_use)).collect()
    }
}

#[derive(Deserialize)]
struct WorkspaceTable {
    #[serde(default)]
    dependencies: BTreeMap<String, toml::Value>,
}

pub(super) fn check(tree: &Tree, found: &mut Vec<Finding>) -> Result<()> {
    let layers: Layers = parse(tree, "layers.toml")?;
    let ours = our_crates(tree)?;
    check_table(tree, &layers, found);
    let mut in_core = BTreeSet::new();
    for name in tree.names.iter().filter(|name| name.ends_with("/Cargo.toml")) {
        let manifest: Manifest = parse(tree, name)?;
        let folder = name.trim_end_matches("/Cargo.toml");
        check_crate(folder, &manifest, &layers, &ours, found);
        if folder.starts_with("core/") {
            in_core.extend(manifest.uses());
        }
    }
    for idle in IN_CORE.iter().filter(|name| !in_core.contains(**name)) {
        found.push(Finding::new("core", format!("uses no {idle}: take it out of IN_CORE in xtask tidy")));
    }
    Ok(())
}

fn parse<T: serde::de::DeserializeOwned>(tree: &Tree, name: &str) -> Result<T> {
    let text = tree.texts.get(name).with_context(|| format!("{name} is missing"))?;
    toml::from_str(text).with_context(|| format!("{name} cannot be parsed"))
}

/// The short names under which the workspace imports its own crates.
fn our_crates(tree: &Tree) -> Result<BTreeSet<String>> {
    let root: Manifest = parse(tree, "Cargo.toml")?;
    let table = root.workspace.context("Cargo.toml has no [workspace]")?.dependencies;
    let ours = table.into_iter().filter(|(_, value)| value.get("path").is_some());
    Ok(ours.map(|(name, _)| name).collect())
}

/// Every crate that the table names must exist, and the table itself must point downwards only.
fn check_table(tree: &Tree, layers: &Layers, found: &mut Vec<Finding>) {
    for (section, crates) in layers {
        for name in crates.keys() {
            if !tree.names.contains(&format!("{section}/{name}/Cargo.toml")) {
                found.push(Finding::new("layers.toml", format!("names {section}/{name}, which is no crate")));
            }
        }
    }
    let wrong = check_directions(layers);
    found.extend(wrong.into_iter().map(|wrong| Finding::new("layers.toml", wrong)));
}

/// What is wrong with the table alone: names it does not define, lines that point to a higher section,
/// or within `edge/` to each other, cycles.
fn check_directions(layers: &Layers) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut section_of = BTreeMap::new();
    for (section, crates) in layers {
        if !SECTIONS.contains(&section.as_str()) {
            wrong.push(format!("has a section {section}, which is none of {}", SECTIONS.join(", ")));
        }
        for name in crates.keys() {
            if section_of.insert(name, section).is_some() {
                wrong.push(format!("names two crates {name}"));
            }
        }
    }
    let height = |section: &String| SECTIONS.iter().position(|known| known == section);
    for (section, crates) in layers {
        for (name, listed) in crates {
            for other in listed {
                match section_of.get(other) {
                    None => wrong.push(format!("lets {name} use {other}, which has no line")),
                    Some(above) if height(above) > height(section) => {
                        wrong.push(format!("lets {section}/{name} use {above}/{other}, which lies above it"));
                    }
                    Some(&beside) if beside == section && beside == "edge" && !may_use_edge(name, other) => {
                        wrong.push(format!(
                            "lets {name} use {other}: in edge/ only {WIRING} knows the others"
                        ));
                    }
                    Some(_) => {}
                }
            }
            if below(listed, layers).contains(name) {
                wrong.push(format!("lets {name} use itself, by way of {}", words(listed)));
            }
        }
    }
    wrong
}

/// Whether a crate of `edge/` may use that other one of `edge/`.
fn may_use_edge(name: &str, other: &str) -> bool {
    name == WIRING || other == SHARED_EDGE
}

fn words(names: &BTreeSet<String>) -> String {
    names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

fn check_crate(
    folder: &str,
    manifest: &Manifest,
    layers: &Layers,
    ours: &BTreeSet<String>,
    found: &mut Vec<Finding>,
) {
    let uses_all = manifest.uses();
    let (uses, tests_use) = (&uses_all & ours, &manifest.tests_use() & ours);
    let Some((section, name)) = folder.split_once('/') else {
        // A tool beside the layers builds while they do not.
        for other in uses.union(&tests_use) {
            found.push(Finding::new(folder, format!("uses {other}, but a tool uses no crate of ours")));
        }
        return;
    };
    let listed = layers.get(section).and_then(|crates| crates.get(name));
    let Some(listed) = listed else {
        if tree_member(folder) {
            found.push(Finding::new(folder, "has no line in layers.toml"));
        }
        return;
    };
    for other in uses.difference(listed) {
        found
            .push(Finding::new(folder, format!("uses {other}, which its line in layers.toml does not name")));
    }
    for other in listed.difference(&uses) {
        found.push(Finding::new(
            folder,
            format!("does not use {other}: take it out of its line in layers.toml"),
        ));
    }
    let below = below(listed, layers);
    for other in tests_use.difference(&below) {
        found.push(Finding::new(folder, format!("its tests use {other}, which does not lie below it")));
    }
    if section == "core" {
        for other in uses_all.difference(ours).filter(|other| !IN_CORE.contains(&other.as_str())) {
            let wrong =
                format!("uses {other}, which is not in IN_CORE of xtask tidy: core/ decides, it does not do");
            found.push(Finding::new(folder, wrong));
        }
    }
}

/// Fuzz targets are built apart from the workspace, with another toolchain; the load of the benchmark, with
/// a C compiler.
fn tree_member(folder: &str) -> bool {
    !["tests/fuzz", "xtask/load"].contains(&folder)
}

/// Everything that lies below a crate with these layers.
fn below(listed: &BTreeSet<String>, layers: &Layers) -> BTreeSet<String> {
    let mut below = BTreeSet::new();
    let mut next: Vec<&String> = listed.iter().collect();
    while let Some(name) = next.pop() {
        if below.insert(name.clone()) {
            next.extend(layers.values().filter_map(|crates| crates.get(name)).flatten());
        }
    }
    below
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(ToString::to_string).collect()
    }

    fn findings(folder: &str, manifest: &str) -> Vec<String> {
        let layers: Layers = toml::from_str(
            "[core]\nbase = []\nrecords = ['base']\nstorage = ['records']\n[edge]\ndisk = ['storage']",
        )
        .expect("the table is well-formed");
        let manifest: Manifest = toml::from_str(manifest).expect("the manifest is well-formed");
        let mut found = Vec::new();
        let ours = set(&["base", "records", "storage", "disk"]);
        check_crate(folder, &manifest, &layers, &ours, &mut found);
        found.into_iter().map(|finding| finding.wrong).collect()
    }

    #[test]
    fn a_crate_uses_exactly_what_its_line_names() {
        let cases: &[(&str, &str, &[&str])] = &[
            ("core/storage", "[dependencies]\nrecords = '1'\nsnap = '1'", &[]),
            ("core/storage", "[dependencies]", &["does not use records"]),
            ("core/storage", "[dependencies]\nrecords = '1'\ndisk = '1'", &["uses disk"]),
            (
                "core/records",
                "[dependencies]\nbase = '1'\n[dev-dependencies]\nstorage = '1'",
                &["its tests use storage"],
            ),
            ("edge/disk", "[dependencies]\nstorage = '1'\n[dev-dependencies]\nbase = '1'", &[]),
            ("core/base", "[dependencies]\nquanta = '1'", &["uses quanta, which is not in IN_CORE"]),
            ("core/base", "[build-dependencies]\ncc = '1'", &["uses cc, which is not in IN_CORE"]),
            ("core/base", "[target.'cfg(unix)'.dependencies]\nlibc = '1'", &["uses libc"]),
            ("core/base", "[dev-dependencies]\nproptest = '1'", &[]),
            ("core/other", "", &["has no line"]),
            ("xtask", "[dependencies]\nbase = '1'", &["uses base"]),
        ];
        for (folder, manifest, expected) in cases {
            let found = findings(folder, manifest);
            assert_eq!(found.len(), expected.len(), "{folder} {manifest}: {found:?}");
            for (finding, start) in found.iter().zip(*expected) {
                assert!(finding.starts_with(start), "{finding}");
            }
        }
    }

    #[test]
    fn the_table_points_downwards() {
        let wrong = |table: &str| check_directions(&toml::from_str(table).expect("well-formed"));
        let sound =
            "[core]\nbase = []\nstorage = ['base']\n[edge]\ndisk = ['storage']\n[tests]\nsim = ['base']";
        assert!(wrong(sound).is_empty());
        let edge = "[edge]\ntelemetry = []\nnet = []\nhttp = ['telemetry']\nserver = ['net', 'http']";
        assert!(wrong(edge).is_empty());
        let cases = [
            ("[core]\nbase = ['disk']\n[edge]\ndisk = []", "lets core/base use edge/disk"),
            ("[core]\na = ['b']\nb = ['a']", "lets a use itself"),
            ("[core]\na = ['b']", "lets a use b, which has no line"),
            ("[core]\na = []\n[edge]\na = []", "names two crates a"),
            ("[edge]\nnet = []\nhttp = ['net']", "lets http use net: in edge/"),
            ("[cellar]\na = []", "has a section cellar"),
        ];
        for (table, start) in cases {
            let wrong = wrong(table);
            assert!(wrong.iter().any(|wrong| wrong.starts_with(start)), "{table}: {wrong:?}");
        }
    }
}
