//! The `vltava` binary: a node, and the tools to work with one.
//!
//! **Invariant:** what a node or a client does is decided in the crates below. Arguments go down to them,
//! and what they answer is shown: as tables for people, as JSON for programs, as an error that says what
//! happened and what to do about it. Only `perf` has work of its own: the lines of Kafka's tools, and what
//! they mean.

mod cmd;
mod envelope; // a record as JSON
mod escape;
mod failure;
mod interrupt;
mod output;
mod progress;
mod reach;
mod welcome;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

/// Faster than the system's, and it gives memory back.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = cmd::Arguments::parse();
    let mut out = io::BufWriter::new(io::stdout().lock());
    let asked = arguments.command.as_ref().map_or(failure::Asked::Other, cmd::Command::asked);
    let done = match arguments.command {
        Some(command) => cmd::run(command, &mut out),
        None => out.write_all(welcome::TEXT.as_bytes()).map_err(Into::into),
    };
    match done.and_then(|()| out.flush().map_err(Into::into)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if failure::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // What was written before belongs before the error; if it cannot be, the error still counts.
            let _ = out.flush();
            output::say(format_args!("{}", failure::describe(&error, asked)));
            ExitCode::FAILURE
        }
    }
}
