//! What the commands that manage a cluster have in common: where it is, asking before something is done, and
//! saying what failed.

use std::io::{BufRead, IsTerminal, Write, stderr};
use std::time::Duration;

use anyhow::{Result, bail};
use client::Admin;
use client::admin::AdminError;

use crate::failure::{self, Asked};
use crate::reach;

/// Where the cluster is.
#[derive(clap::Args)]
pub(super) struct Cluster {
    /// Brokers to connect to, between commas; one that answers is enough
    #[arg(long, global = true, value_name = "HOST:PORT", default_value = "127.0.0.1:9092")]
    bootstrap_server: String,
    /// How long to try before giving up
    #[arg(long, global = true, value_name = "SECONDS", default_value_t = 30)]
    timeout: u32,
}

impl Cluster {
    pub(super) fn connect(&self) -> Result<Admin> {
        let timeout = Duration::from_secs(self.timeout.max(1).into());
        reach::reach(&self.bootstrap_server, timeout)?;
        // A broker that does not answer leaves some of the time for another.
        let admin = Admin::builder(&self.bootstrap_server).timeout(timeout).request_timeout(timeout / 2);
        Ok(admin.build()?)
    }
}

/// Says what failed, each on a line of its own; the last is for the end of the program to say.
pub(super) fn say_failures(mut failures: Vec<AdminError>, asked: Asked) -> Result<()> {
    let Some(last) = failures.pop() else { return Ok(()) };
    for error in failures {
        eprintln!("{}", failure::describe(&error.into(), asked));
    }
    Err(last.into())
}

/// Tells people what is about to be done. Where what is written is for programs, only whoever is asked is told, beside
/// it.
pub(super) fn tell(
    (as_json, asks): (bool, bool),
    out: &mut dyn Write,
    say: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<()> {
    tell_beside((as_json, asks), out, &mut stderr(), say)
}

fn tell_beside<'a>(
    (as_json, asks): (bool, bool),
    out: &'a mut dyn Write,
    beside: &'a mut dyn Write,
    say: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<()> {
    let to = match as_json {
        false => out,
        true if asks => beside,
        true => return Ok(()),
    };
    say(to)?;
    Ok(to.flush()?)
}

/// Asks whoever sits at the terminal; programs must say `--yes`. `what` is what it does, for those who did not
/// say so, and `undone` what was not done, for those who say no.
pub(super) fn confirm(question: &str, what: &str, undone: &str) -> Result<()> {
    let input = std::io::stdin();
    if !input.is_terminal() {
        bail!("{what}: say --yes to do it without being asked");
    }
    eprint!("{question} [y/N] ");
    let mut answer = String::new();
    input.lock().read_line(&mut answer)?;
    if !matches!(answer.trim(), "y" | "Y" | "yes") {
        bail!("{undone}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_asked_has_read_what_for() {
        for (as_json, asks, expected) in [
            (false, false, ("plan", "")),
            (false, true, ("plan", "")),
            (true, false, ("", "")),
            (true, true, ("", "plan")),
        ] {
            let (mut out, mut beside) = (Vec::new(), Vec::new());
            let told = tell_beside((as_json, asks), &mut out, &mut beside, |to| Ok(write!(to, "plan")?));
            told.expect("it is written to memory");
            let texts = [out, beside].map(|text| String::from_utf8(text).expect("it is text"));
            assert_eq!((&*texts[0], &*texts[1]), expected, "as JSON: {as_json}, is asked: {asks}");
        }
    }
}
