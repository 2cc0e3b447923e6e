//! No cycles between the modules of one crate.
//!
//! Siblings may use each other in one direction only, at every level of the tree of modules. What a
//! child takes from its parent and a parent from its children is their own business. Names that a
//! module re-exports are followed to where they come from.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::files::{Tree, is_generated, is_tests};
use super::source::{code_only, tokens, without_tests};

/// A module of a crate, by the names that lead to it: `["log", "roll"]`.
type ModulePath = Vec<String>;

/// One crate: its modules, what each of them names, and what each of them passes on.
#[derive(Default)]
struct Crate {
    modules: BTreeMap<ModulePath, Module>,
}

#[derive(Default)]
struct Module {
    /// Absolute paths that the code names.
    names: BTreeSet<ModulePath>,
    /// A re-exported name and the absolute path it stands for.
    passes_on: BTreeMap<String, ModulePath>,
}

pub(super) fn check(tree: &Tree, found: &mut Vec<Finding>) {
    for manifest in tree.names.iter().filter(|name| name.ends_with("Cargo.toml")) {
        let source = format!("{}src/", manifest.trim_end_matches("Cargo.toml"));
        for cycle in read_crate(tree, &source).cycles() {
            let round = cycle.join(" → ");
            found.push(Finding::new(source.clone(), format!("modules use each other in a circle: {round}")));
        }
    }
}

fn read_crate(tree: &Tree, source: &str) -> Crate {
    let mut sources: Vec<(ModulePath, String)> = Vec::new();
    for (name, text) in tree.rust() {
        if let Some(file) = name.strip_prefix(source).filter(|_| !is_generated(name) && !is_tests(name)) {
            sources.push((module_path(file), without_tests(&code_only(text))));
        }
    }
    let mut krate = Crate::default();
    for (path, code) in &sources {
        krate.modules.insert(path.clone(), read_module(path, code));
    }
    krate
}

/// `log/roll.rs` and `log/roll/mod.rs` are both the module `log::roll`.
fn module_path(file: &str) -> ModulePath {
    let mut path: ModulePath = file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if path.last().is_some_and(|last| matches!(last.as_str(), "mod" | "lib" | "main")) {
        path.pop();
    }
    path
}

fn read_module(path: &ModulePath, code: &str) -> Module {
    let mut module = Module::default();
    let tokens = tokens(code);
    let mut at = 0;
    while at < tokens.len() {
        let starts_path = matches!(tokens[at], "crate" | "super" | "self")
            && tokens.get(at + 1) == Some(&"::")
            && (at == 0 || tokens[at - 1] != "::");
        let is_use = at > 0 && tokens[at - 1] == "use";
        let is_public = is_use && at > 1 && matches!(tokens[at - 2], "pub" | ")");
        let start = at;
        if starts_path {
            let mut names = Vec::new();
            at = read_paths(&tokens, at, &Vec::new(), &mut names);
            for (written, alias) in names {
                let absolute = absolute(path, &written);
                if is_public && let Some(name) = alias.or_else(|| absolute.last().cloned()) {
                    module.passes_on.insert(name, absolute.clone());
                }
                module.names.insert(absolute);
            }
        } else if is_public && tokens.get(at + 1) == Some(&"::") {
            // `pub use child::Name` starts from here, as `self::child::Name` does.
            let mut names = Vec::new();
            at = read_paths(&tokens, at, &Vec::new(), &mut names);
            for (written, alias) in names {
                let absolute: ModulePath = path.iter().chain(&written).cloned().collect();
                if let Some(name) = alias.or_else(|| written.last().cloned()) {
                    module.passes_on.insert(name, absolute);
                }
            }
        }
        at = at.max(start + 1);
    }
    module
}

/// Reads one path or one tree of paths (`a::{b, c::d as e}`); returns where it ends.
fn read_paths(
    tokens: &[&str],
    mut at: usize,
    prefix: &ModulePath,
    found: &mut Vec<(ModulePath, Option<String>)>,
) -> usize {
    let mut path = prefix.clone();
    loop {
        match tokens.get(at) {
            Some(&"{") => {
                at += 1;
                while at < tokens.len() && tokens[at] != "}" {
                    let next = read_paths(tokens, at, &path, found);
                    at = next.max(at + 1);
                    if tokens.get(at) == Some(&",") {
                        at += 1;
                    }
                }
                return at + 1;
            }
            Some(&"*") => at += 1,
            Some(word) if word.starts_with(|c: char| c.is_alphabetic() || c == '_') => {
                path.push((*word).to_owned());
                at += 1;
            }
            _ => {}
        }
        if tokens.get(at) != Some(&"::") {
            break;
        }
        at += 1;
    }
    let mut alias = None;
    if tokens.get(at) == Some(&"as") {
        alias = tokens.get(at + 1).map(|word| (*word).to_owned());
        at += 2;
    }
    if path.len() > prefix.len() {
        found.push((path, alias));
    }
    at
}

/// Resolves `crate`, `super` and `self` at the front of a path written in `module`.
fn absolute(module: &ModulePath, written: &ModulePath) -> ModulePath {
    let mut path = module.clone();
    for (at, word) in written.iter().enumerate() {
        match (at, word.as_str()) {
            (0, "crate") => path.clear(),
            (_, "super") => {
                path.pop();
            }
            (_, "self") => {}
            _ => path.push(word.clone()),
        }
    }
    path
}

impl Crate {
    /// The module in which a path ends, after following re-exports.
    fn module_of(&self, path: &ModulePath) -> Option<ModulePath> {
        let mut path = path.clone();
        // A chain of re-exports longer than this would be a circle.
        for _ in 0..8 {
            let known = (0..=path.len()).rev().find(|len| self.modules.contains_key(&path[..*len]))?;
            let module = &self.modules[&path[..known]];
            match path.get(known).and_then(|name| module.passes_on.get(name)) {
                Some(target) if *target != path => {
                    path = target.iter().chain(&path[known + 1..]).cloned().collect();
                }
                _ => {
                    path.truncate(known);
                    return Some(path);
                }
            }
        }
        None
    }

    /// One circle for each group of siblings that use each other.
    fn cycles(&self) -> Vec<Vec<String>> {
        // Parent → child → the siblings that it or something below it names.
        let mut uses: BTreeMap<ModulePath, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
        for (from, module) in &self.modules {
            for to in module.names.iter().filter_map(|name| self.module_of(name)) {
                let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
                if let (Some(a), Some(b)) = (from.get(common), to.get(common)) {
                    let siblings = uses.entry(from[..common].to_vec()).or_default();
                    siblings.entry(a.clone()).or_default().insert(b.clone());
                }
            }
        }
        let mut found = Vec::new();
        for (parent, siblings) in &uses {
            for cycle in circles(siblings) {
                let full =
                    |name: &String| parent.iter().chain([name]).cloned().collect::<Vec<_>>().join("::");
                found.push(cycle.iter().map(full).collect());
            }
        }
        found
    }
}

/// One circle through each node that lies on one and is not on an earlier circle.
fn circles(uses: &BTreeMap<String, BTreeSet<String>>) -> Vec<Vec<String>> {
    let mut seen = BTreeSet::new();
    let mut found: Vec<Vec<String>> = Vec::new();
    for start in uses.keys() {
        if !seen.contains(start)
            && let Some(circle) = circle_through(start, uses)
        {
            seen.extend(circle.iter().cloned());
            found.push(circle);
        }
    }
    found
}

/// The shortest way from a node back to itself.
fn circle_through(start: &String, uses: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    let mut ways = vec![vec![start.clone()]];
    let mut seen = BTreeSet::new();
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in &ways {
            for next in uses.get(way.last()?).into_iter().flatten() {
                let mut way = way.clone();
                way.push(next.clone());
                if next == start {
                    return Some(way);
                }
                if seen.insert(next.clone()) {
                    longer.push(way);
                }
            }
        }
        ways = longer;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cycles(files: &[(&str, &str)]) -> Vec<String> {
        let mut krate = Crate::default();
        for (file, text) in files {
            let path = module_path(file);
            let module = read_module(&path, &without_tests(&code_only(text)));
            krate.modules.insert(path, module);
        }
        krate.cycles().into_iter().map(|cycle| cycle.join(" ")).collect()
    }

    #[test]
    fn siblings_in_a_circle_are_found() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "fn f() { super::c::g(); }"),
            ("c.rs", "use crate::{a::{A, self}, d::D};"),
        ];
        assert_eq!(cycles(&files), ["a b c a"]);
    }

    #[test]
    fn what_a_parent_passes_on_counts_as_the_child_s() {
        let files = [
            ("lib.rs", "mod a; mod b; pub use a::A; pub(crate) use b::B as Bee;"),
            ("a.rs", "use crate::Bee;"),
            ("b/mod.rs", "mod deep;"),
            ("b/deep.rs", "use crate::A;"),
        ];
        assert_eq!(cycles(&files), ["a b a"]);
    }

    #[test]
    fn parents_children_and_tests_are_free() {
        let files = [
            ("lib.rs", "mod a; mod b; use a::A;"),
            ("a.rs", "use crate::b::B; use super::Root; mod x;"),
            ("a/x.rs", "use super::A; use super::super::b::B;"),
            ("b.rs", "#[cfg(test)] mod tests { use crate::a::A; }"),
        ];
        assert!(cycles(&files).is_empty());
    }
}
