//! The maps of the tree name every crate: `README.md` in its table, `ARCHITECTURE.md` in its picture and with a
//! section that says what the crate must not do.

use std::collections::BTreeSet;

use super::Finding;
use super::files::Tree;

/// Where `README.md` has its table of folders.
const TABLE: &str = "\n## The tree\n";
/// How a section says what its crate must not do.
const INVARIANT: &str = "\n**Invariant:** ";
/// The folders whose crates lie in layers, and so in the picture.
const LAYERED: &[&str] = &["core", "edge", "apps", "tests"];

pub(super) fn check(tree: &Tree, found: &mut Vec<Finding>) {
    let crates: BTreeSet<&str> =
        tree.names.iter().filter_map(|name| name.strip_suffix("/Cargo.toml")).collect();
    let text = |name: &str| tree.texts.get(name).map_or("", String::as_str);
    let (readme, architecture) = (text("README.md"), text("ARCHITECTURE.md"));
    found.extend(wrong_with_table(readme, &crates).into_iter().map(|wrong| Finding::new("README.md", wrong)));
    let mut wrong = wrong_with_picture(architecture, &crates);
    wrong.extend(wrong_with_sections(architecture, &crates));
    found.extend(wrong.into_iter().map(|wrong| Finding::new("ARCHITECTURE.md", wrong)));
}

fn wrong_with_table(readme: &str, crates: &BTreeSet<&str>) -> Vec<String> {
    let table = readme.split_once(TABLE).map_or("", |(_, rest)| rest);
    let table = table.split("\n## ").next().unwrap_or_default();
    let spans: BTreeSet<&str> =
        table.split('`').skip(1).step_by(2).map(|span| span.trim_end_matches('/')).collect();
    let missing = crates.iter().filter(|folder| !spans.contains(*folder));
    missing.map(|folder| format!("its table of the tree does not name `{folder}`")).collect()
}

fn wrong_with_picture(architecture: &str, crates: &BTreeSet<&str>) -> Vec<String> {
    let picture = architecture.split("```").nth(1).unwrap_or_default();
    let drawn = drawn(picture);
    let layered =
        |folder: &str| folder.split_once('/').is_some_and(|(section, _)| LAYERED.contains(&section));
    let expected: BTreeSet<String> =
        crates.iter().filter(|folder| layered(folder)).map(ToString::to_string).collect();
    let missing = expected.difference(&drawn).map(|folder| format!("its picture lacks {folder}"));
    let strangers = drawn.difference(&expected).map(|folder| format!("its picture has {folder}, no crate"));
    missing.chain(strangers).collect()
}

/// The crates in a picture: `core/base`, or several as `edge/{net, disk}`.
fn drawn(picture: &str) -> BTreeSet<String> {
    let mut drawn = BTreeSet::new();
    for section in LAYERED {
        for after in picture.split(&format!("{section}/")).skip(1) {
            let names = match after.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
                Some((names, _)) => names.split(',').map(str::trim).collect(),
                None => {
                    vec![after.split(|c: char| !c.is_alphanumeric() && c != '-').next().unwrap_or_default()]
                }
            };
            drawn.extend(names.iter().map(|name| format!("{section}/{name}")));
        }
    }
    drawn
}

fn wrong_with_sections(architecture: &str, crates: &BTreeSet<&str>) -> Vec<String> {
    let mut wrong = Vec::new();
    for folder in crates {
        let section = architecture.split_once(&format!("\n### {folder}\n")).map(|(_, rest)| rest);
        match section.map(|rest| rest.split("\n##").next().unwrap_or_default()) {
            None => wrong.push(format!("it has no section `### {folder}`")),
            Some(section) if !section.contains(INVARIANT) => {
                wrong.push(format!("its section of {folder} has no line `{}`", INVARIANT.trim()));
            }
            Some(_) => {}
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    const README: &str =
        "# Name\n\n## The tree\n\n| `core/` | `core/base` words |\n| `xtask/` | tasks |\n\n## More\n";
    const ARCHITECTURE: &str = "# A\n```text\n edge/{net, disk}\n core/base  what\n```\n\n### core/base\nIt is.\n\
                                **Invariant:** none.\n\n### edge/net\nSo.\n**Invariant:** one.\n\n### edge/disk\n\
                                Such.\n\n## More\n**Invariant:** of another.\n";

    #[test]
    fn a_crate_that_a_map_lacks_is_named() {
        let crates = BTreeSet::from(["core/base", "core/wire", "xtask"]);
        assert_eq!(wrong_with_table(README, &crates), ["its table of the tree does not name `core/wire`"]);
        let crates = BTreeSet::from(["core/base", "core/wire", "edge/net", "xtask"]);
        let wrong = ["its picture lacks core/wire", "its picture has edge/disk, no crate"];
        assert_eq!(wrong_with_picture(ARCHITECTURE, &crates), wrong);
        let crates = BTreeSet::from(["core/base", "core/wire", "edge/net", "edge/disk"]);
        let wrong =
            ["it has no section `### core/wire`", "its section of edge/disk has no line `**Invariant:**`"];
        assert_eq!(wrong_with_sections(ARCHITECTURE, &crates), wrong.map(str::to_owned));
    }
}
