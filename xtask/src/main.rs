//! Project tasks, in Rust so that they run wherever the project builds.
//!
//! ```text
//!   cargo xtask tidy       house rules: layers, cycles, sizes, words, paths in documents
//!   cargo xtask codegen    writes what is generated from tables; --check only compares
//!   cargo xtask test       installs what the tests need and runs them all
//!   cargo xtask bench      measures a node, the clients, a cluster, or groups beside Apache Kafka
//! ```
//!
//! **Invariant:** depends on no crate of ours, so that it builds while they do not.

#![expect(clippy::print_stdout, reason = "a command line tool answers on its standard output")]

mod bench;
mod codegen;
mod docs;
mod room;
mod test;
mod tidy;
mod workspace;

use anyhow::{Result, bail};

const USAGE: &str = "\
Project tasks.

  cargo xtask tidy               check the house rules: layers, cycles, sizes, words, documents
  cargo xtask codegen [--check]  write the generated code, or say where it is stale
  cargo xtask codegen --extract [JAR...]  take the facts from Kafka's jars, then write
  cargo xtask docs               write the documents that are made from tables of the code
  cargo xtask test [--quick]     install what the tests need and run them all; quick: only what needs Rust alone
  cargo xtask test conformance|e2e|torture [WORD...]  one ring, or its tests with a word in their name
  cargo xtask test fuzz [WORD...]  the fuzz targets, some seconds each; needs a nightly toolchain
  cargo xtask bench broker|client|cluster|groups --kafka DIR  measure that beside Apache Kafka's; bench alone says more
";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let Err(error) = run(&words) {
        eprintln!("error: {error:#}");
        std::process::exit(1);
    }
}

fn run(words: &[&str]) -> Result<()> {
    match words {
        ["docs"] => docs::run(&workspace::root()),
        ["test"] => test::run(&workspace::root(), test::Rings::All, &[]),
        ["test", "--quick"] => test::run(&workspace::root(), test::Rings::Quick, &[]),
        ["test", "fuzz", filter @ ..] => test::fuzz(&workspace::root(), filter),
        ["test", ring, filter @ ..] => match test::Rings::named(ring) {
            Some(rings) => test::run(&workspace::root(), rings, filter),
            None => bail!("there is no ring of tests called {ring}"),
        },
        ["bench", arguments @ ..] => bench::run(&workspace::root(), arguments),
        ["tidy"] => tidy::run(&workspace::root()),
        ["codegen", arguments @ ..] => codegen::run(&workspace::root(), arguments),
        _ => {
            print!("{USAGE}");
            if words.is_empty() || matches!(words, ["help" | "--help" | "-h"]) {
                return Ok(());
            }
            bail!("no such task: {}", words.join(" "))
        }
    }
}
