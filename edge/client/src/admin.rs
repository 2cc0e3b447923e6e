//! The admin: topics, partitions, settings, offsets, records, groups, the cluster and its disks.
//!
//! ```no_run
//! use vltava_client::admin::{Admin, At, NewTopic};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let admin = Admin::new("127.0.0.1:9092")?;
//! let orders = NewTopic { partitions: Some(6), ..NewTopic::named("orders") };
//! admin.create_topic(orders).await?;
//!
//! let topic = admin.describe_topic("orders").await?;
//! let ends = topic.partitions.iter().map(|partition| ("orders", partition.index.0, At::Latest));
//! for (partition, end) in topic.partitions.iter().zip(admin.list_offsets(ends).await) {
//!     println!("{}: {:?}", partition.index, end?.offset);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Every call is a [`Call`]: a future for any executor, or [`Call::wait`] on a thread that may block. An
//! admin has one thread of its own, which looks for brokers, leaders and the controller, and tries again
//! until the deadline:
//!
//! ```no_run
//! use std::time::Duration;
//! use vltava_client::admin::{Admin, ConfigChange, Resource};
//!
//! let admin = Admin::new("127.0.0.1:9092")?.within(Duration::from_secs(10));
//! for topic in admin.list_topics().wait()? {
//!     let hour = ConfigChange::Set("retention.ms".to_owned(), "3600000".to_owned());
//!     if let Err(error) = admin.alter_config(Resource::Topic(topic.name), vec![hour]).wait() {
//!         // A command that was sent and has no answer may have been carried out.
//!         eprintln!("{error} (again later: {})", error.is_retriable());
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A call about several things has a result for each, in the order they were named in: a topic that cannot
//! be created is not in the way of the others.

mod builder;
mod drive; // the machine and who is told

mod configs; // the calls
mod groups;
mod leaders;
mod partitions;
mod topics;
mod whole;

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;
use std::time::Duration;

use base::Effects;
use client_core::admin::{self as core, Ask, CallId, Effect, Ticket};
use parking_lot::Mutex;

use crate::clock::Clock;
use crate::driver::Driver;
use crate::producer::BuildError;

pub use builder::AdminBuilder;
pub use client_core::admin::{
    AdminError, At, Broker, Cause, ClusterDescription, ConfigChange, ConfigSource, CreatedTopic, Election,
    FeatureChange, FeatureWay, FoundOffset, GroupCoordinator, GroupDescription, GroupMember, ListedGroup,
    LogDir, MemberRef, MorePartitions, NewTopic, NewVoter, OngoingReassignment, Partition, QuorumDescription,
    QuorumMember, Reassignment, ReplicaSize, Resource, Setting, Topic,
};
pub use client_core::consumer::Isolation;
pub use client_core::group::OffsetAndMetadata;

/// Manages a cluster. Cloning is cheap, and all clones are one admin.
#[derive(Debug, Clone)]
pub struct Admin {
    shared: Arc<Shared>,
    // Ends the admin's thread when the last clone is gone.
    _lease: Arc<Lease>,
    timeout: Duration,
    is_dry_run: bool,
}

#[derive(Debug)]
struct Lease {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    state: Mutex<State>,
    driver: Driver,
    clock: Clock,
}

struct State {
    core: core::Admin,
    effects: Effects<Effect>,
    /// Who waits for which call.
    waiting: HashMap<CallId, Waker>,
    is_stopping: bool,
    /// The thread is gone: nothing is answered any more.
    has_ended: bool,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

/// Longer than anybody waits, and short enough to be added to any time.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

impl Admin {
    /// An admin of the cluster behind these addresses (`host:port`, between commas); any of them that
    /// answers is enough. Connections are made when there is something to ask.
    pub fn new(bootstrap_servers: &str) -> Result<Self, BuildError> {
        Self::builder(bootstrap_servers).build()
    }

    /// An admin whose settings are still to be chosen.
    pub fn builder(bootstrap_servers: &str) -> AdminBuilder {
        AdminBuilder::new(bootstrap_servers)
    }

    /// The same admin, whose calls end within this time.
    #[must_use]
    pub fn within(&self, timeout: Duration) -> Self {
        Self { timeout: timeout.min(LONGEST), ..self.clone() }
    }

    /// How long a call may take.
    pub const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The same admin, whose commands change nothing and only find out whether they could be carried out.
    /// Only what a broker can try is tried like that: topics, partitions, settings and features. The rest is
    /// refused.
    #[must_use]
    pub fn dry_run(&self) -> Self {
        Self { is_dry_run: true, ..self.clone() }
    }

    /// The time when a call that begins now has to end.
    fn deadline(&self) -> Duration {
        self.shared.clock.now().elapsed + self.timeout
    }

    /// Asks, and waits for the result of each item.
    async fn ask<A: Ask>(
        &self,
        ask: A,
        items: Vec<A::Item>,
        until: Duration,
    ) -> Vec<Result<A::Said, AdminError>> {
        let count = items.len();
        let ticket = self.shared.state.lock().core.begin(ask, items, until, self.shared.clock.now());
        let asking = Asking { shared: &self.shared, ticket, count };
        self.shared.driver.ring();
        asking.await
    }

    /// Asks for what cannot be tried without being done.
    async fn change<A: Ask>(&self, ask: A, items: Vec<A::Item>) -> Vec<Result<A::Said, AdminError>> {
        if self.is_dry_run {
            let refused = |item| Err(AdminError::NoTrial { what: ask.name(item).to_string() });
            return items.iter().map(refused).collect();
        }
        self.ask(ask, items, self.deadline()).await
    }

    /// As [`Self::change`], for one thing.
    async fn change_one<A: Ask>(&self, ask: A, item: A::Item) -> Result<A::Said, AdminError> {
        self.change(ask, vec![item]).await.pop().unwrap_or(Err(AdminError::Closed))
    }

    /// Asks what has one answer.
    async fn ask_one<A: Ask>(&self, ask: A, item: A::Item, until: Duration) -> Result<A::Said, AdminError> {
        self.ask(ask, vec![item], until).await.pop().unwrap_or(Err(AdminError::Closed))
    }

    /// A call whose time begins when it is first looked at.
    fn call<T, F>(&self, call: impl FnOnce(Self) -> F) -> Call<T>
    where
        F: Future<Output = T> + Send + 'static,
    {
        Call(Box::pin(call(self.clone())))
    }
}

/// Something that an admin is asked. Dropped before it is done, it is given up: what has been sent may
/// still be carried out.
#[must_use = "nothing is asked before it is awaited, or waited for"]
pub struct Call<T>(Pin<Box<dyn Future<Output = T> + Send>>);

impl<T> Call<T> {
    /// Blocks until it is done, which it is within the admin's time.
    pub fn wait(self) -> T {
        crate::block::on(self)
    }
}

impl<T> Future for Call<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        self.0.as_mut().poll(context)
    }
}

impl<T> std::fmt::Debug for Call<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call").finish_non_exhaustive()
    }
}

/// The results of a call, once they are there.
struct Asking<'a, A: Ask> {
    shared: &'a Shared,
    ticket: Ticket<A>,
    count: usize,
}

impl<A: Ask> Future for Asking<'_, A> {
    type Output = Vec<Result<A::Said, AdminError>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.shared.state.lock();
        if let Some(results) = state.core.take(&self.ticket) {
            return Poll::Ready(results);
        }
        if state.has_ended {
            return Poll::Ready((0..self.count).map(|_| Err(AdminError::Closed)).collect());
        }
        state.waiting.insert(self.ticket.id(), context.waker().clone());
        Poll::Pending
    }
}

impl<A: Ask> Drop for Asking<'_, A> {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.core.forget(self.ticket.id());
        state.waiting.remove(&self.ticket.id());
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.shared.state.lock().is_stopping = true;
        self.shared.driver.stop(self.thread.lock().take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_is_dropped_is_given_up() {
        let nobody = std::net::TcpListener::bind("127.0.0.1:0").and_then(|bound| bound.local_addr());
        let admin = Admin::new(&nobody.expect("a port is free").to_string()).expect("it starts");
        let mut call = admin.list_topics();
        let mut context = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut call).poll(&mut context).is_pending());
        let is_waited_for = || !admin.shared.state.lock().waiting.is_empty();
        assert!(is_waited_for());
        drop(call);
        assert!(!is_waited_for());
        let state = admin.shared.state.lock();
        assert_eq!(state.core.deadline(admin.shared.clock.now()), None, "nothing is left to do");
    }

    #[test]
    fn whoever_asks_is_told_when_the_thread_ends() {
        let admin = Admin::new("127.0.0.1:1").expect("it starts");
        admin.shared.state.lock().is_stopping = true;
        admin.shared.driver.stop(None);
        assert_eq!(admin.list_topics().wait(), Err(AdminError::Closed));
    }
}
