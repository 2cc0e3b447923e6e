//! `vltava dev`: a cluster on loopback to try things on, thrown away at the end.
//!
//! **Invariant:** its nodes are nodes as any other, processes of `vltava server`: what holds here holds in
//! earnest.

mod node;
mod plan;

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::interrupt;
use crate::output::Table;
use node::Node;
use plan::Plan;

/// Run a whole cluster on this machine, to try things on
///
/// Starts so many nodes, each a process of `vltava server`, on ports P, P+1, P+2 and so on. A node that dies is
/// started again: kill one and see what your program makes of it. Ctrl-C stops them all, and the data is thrown
/// away.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// How many nodes
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=plan::NODES_MAX))]
    nodes: u16,
    /// Serve Kafka clients on this port and those after it
    ///
    /// Health and metrics are on ports 552 higher, the nodes' own listeners on ports 10000 higher.
    #[arg(long, value_name = "P", default_value_t = 9092, value_parser = clap::value_parser!(u16).range(1..=plan::PORT_MAX))]
    port: u16,
    /// Set one setting on each node. `vltava config` lists them
    #[arg(long, value_name = "NAME=VALUE", value_parser = super::pair)]
    set: Vec<(String, String)>,
    /// Keep the data; it says where
    #[arg(long)]
    keep: bool,
    /// Keep the data in this directory, and go on with what is there
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Say in JSON, on one line, what runs, for programs
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  vltava dev                                  three nodes on ports 9092, 9093, 9094
  vltava dev --nodes 5 --port 19092
  vltava dev --set flush.policy=os --set num.partitions=6
  vltava dev --data-dir ./cluster             go on with it another day
  vltava dev --json | jq -r .bootstrap_servers";

/// From one look at the nodes to the next.
const LOOK: Duration = Duration::from_millis(50);
/// A cluster that is not there by then will not be.
const READY_MAX: Duration = Duration::from_secs(60);
/// A node moves what it leads away and flushes before it ends.
const STOP_MAX: Duration = Duration::from_secs(60);

pub(crate) fn run(arguments: Arguments, out: &mut dyn Write) -> Result<()> {
    let Arguments { nodes, port, set, keep, data_dir, json } = arguments;
    let is_kept = keep || data_dir.is_some();
    let place =
        data_dir.unwrap_or_else(|| std::env::temp_dir().join(format!("vltava-dev-{}", process::id())));
    let plan = Plan::new(nodes, port, set, &place)?;
    fs::create_dir_all(&place).with_context(|| format!("cannot make {}", place.display()))?;
    let (stop, stopped) = channel();
    // The receiver lives as long as this function; without it there is nothing left to stop.
    interrupt::on_first(move || {
        let _ = stop.send(());
    })?;
    let mut cluster = Cluster { nodes: plan.nodes().map(Node::new).collect(), began: Instant::now() };
    let ran = cluster.run(&plan, &stopped, is_kept, json, out);
    let ended = cluster.end();
    if is_kept {
        eprintln!("the data is in {}: `vltava dev --data-dir {0}` goes on with it", place.display());
    } else if ran.is_ok() {
        fs::remove_dir_all(&place).with_context(|| format!("cannot remove {}", place.display()))?;
    }
    ran.and(ended)
}

/// The nodes, started one after the other by the main thread: they end with it.
struct Cluster {
    nodes: Vec<Node>,
    began: Instant,
}

impl Cluster {
    fn run(
        &mut self,
        plan: &Plan,
        stopped: &Receiver<()>,
        is_kept: bool,
        json: bool,
        out: &mut dyn Write,
    ) -> Result<()> {
        self.nodes.iter_mut().try_for_each(Node::start)?;
        if !self.form(plan, stopped)? {
            return Ok(());
        }
        if json {
            writeln!(out, "{}", self.as_json(plan))?;
        } else {
            self.show(plan, is_kept, out)?;
        }
        out.flush()?;
        while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(LOOK) {
            self.nodes.iter_mut().try_for_each(Node::keep_up)?;
        }
        Ok(())
    }

    /// Waits until each node is in the cluster; no if it was told to stop meanwhile.
    fn form(&mut self, plan: &Plan, stopped: &Receiver<()>) -> Result<bool> {
        while self.began.elapsed() < READY_MAX {
            if !matches!(stopped.recv_timeout(LOOK), Err(RecvTimeoutError::Timeout)) {
                return Ok(false);
            }
            for node in &mut self.nodes {
                node.must_run()?;
            }
            if self.nodes.iter().all(Node::is_ready) {
                return Ok(true);
            }
        }
        bail!("the nodes are no cluster after {READY_MAX:?}: see their logs in {}", plan.place().display())
    }

    fn show(&self, plan: &Plan, is_kept: bool, out: &mut dyn Write) -> Result<()> {
        let (count, seconds) = (self.nodes.len(), self.began.elapsed().as_secs_f64());
        let nodes = if count == 1 { "1 node" } else { &format!("{count} nodes, one cluster") };
        writeln!(out, "{nodes}, ready after {seconds:.1} s\n")?;
        writeln!(out, "  bootstrap servers  {}", plan.bootstrap_servers())?;
        writeln!(out, "  console            {}", plan.console())?;
        let fate = if is_kept { "kept" } else { "thrown away at the end; --keep keeps it" };
        writeln!(out, "  data and logs      {} ({fate})\n", plan.place().display())?;
        let mut table = Table::new(&["node", "pid", "kafka", "http", "log"]);
        for node in &self.nodes {
            table.row([
                node.setup.id.to_string(),
                node.pid().to_string(),
                node.setup.address.clone(),
                format!("http://{}", node.setup.http_address),
                node.setup.log.display().to_string(),
            ]);
        }
        writeln!(out, "{table}\n")?;
        let port =
            if plan.port() == 9092 { String::new() } else { format!(" --bootstrap-server {}", plan.first()) };
        writeln!(out, "Try, in another terminal:\n")?;
        writeln!(out, "  echo hello | vltava produce orders{port}")?;
        writeln!(out, "  vltava consume orders -e{port}")?;
        writeln!(out, "  vltava cluster status{port}")?;
        let victim = self.nodes.last().map_or(0, Node::pid);
        writeln!(out, "  kill -9 {victim}    # a crash; the node is started again")?;
        writeln!(out, "\nCtrl-C stops it.")?;
        Ok(())
    }

    fn as_json(&self, plan: &Plan) -> serde_json::Value {
        let node = |node: &Node| {
            json!({
                "id": node.setup.id,
                "pid": node.pid(),
                "address": node.setup.address,
                "http": format!("http://{}", node.setup.http_address),
                "data_dir": node.setup.data_dir,
                "log": node.setup.log,
            })
        };
        json!({
            "bootstrap_servers": plan.bootstrap_servers(),
            "console": plan.console(),
            "nodes": self.nodes.iter().map(node).collect::<Vec<_>>(),
        })
    }

    /// Stops all of them at once, and waits.
    fn end(&mut self) -> Result<()> {
        self.nodes.iter().for_each(Node::stop);
        let until = Instant::now() + STOP_MAX;
        for node in &mut self.nodes {
            node.wait_until(until)?;
        }
        Ok(())
    }
}
