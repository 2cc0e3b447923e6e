//! Paths that documents and module headers name must exist, and the root holds only what it should.

use super::Finding;
use super::files::Tree;

/// Everything the root of the tree may hold.
const ROOT: &[&str] = &[
    ".cargo",
    ".ci",
    ".gitattributes",
    ".gitignore",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "NOTICE",
    "README.md",
    "apps",
    "clippy.toml",
    "core",
    "deny.toml",
    "deploy",
    "docs",
    "edge",
    "justfile",
    "layers.toml",
    "rust-toolchain.toml",
    "rustfmt.toml",
    "tests",
    "xtask",
];

/// Folders of the root whose contents documents may name.
const FOLDERS: &[&str] = &[".cargo", ".ci", "apps", "core", "deploy", "docs", "edge", "tests", "xtask"];

pub(super) fn check(tree: &Tree, found: &mut Vec<Finding>) {
    for name in &tree.names {
        let entry = name.split('/').next().unwrap_or(name);
        if !ROOT.contains(&entry) {
            found
                .push(Finding::new(entry, "the root of the tree does not hold this: see ROOT in xtask tidy"));
        }
    }
    for (name, text) in &tree.texts {
        if name.ends_with(".md") {
            check_document(tree, name, text, found);
        } else if name.ends_with(".rs") {
            let headers = text.lines().enumerate().filter(|(_, line)| line.starts_with("//!"));
            check_code_spans(tree, name, headers, found);
        }
    }
}

fn check_document(tree: &Tree, name: &str, text: &str, found: &mut Vec<Finding>) {
    check_code_spans(tree, name, text.lines().enumerate(), found);
    let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
    for (at, line) in text.lines().enumerate() {
        for target in links(line) {
            if !tree.has(&joined(folder, target)) {
                found.push(Finding::new(
                    format!("{name}:{}", at + 1),
                    format!("links to {target}, which is not there"),
                ));
            }
        }
    }
}

/// Checks what stands between backticks and looks like a path, from the root or from the file's crate.
fn check_code_spans<'a>(
    tree: &Tree,
    name: &str,
    lines: impl Iterator<Item = (usize, &'a str)>,
    found: &mut Vec<Finding>,
) {
    for (at, line) in lines {
        let spans = line.split('`').skip(1).step_by(2);
        for path in spans.filter(|span| is_path(span)).flat_map(expanded) {
            if !tree.has(&path) && !tree.has(&joined(crate_of(tree, name), &path)) {
                found.push(Finding::new(
                    format!("{name}:{}", at + 1),
                    format!("names {path}, which is not there"),
                ));
            }
        }
    }
}

/// The folder of the crate that a file belongs to; the root if there is none.
fn crate_of<'a>(tree: &Tree, name: &'a str) -> &'a str {
    let mut folder = name;
    while let Some((above, _)) = folder.rsplit_once('/') {
        folder = above;
        if tree.names.contains(&format!("{folder}/Cargo.toml")) {
            return folder;
        }
    }
    ""
}

fn is_path(span: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-{},".contains(c);
    span.split_once('/').is_some_and(|(first, _)| FOLDERS.contains(&first)) && span.chars().all(plain)
}

/// `docs/{a,b}.md` names two files.
fn expanded(span: &str) -> Vec<String> {
    match span.split_once('{').and_then(|(front, rest)| Some((front, rest.split_once('}')?))) {
        Some((front, (choices, back))) => {
            choices.split(',').map(|choice| format!("{front}{choice}{back}")).collect()
        }
        None => vec![span.to_owned()],
    }
}

/// The targets of the links in a line of Markdown that lead to files.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| {
        let target = rest.split(')').next()?.split('#').next()?;
        (!target.is_empty() && !target.contains("://") && !target.contains(' ')).then_some(target)
    })
}

fn joined(folder: &str, target: &str) -> String {
    let mut path: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            ".." => {
                path.pop();
            }
            "." | "" => {}
            part => path.push(part),
        }
    }
    path.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_told_from_other_code() {
        for (span, path) in [
            ("core/base", true),
            ("docs/{a,b}.md", true),
            ("a/b", false),
            ("core/<name>", false),
            ("docs", false),
        ] {
            assert_eq!(is_path(span), path, "{span}");
        }
        assert_eq!(expanded("docs/{a,b}.md"), ["docs/a.md", "docs/b.md"]);
    }

    #[test]
    fn links_lead_from_the_folder_of_their_document() {
        let found: Vec<_> = links("see [a](../x.md#part), [b](https://b.example) and [c](#d)").collect();
        assert_eq!(found, ["../x.md"]);
        assert_eq!(joined("docs/flows", "../x.md"), "docs/x.md");
    }
}
