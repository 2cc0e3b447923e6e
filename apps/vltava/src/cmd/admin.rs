//! What the commands that manage a cluster have in common: where it is, asking before something is done, and
//! saying what failed.

use std::io::{BufRead, IsTerminal};
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
