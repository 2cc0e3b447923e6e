//! The hosting thread: makes it so on this node, one change of the metadata after the other.
//!
//! ```text
//!   control ─▶ Changed ─▶ logs made, written down where ─▶ roles, settings ─▶ image shown ─▶ removed ─▶ Applied
//! ```
//!
//! The logs of this node are opened once the metadata say that this life of its broker has begun: what it
//! finds then is what the others know of it.

mod bring_up;
mod gone;

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use base::{BrokerEpoch, Uuid};
use controller::{AssignReplicasToDirs, Command, ControllerError, PARTITIONS_PER_COMMAND_MAX};
use metadata::{Delta, Image};
use tracing::error;

use crate::control::{Control, News, Step};
use crate::directories::Directories;
use crate::followers::Followers;
use crate::hosting::Hosting;
use crate::partition::PartitionCell;

use gone::Gone;

/// See the module.
pub(crate) struct HostingThread {
    hosting: Hosting,
    control: Control,
    followers: Arc<Followers>,
    /// The log directories, until their logs are open.
    pub(crate) directories: Option<Directories>,
    pub(crate) epoch: BrokerEpoch,
    /// The id of this process, as its broker registers with it.
    incarnation: Uuid,
    /// Whether the metadata know of an earlier life of this broker.
    had_a_life: bool,
    /// Whether it was looked for topics that another program left.
    has_adopted: bool,
    /// What was taken from this broker before its logs are open. If some of it is still on a disk, the broker was
    /// away, or a crash came between the decision and what it was to lead to.
    gone: Gone,
    try_again: TryAgain,
}

/// How soon logs that could not be made are tried again, and how late at most: twice as late after each time.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);
const TRY_AGAIN_AFTER_MAX: Duration = Duration::from_secs(300);

/// When logs that could not be made are tried again, by `Now::elapsed`, and how long after the time before.
struct TryAgain {
    at: Option<Duration>,
    after: Duration,
}

impl Default for TryAgain {
    fn default() -> Self {
        Self { at: None, after: TRY_AGAIN_AFTER }
    }
}

/// The node stops before what was to be done is done.
#[derive(Debug)]
pub(crate) struct Stopping;

impl HostingThread {
    /// One whose logs are not open.
    pub(crate) fn new(
        hosting: Hosting,
        control: Control,
        followers: Arc<Followers>,
        directories: Directories,
        incarnation: Uuid,
    ) -> Self {
        Self {
            hosting,
            control,
            followers,
            directories: Some(directories),
            epoch: BrokerEpoch::NONE,
            incarnation,
            had_a_life: false,
            has_adopted: false,
            gone: Gone::default(),
            try_again: TryAgain::default(),
        }
    }

    /// Does what it is told until the end; hands its parts back.
    pub(crate) fn run(mut self, steps: &mpsc::Receiver<Step>) -> Self {
        loop {
            let done = match self.next(steps) {
                Ok(Step::Changed { image, delta }) => self.change(image, &delta),
                Ok(Step::Registered(epoch)) => {
                    self.epoch = epoch;
                    self.followers.on_registered(epoch);
                    let image = self.hosting.image.load_full();
                    self.open(&image)
                }
                Err(RecvTimeoutError::Timeout) => self.make_unmade(),
                Ok(Step::Stop) | Err(RecvTimeoutError::Disconnected) => break,
            };
            if let Err(Stopping) = done {
                break;
            }
        }
        self
    }

    /// Waits for what it is told next, or until logs that could not be made are to be tried again: what they lacked may
    /// be there, and nothing else change for days.
    fn next(&mut self, steps: &mpsc::Receiver<Step>) -> Result<Step, RecvTimeoutError> {
        if !self.hosting.table.lacks_logs() {
            self.try_again = TryAgain::default();
            return Ok(steps.recv()?);
        }
        let now = self.hosting.clock.now().elapsed;
        let at = *self.try_again.at.get_or_insert(now + self.try_again.after);
        steps.recv_timeout(at.saturating_sub(now))
    }

    fn change(&mut self, image: Arc<Image>, delta: &Delta) -> Result<(), Stopping> {
        if self.directories.is_some() {
            if self.hosting.settings.roles.broker {
                self.gone.note(self.hosting.node, &self.hosting.image.load(), &image, delta);
            }
            let me = image.broker(self.hosting.node);
            self.had_a_life |= me.is_some_and(|broker| broker.incarnation != self.incarnation);
            self.hosting.image.store(Arc::clone(&image));
            self.control.tell(News::Applied(Arc::clone(&image)));
            return self.open(&image);
        }
        if !delta.is_empty() {
            // Partitions are there before clients can hear of them, and gone after.
            self.hosting.count_changes(&image, delta);
            let made = self.hosting.make_new(&image, delta);
            self.serve(&image, made.clone())?;
            self.say_where(&image, &self.hosting.given_back(&image, delta))?;
            self.hosting.reconfigure(&image, delta);
            self.hosting.take_roles(&image, delta, true);
            self.hosting.image.store(Arc::clone(&image));
            // Those who wait here for what others lead are told who does, and find it there.
            self.hosting.take_roles(&image, delta, false);
            self.hosting.coordinators.take_roles(&image);
            self.hosting.coordinators.forget_topics(delta);
            self.hosting.clear(&image, delta);
            self.follow(&image, delta, &made);
            self.hosting.count(&image);
        }
        self.hosting.image.store(Arc::clone(&image));
        tracing::trace!(end = %image.end(), "acted on");
        self.control.tell(News::Applied(image));
        Ok(())
    }

    /// Makes logs that could not be made before.
    fn make_unmade(&mut self) -> Result<(), Stopping> {
        self.try_again.at = None;
        if !self.hosting.dirs.iter().any(|dir| dir.takes_more()) {
            return Ok(());
        }
        // What failed says so each time.
        self.try_again.after = (2 * self.try_again.after).min(TRY_AGAIN_AFTER_MAX);
        let image = self.hosting.image.load_full();
        let made = self.hosting.make_new(&image, &Delta::default());
        self.serve(&image, made.clone())?;
        self.hosting.coordinators.take_roles(&image);
        self.follow(&image, &Delta::default(), &made);
        self.hosting.count(&image);
        Ok(())
    }

    /// Opens the logs of this broker, if its life has begun.
    fn open(&mut self, image: &Arc<Image>) -> Result<(), Stopping> {
        let me = image.broker(self.hosting.node).map(|broker| broker.epoch);
        let has_begun = self.epoch != BrokerEpoch::NONE && me == Some(self.epoch);
        let Some(mut directories) = self.directories.take_if(|_| has_begun) else { return Ok(()) };
        self.hosting.set_limits(image);
        self.hosting.compare_minimum(image);
        bring_up::finish_deletions(self, &mut directories);
        // What a broker that lived before finds and does not know was deleted, or is somebody's mistake.
        if !self.has_adopted && !self.had_a_life {
            self.has_adopted = true;
            if bring_up::adopt(self, &mut directories, image)? {
                self.directories = Some(directories);
                return Ok(());
            }
        }
        bring_up::open(self, directories)?;
        self.follow_all(image);
        self.hosting.coordinators.take_roles(image);
        self.hosting.count(image);
        self.control.tell(News::LogsOpen);
        Ok(())
    }

    /// Puts partitions whose logs were just made or opened in service, once it is durable in which
    /// directories they are: a log that takes records and is not there later must be missed.
    pub(crate) fn serve(&self, image: &Image, cells: Vec<Arc<PartitionCell>>) -> Result<(), Stopping> {
        self.say_where(image, &cells)?;
        if !cells.is_empty() {
            self.hosting.table.add(cells);
        }
        Ok(())
    }

    /// Has it written down in which directories these are, where the metadata do not say so.
    fn say_where(&self, image: &Image, cells: &[Arc<PartitionCell>]) -> Result<(), Stopping> {
        let is_known = |cell: &&Arc<PartitionCell>| {
            let partition = image.partition(cell.topic, cell.name.partition);
            partition.and_then(|partition| partition.directory_of(self.hosting.node)) == Some(cell.dir.id)
        };
        let unknown: Vec<_> = cells.iter().filter(|cell| !is_known(cell)).collect();
        for some in unknown.chunks(PARTITIONS_PER_COMMAND_MAX) {
            let place = |cell: &&Arc<PartitionCell>| (cell.topic, cell.name.partition, cell.dir.id);
            let replicas = some.iter().map(place).collect();
            let command = AssignReplicasToDirs { broker: self.hosting.node, epoch: self.epoch, replicas };
            self.must(&Command::AssignReplicasToDirs(command))?;
        }
        Ok(())
    }

    /// Has a command of this node's own decided, however long it takes. Whether it was not refused.
    pub(crate) fn must(&self, command: &Command) -> Result<bool, Stopping> {
        loop {
            match self.control.decide_blocking(command.clone()) {
                None => return Err(Stopping),
                Some(Ok(_)) => return Ok(true),
                Some(Err(ControllerError::NotController { .. } | ControllerError::Busy)) => {}
                Some(Err(refused)) => {
                    error!(%refused, "the controller refuses what this node found in its log directories");
                    return Ok(false);
                }
            }
        }
    }

    /// Has replicas that are new, or follow another leader than before, ask that one.
    fn follow(&self, image: &Image, delta: &Delta, made: &[Arc<PartitionCell>]) {
        if !delta.brokers_changed.is_empty() {
            // A leader that came back may listen elsewhere.
            return self.follow_all(image);
        }
        made.iter().for_each(|cell| self.hosting.follow(image, cell, &self.followers));
        for (topic, partition) in &delta.partitions_changed {
            if let Some(cell) = self.hosting.table.get(*topic, *partition) {
                self.hosting.follow(image, &cell, &self.followers);
            }
        }
    }

    fn follow_all(&self, image: &Image) {
        for cell in self.hosting.table.all() {
            self.hosting.follow(image, &cell, &self.followers);
        }
        self.followers.retain(|leader| image.broker(leader).is_some());
    }
}
