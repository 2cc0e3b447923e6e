//! What `deploy/monitoring` asks for is there: every expression of its dashboards and alerts is parsed, and every
//! metric and label that it names is one that nodes, or a load, show while they work.

mod promql;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use client::admin::NewTopic;
use client::consumer::{Consumer, Reset};
use client::producer::{Producer, Record};
use conformance::{free_port, home};
use promql::{Names, Shown};
use rustix::fs::{major, minor};
use serde_json::Value;
use vltava_e2e::churn::admin;
use vltava_e2e::nodes::Nodes;
use vltava_e2e::{http, wait};

const PATIENCE: Duration = Duration::from_secs(60);
const TOPIC: &str = "orders";
const NODES: [i32; 3] = [1, 2, 3];

/// A load that ends when nobody watches any more.
struct Load(Child);

impl Drop for Load {
    fn drop(&mut self) {
        // It may be over.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn deployed(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/monitoring").join(path)
}

fn yaml(path: &str) -> Result<Value> {
    let text = fs::read_to_string(deployed(path)).with_context(|| path.to_owned())?;
    Ok(yaml_serde::from_str(&text)?)
}

fn list(value: &Value) -> Result<&Vec<Value>> {
    value.as_array().with_context(|| format!("no list: {value}"))
}

fn text<'a>(value: &'a Value, field: &str) -> Result<&'a str> {
    value[field].as_str().with_context(|| format!("it has no {field}: {value}"))
}

/// Writes, reads as a group and leaves some of it, and does what is refused.
fn use_it(bootstrap: &str) -> Result<()> {
    let admin = admin(bootstrap)?;
    let topic = || NewTopic { partitions: Some(3), replication_factor: Some(3), ..NewTopic::named(TOPIC) };
    admin.create_topic(topic()).wait()?;
    ensure!(admin.create_topic(topic()).wait().is_err(), "it is there already");
    let producer = Producer::new(bootstrap)?;
    let write = || -> Result<()> {
        for _ in 0..30 {
            drop(producer.send_blocking(&Record::to(TOPIC).value("some letters"))?);
        }
        producer.flush_blocking();
        Ok(())
    };
    write()?;
    let mut consumer = Consumer::builder(bootstrap).group_id("billing").reset(Reset::Earliest).build()?;
    consumer.subscribe([TOPIC])?;
    for _ in 0..30 {
        consumer.next_record_within(PATIENCE)?.context("there are thirty")?;
    }
    consumer.commit().wait()?;
    consumer.close(PATIENCE)?;
    write()
}

fn load(bootstrap: &str, folder: &Path) -> Result<(Load, u16)> {
    let workload = folder.join("load.yaml");
    fs::write(
        &workload,
        "name: load\nrate: 500\nconsumers: 1\npartitions: 3\nwarmup_seconds: 0\nseconds: 600\n",
    )?;
    let port = free_port()?;
    let child = Command::new(home::vltava()?)
        .args(["bench", "run"])
        .arg(&workload)
        .args(["--bootstrap-server", bootstrap, "--metrics", &format!("127.0.0.1:{port}")])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()?;
    Ok((Load(child), port))
}

/// All that is shown, once there is something of everything.
fn shown(nodes: &Nodes, load: u16) -> Result<Shown> {
    let mut bench = Names::default();
    wait::until("a load that reads what it wrote", PATIENCE, || {
        let Ok(page) = http::get(([127, 0, 0, 1], load).into(), "/metrics") else { return Ok(None) };
        bench = Names::of(http::metrics(&page.body)?.keys())?;
        let read = http::metrics(&page.body)?.get("vltava_bench_end_to_end_seconds_count").copied();
        Ok(read.filter(|read| *read > 0.0))
    })?;
    let lag = format!("vltava_group_lag_records{{group=\"billing\",topic=\"{TOPIC}\"}}");
    let mut brokers = Names::default();
    wait::until("a lag that is told", PATIENCE, || {
        let mut is_told = false;
        for id in NODES {
            let metrics = nodes.metrics(id)?;
            is_told |= metrics.contains_key(&lag);
            brokers.add(Names::of(metrics.keys())?);
        }
        Ok(is_told.then_some(()))
    })?;
    Ok(Shown { brokers, bench, added: labels_of_scrapes()? })
}

/// The labels that the scrape configuration adds.
fn labels_of_scrapes() -> Result<BTreeSet<String>> {
    let config = yaml("prometheus.yml")?;
    let mut labels: BTreeSet<String> = ["job", "instance"].map(str::to_owned).into();
    for scrape in list(&config["scrape_configs"])? {
        for targets in list(&scrape["static_configs"])? {
            let own = targets["labels"].as_object().context("each has labels")?;
            labels.extend(own.keys().cloned());
        }
    }
    Ok(labels)
}

/// Whether Linux tells what the device under a directory does: of memory, and of layers of file systems, it does not.
fn is_on_a_device(dir: &Path) -> Result<bool> {
    let device = fs::metadata(dir)?.dev();
    let numbers = [major(device), minor(device)].map(|number| number.to_string());
    let known = fs::read_to_string("/proc/diskstats")?;
    Ok(known.lines().any(|line| line.split_whitespace().take(2).eq(numbers.iter())))
}

#[test]
fn every_name_in_dashboards_and_alerts_is_shown() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let nodes = Nodes::found(&NODES)?;
    use_it(&nodes.bootstrap())?;
    let (_load, port) = load(&nodes.bootstrap(), folder.path())?;
    let shown = shown(&nodes, port)?;
    let mut wrong = Vec::new();
    let mut note = |place: String, checked: Result<BTreeSet<String>>| match checked {
        Ok(labels) => labels,
        Err(error) => {
            wrong.push(format!("{place}: {error:#}"));
            BTreeSet::new()
        }
    };
    let has_devices = is_on_a_device(folder.path())?;
    let mut seen = 0;
    for entry in fs::read_dir(deployed("grafana/dashboards"))? {
        let path = entry?.path();
        let dashboard: Value = serde_json::from_str(&fs::read_to_string(&path)?)?;
        let title = text(&dashboard, "title")?;
        for variable in list(&dashboard["templating"]["list"])?.iter().filter(|it| it["type"] == "query") {
            let place = format!("{title}: variable {}", variable["name"]);
            note(place, shown.variable(text(variable, "definition")?));
            seen += 1;
        }
        for panel in list(&dashboard["panels"])?.iter().filter(|panel| panel["type"] != "row") {
            let place = format!("{title}: {}", text(panel, "title")?);
            ensure!(!text(panel, "description")?.is_empty(), "{place}: nobody says what it shows");
            for target in list(&panel["targets"])? {
                if !has_devices && text(target, "expr")?.contains("vltava_log_dir_device_") {
                    continue;
                }
                let labels = note(place.clone(), shown.query(text(target, "expr")?));
                let legend = promql::places(text(target, "legendFormat")?, "{{", "}}");
                note(place.clone(), promql::must_have(&labels, legend));
                seen += 1;
            }
        }
    }
    let rules = yaml("alerts.yml")?;
    for rule in list(&rules["groups"][0]["rules"])? {
        let place = format!("alert {}", text(rule, "alert")?);
        let labels = note(place.clone(), shown.query(text(rule, "expr")?));
        for words in ["summary", "description"] {
            let places = promql::places(text(&rule["annotations"], words)?, "$labels.", " ");
            note(place.clone(), promql::must_have(&labels, places));
        }
        seen += 1;
    }
    ensure!(seen > 80, "{seen} expressions are too few to be all");
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}
