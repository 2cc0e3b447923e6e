//! A load from two machines, each in a network namespace of its own, on a broker in a third: what they measured is
//! put together, every record is checked, and how well their clocks are known is told.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use conformance::home;
use e2e::wait;
use serde_json::Value;
use vltava_torture::lab::Lab;
use vltava_torture::machine;
use vltava_torture::net::{Net, Place};

const START_MAX: Duration = Duration::from_secs(60);
const BROKER_PORT: u16 = 9092;
const WORKER_PORT: u16 = 7411;

/// A process of ours in a namespace; ended when the story is.
struct Ours(Child);

impl Ours {
    /// Starts it, with what it says in a file.
    fn start(net: &Net, place: Place, lab: &Lab, arguments: &[&str]) -> Result<Self> {
        let log = File::create(lab.folder().join(format!("{place}.log")))?;
        let mut command = Command::new(home::vltava()?);
        command.args(arguments).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        Ok(Self(net.within(place, || Ok(command.spawn()?))?))
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn at(place: Place, port: u16) -> String {
    format!("{}:{port}", place.address())
}

fn waits_for(lab: &Lab, place: Place, words: &str) -> Result<()> {
    let path = lab.folder().join(format!("{place}.log"));
    wait::until(&format!("{place} says {words:?}"), START_MAX, || {
        Ok(fs::read_to_string(&path)?.contains(words).then_some(()))
    })
}

fn written(folder: &Path, name: &str, text: &str) -> Result<String> {
    let path = folder.join(name);
    fs::write(&path, text)?;
    Ok(path.display().to_string())
}

#[test]
fn machines_apart_make_one_load() -> Result<()> {
    if let Some(why) = machine::unavailable() {
        eprintln!("skipped: {why}");
        return Ok(());
    }
    let lab = Lab::new()?;
    let mut net = Net::new(lab.id(), 1)?;
    net.add_client(0)?;
    net.add_client(1)?;
    let (broker, workers) = (Place::Node(1), [Place::Client(0), Place::Client(1)]);
    let data = lab.folder().join("data").display().to_string();
    let token = written(lab.folder(), "token", "known to these three\n")?;
    let (listen, http) = (at(broker, BROKER_PORT), at(broker, 8080));
    let server = ["server", "--data-dir", &data, "--listen", &listen, "--http-listen", &http];
    let _broker = Ours::start(&net, broker, &lab, &server)?;
    waits_for(&lab, broker, "serving")?;
    let mut machines = Vec::new();
    for place in workers {
        let listen = at(place, WORKER_PORT);
        let worker = ["bench", "worker", "--listen", &listen, "--token-file", &token];
        machines.push(Ours::start(&net, place, &lab, &worker)?);
        waits_for(&lab, place, "worker at ")?;
    }
    let text = "name: apart\npartitions: 4\nproducers: 2\nconsumers: 2\nrate: 4000\nwarmup_seconds: 1\nrecords: 20000\n";
    let workload = written(lab.folder(), "apart.yaml", text)?;
    let mut run = Command::new(home::vltava()?);
    run.args(["bench", "run", &workload, "--json", "--bootstrap-server", &listen, "--token-file", &token]);
    run.args(["--workers", &workers.map(|place| at(place, WORKER_PORT)).join(",")]);
    let ran = net.within(Place::Clients, || Ok(run.output()?))?;
    let said = String::from_utf8_lossy(&ran.stderr);
    ensure!(ran.status.success(), "{said}");
    let report: Value = serde_json::from_slice(&ran.stdout)?;
    for place in workers {
        let machine = &report["machine"]["workers"][at(place, WORKER_PORT)];
        ensure!(machine["kernel"].is_string() && machine["file_system"].is_null(), "{}", report["machine"]);
    }
    ensure!(report["machine"]["file_system"].is_null(), "the brokers are elsewhere: {}", report["machine"]);
    let run = &report["points"][0]["systems"][0]["runs"][0];
    for flow in ["written", "read"] {
        ensure!(run[flow]["records"] == 20_000, "{flow}: {run}");
    }
    ensure!(run["wrong"].is_null() && run["failed"] == 0, "{run}");
    // Each machine reads half of the partitions, and half of what it reads was sent by the other.
    let checked = run["verified"]["records"].as_u64().context("they were checked")?;
    ensure!(checked >= 22_000, "the warm-up, too: {run}");
    for clock in run["clocks"].as_array().context("they are told")? {
        let error_ns = clock["error_ns"].as_u64().context("it is a number")?;
        ensure!((1..10_000_000).contains(&error_ns), "{clock}");
        // Nothing is read before it is sent, as far as that can be told.
        let soonest_ns = run["read"]["response_ns"]["min"].as_u64();
        ensure!(soonest_ns.is_none_or(|soonest_ns| soonest_ns > 0 || error_ns > 50_000), "{run}");
    }
    ensure!(said.contains("clocks of 2 workers to within"), "{said}");
    Ok(())
}
