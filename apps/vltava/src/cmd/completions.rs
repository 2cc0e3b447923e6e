//! `vltava completions`: a script that lets a shell complete commands and flags.

use std::io::Write;

use anyhow::Result;
use clap::CommandFactory;
use clap_complete::Shell;

/// Print a script that completes commands in your shell
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The shell
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  source <(vltava completions bash)
  vltava completions zsh > ~/.zfunc/_vltava
  vltava completions fish > ~/.config/fish/completions/vltava.fish";

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> Result<()> {
    // The generator panics when its writer fails, and a closed pipe is no reason to.
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut super::Arguments::command(), "vltava", &mut script);
    out.write_all(&script)?;
    Ok(())
}
