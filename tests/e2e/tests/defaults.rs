//! `vltava server` and not a word more: where it serves, where its data goes, and that everybody finds it there.
//!
//! Its ports may be taken on this machine, so it has a network of its own, with nothing but loopback.

use std::fs::{self, File};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::panic;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use conformance::home;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use vltava_e2e::{http, wait};

const KAFKA: &str = "127.0.0.1:9092";
const HTTP: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9644);
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn a_node_without_arguments_is_where_everybody_looks_for_it() -> Result<()> {
    // A network is a thread's: that of the others stays as it is.
    let told = thread::spawn(|| match enter_network_of_its_own()? {
        Some(why) => {
            eprintln!("skipped: {why}");
            Ok(())
        }
        None => story(),
    });
    told.join().unwrap_or_else(|panic| panic::resume_unwind(panic))
}

/// Moves this thread, and what it starts from now on, into a network where nobody else is. Says why that cannot be
/// done here, if so.
fn enter_network_of_its_own() -> Result<Option<&'static str>> {
    if !geteuid().is_root() {
        return Ok(Some("needs root to have a network of its own"));
    }
    // SAFETY: files stay shared, it is the network alone that is not.
    if unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.is_err() {
        return Ok(Some("needs CAP_SYS_ADMIN to have a network of its own"));
    }
    let Ok(output) = Command::new("ip").args(["link", "set", "lo", "up"]).output() else {
        return Ok(Some("needs ip (iproute2)"));
    };
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(None)
}

fn story() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (here, log) = (folder.path().join("here"), folder.path().join("log"));
    fs::create_dir(&here)?;
    let told = in_two_lives(&here, &log);
    told.with_context(|| format!("it logged:\n{}", fs::read_to_string(&log).unwrap_or_default()))
}

fn in_two_lives(here: &Path, log: &Path) -> Result<()> {
    let mut server = Server::start(here, log)?;
    // Nobody is invited from elsewhere.
    let listening = listening()?;
    ensure!(listening == [KAFKA.to_owned(), HTTP.to_string()], "it listens at {listening:?}");
    let series = http::metrics(&http::get(HTTP, "/metrics")?.body)?;
    ensure!(series.contains_key("vltava_partitions_led"), "{series:?}");
    said(&["topic", "create", "orders", "--bootstrap-server", KAFKA], "")?;
    said(&["produce", "orders", "--bootstrap-server", KAFKA], "one\ntwo\n")?;
    let data = here.join("vltava-data");
    ensure!(data.join("orders-0").is_dir(), "the data is not in {}", data.display());
    let made: Vec<_> = fs::read_dir(here)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    ensure!(made == [data], "{made:?}");
    server.stop()?;
    let mut server = Server::start(here, log)?;
    // Our commands need not be told where it is.
    said(&["produce", "orders"], "three\n")?;
    let read = said(&["consume", "orders", "-e"], "")?;
    ensure!(read == "one\ntwo\nthree\n", "{read:?}");
    let topics = said(&["topic", "list"], "")?;
    ensure!(topics.contains("orders"), "{topics}");
    server.stop()
}

/// `vltava server` in a folder.
struct Server(Child);

impl Server {
    fn start(here: &Path, log: &Path) -> Result<Self> {
        let log = File::options().create(true).append(true).open(log)?;
        let mut command = Command::new(home::vltava()?);
        command.arg("server").current_dir(here).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let mut server = Self(command.spawn()?);
        wait::until("it serves", PATIENCE, || {
            if let Some(status) = server.0.try_wait()? {
                bail!("it ended with {status}");
            }
            Ok(http::get(HTTP, "/health/ready").ok().filter(|page| page.status == 200))
        })?;
        Ok(server)
    }

    fn stop(&mut self) -> Result<()> {
        kill_process(Pid::from_child(&self.0), Signal::TERM)?;
        let status = wait::until("it ends", PATIENCE, || Ok(self.0.try_wait()?))?;
        ensure!(status.success(), "it ended with {status}");
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Where somebody listens in this thread's network, by port, as proc(5) has it.
fn listening() -> Result<Vec<String>> {
    const LISTEN: &str = "0A";
    let mut found = Vec::new();
    for family in ["tcp", "tcp6"] {
        let Ok(text) = fs::read_to_string(format!("/proc/thread-self/net/{family}")) else { continue };
        for line in text.lines().skip(1) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [_, local, _, state, ..] = words[..] else { bail!("{line}") };
            let (host, port) = local.split_once(':').context("host:port")?;
            let port = u16::from_str_radix(port, 16)?;
            if state == LISTEN {
                // In the order of the machine's bytes; one of IPv6 is longer, and nobody expects it.
                let host =
                    u32::from_str_radix(host, 16).map(|host| Ipv4Addr::from(host.to_ne_bytes()).to_string());
                found.push((port, format!("{}:{port}", host.unwrap_or_else(|_| local.to_owned()))));
            }
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, address)| address).collect())
}

/// What a command of ours says, with that as its input.
fn said(arguments: &[&str], input: &str) -> Result<String> {
    let mut command = Command::new(home::vltava()?);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    child.stdin.take().context("it is a pipe")?.write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "vltava {}: {error}", arguments.join(" "));
    Ok(String::from_utf8(output.stdout)?)
}
