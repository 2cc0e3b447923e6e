//! What the tests of one program share: a node, and drivers that wait for their next story.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, anyhow, bail, ensure};
use libtest_mimic::{Failed, Trial};

use crate::capture::Capture;
use crate::cluster::Cluster;
use crate::driver::{Driver, Place};
use crate::launch::free_port;
use crate::matrix::{self, Client, Feature};
use crate::node::{Node, Program, Setup};

const LEADERS_MAX: Duration = Duration::from_secs(15);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The node and the drivers. The node starts with the first story.
#[derive(Debug, Default)]
pub struct Suite {
    /// None: the one that the environment asks for.
    program: Option<Program>,
    settings: Vec<(String, String)>,
    /// Or why it did not start: others need not wait to hear that.
    node: Mutex<Option<Result<Node, String>>>,
    idle: Mutex<BTreeMap<String, Vec<Driver>>>,
    versions: Mutex<BTreeMap<String, String>>,
    capture: Capture,
    has_failed: AtomicBool,
}

impl Suite {
    /// On a node of this program, whatever the environment asks for.
    pub fn on(program: Program) -> Self {
        Self { program: Some(program), ..Self::default() }
    }

    /// On a node with these settings.
    #[must_use]
    pub fn with(mut self, settings: &[(&str, &str)]) -> Self {
        self.settings = settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        self
    }

    /// Whether the node is known to be of ours.
    pub fn is_ours(&self) -> Result<bool> {
        let asked = self.program.clone().map_or_else(Program::from_env, Ok)?;
        Ok(matches!(asked, Program::Vltava(_) | Program::Cluster(_)))
    }

    /// Where clients connect.
    pub fn bootstrap(&self) -> Result<String> {
        let mut node = lock(&self.node);
        let begin = || self.start().map_err(|error| format!("the node did not start: {error:#}"));
        let node = node.get_or_insert_with(begin).as_mut().map_err(|why| anyhow!("{why}"))?;
        if let Some(status) = node.exited()? {
            bail!("the node ended with {status}:\n{}", node.log_tail());
        }
        Ok(node.bootstrap())
    }

    /// With `CAPTURE=folder` clients come through a proxy that keeps what is said.
    fn start(&self) -> Result<Node> {
        let mut setup = match &self.program {
            Some(program) => Setup::of(program.clone()),
            None => Setup::from_env()?,
        };
        setup.settings.clone_from(&self.settings);
        if self.program.is_some() || env::var_os("CAPTURE").is_none() {
            return Node::start(setup);
        }
        let port = free_port()?;
        setup.advertised_port = Some(port);
        let node = Node::start(setup)?;
        self.capture.listen(port, node.address())?;
        Ok(node)
    }

    /// The cluster whose nodes a story may kill.
    pub fn cluster(&self) -> Result<Cluster> {
        let node = lock(&self.node);
        started(&node).and_then(Node::cluster).context("the node is no cluster of ours, or does not run")
    }

    /// The node's data directory, if it is on this machine and ours.
    pub fn data_dir(&self) -> Option<PathBuf> {
        started(&lock(&self.node))?.data_dir().map(PathBuf::from)
    }

    /// Tells a story with a driver of the client. A driver whose story failed is not used again.
    pub fn tell<T>(&self, client: &Client, story: impl FnOnce(&mut Driver) -> Result<T>) -> Result<T> {
        let bootstrap = self.bootstrap()?;
        let waiting = lock(&self.idle).get_mut(&client.name).and_then(Vec::pop);
        let mut driver = match waiting {
            Some(driver) => driver,
            None => Driver::start(client, &bootstrap)?,
        };
        lock(&self.versions).insert(client.name.clone(), driver.version().to_owned());
        let told = story(&mut driver).map_err(|error| self.with_state(error))?;
        lock(&self.idle).entry(client.name.clone()).or_default().push(driver);
        Ok(told)
    }

    /// The error, and what the node has to say to the first one: others may come of the same.
    fn with_state(&self, error: Error) -> Error {
        const LINES: usize = 8;
        if let Err(ended) = self.bootstrap() {
            return error.context(ended);
        }
        if self.has_failed.swap(true, Ordering::Relaxed) {
            return error;
        }
        let log = started(&lock(&self.node)).map(Node::log_tail).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        let end = lines[lines.len().saturating_sub(LINES)..].join("\n");
        anyhow!("{error:#}\nthe node's log ends with:\n{end}")
    }

    /// Makes a topic whose records are never too old, through the client or, if it cannot, another.
    pub fn create(
        &self,
        driver: &mut Driver,
        topic: &str,
        partitions: i32,
        configs: &[(&str, &str)],
    ) -> Result<()> {
        let configs = [&[("retention.ms", "-1")], configs].concat();
        if driver.client().can(Feature::Create) {
            driver.create(topic, partitions, &configs)?;
            return wait_for_leaders(driver, topic, partitions);
        }
        let able = matrix::clients()?.into_iter().find(|client| client.can(Feature::Create));
        let able = able.ok_or_else(|| anyhow!("no client can create topics"))?;
        self.tell(&able, |driver| {
            driver.create(topic, partitions, &configs)?;
            wait_for_leaders(driver, topic, partitions)
        })
    }

    /// Ends drivers and node; a failed run leaves the node's directory. Answers what took part.
    pub fn end(&self, failed: bool) -> Vec<String> {
        lock(&self.idle).clear();
        let mut words: Vec<_> =
            lock(&self.versions).iter().map(|(name, version)| format!("{name}: {version}")).collect();
        if let Some(Ok(mut node)) = lock(&self.node).take()
            && failed
        {
            words.extend(node.keep().map(|path| format!("the node's files are in {}", path.display())));
        }
        if let Some(folder) = env::var_os("CAPTURE")
            && let Err(error) = self.capture.write(Path::new(&folder))
        {
            words.push(format!("what was said is not written: {error:#}"));
        }
        words
    }
}

/// A test that tells a story. If it fails, that is said at once: a run that is ended early never comes to the list that
/// the harness ends with.
pub fn trial<T: Send + Sync + 'static>(
    with: &Arc<T>,
    name: &str,
    story: impl FnOnce(&T) -> Result<()> + Send + 'static,
) -> Trial {
    let (with, its_name) = (Arc::clone(with), name.to_owned());
    Trial::test(name, move || {
        story(&with).map_err(|error| {
            let told = format!("{error:#}");
            eprintln!("Error: {its_name}: {told}");
            Failed::from(told)
        })
    })
}

/// A broker may answer CreateTopics before it leads the partitions, as Kafka does; records that come in
/// between are refused, which a producer with acks=0 is never told.
pub fn wait_for_leaders(driver: &mut Driver, topic: &str, partitions: i32) -> Result<()> {
    let deadline = Instant::now() + LEADERS_MAX;
    for partition in 0..partitions {
        while let Err(error) = driver.offsets(Place { topic, partition }) {
            ensure!(Instant::now() < deadline, error.context(format!("{topic}-{partition} has no leader")));
            thread::sleep(LOOK_AGAIN);
        }
    }
    Ok(())
}

/// A topic's name, not used by an earlier run on a server that was there already.
pub fn topic(story: &str, client: &Client) -> String {
    format!("{story}-{}-{}", client.name, process::id())
}

fn started(node: &Option<Result<Node, String>>) -> Option<&Node> {
    node.as_ref()?.as_ref().ok()
}

/// A story that failed left the parts whole: each is one value behind its lock.
fn lock<T>(part: &Mutex<T>) -> MutexGuard<'_, T> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}
