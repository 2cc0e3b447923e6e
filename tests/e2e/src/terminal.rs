//! What a program says to somebody who sits at a terminal.

use std::fs::File;
use std::io::Read;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::Result;
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};

/// Runs a program to its end whose outputs are a terminal: how it ended, and all that it wrote, also what it
/// wrote over.
pub fn run(mut command: Command) -> Result<(ExitStatus, String)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let screen = openpt(flags)?;
    grantpt(&screen)?;
    unlockpt(&screen)?;
    let terminal = ioctl_tiocgptpeer(&screen, flags)?;
    command.stdin(Stdio::null()).stdout(terminal.try_clone()?).stderr(terminal);
    let mut child = command.spawn()?;
    // As long as anybody has the terminal open, there may be more to read.
    drop(command);
    let mut written = Vec::new();
    // Once nobody has, reading fails rather than ends.
    let _ = File::from(screen).read_to_end(&mut written);
    Ok((child.wait()?, String::from_utf8_lossy(&written).into_owned()))
}
