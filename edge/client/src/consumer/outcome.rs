//! What becomes of what a group was asked: commits, and questions for what was committed.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use client_core::group::{CommittedOffsets, GroupError};

use super::Shared;

/// Who waits for what, by the number that the member gave it.
#[derive(Debug, Default)]
pub(super) struct Waits(HashMap<u64, Wait>);

/// Who waits for an outcome, or the outcome.
#[derive(Debug)]
enum Wait {
    Pending(Option<Waker>),
    Done(Outcome),
}

#[derive(Debug)]
pub(super) enum Outcome {
    Committed(Result<(), GroupError>),
    Fetched(Result<CommittedOffsets, GroupError>),
}

impl Waits {
    pub(super) fn begin(&mut self, id: u64) {
        self.0.insert(id, Wait::Pending(None));
    }

    /// Whom to wake; nobody may wait for it.
    pub(super) fn on_outcome(&mut self, id: u64, outcome: Outcome) -> Option<Waker> {
        match std::mem::replace(self.0.get_mut(&id)?, Wait::Done(outcome)) {
            Wait::Pending(waker) => waker,
            Wait::Done(_) => None,
        }
    }

    /// Nothing comes any more: everybody is woken.
    pub(super) fn end(&mut self) -> Vec<Waker> {
        let wakers = self.0.values_mut().filter_map(|wait| match wait {
            Wait::Pending(waker) => waker.take(),
            Wait::Done(_) => None,
        });
        wakers.collect()
    }
}

/// Something that a group was asked; `id` is `None` without a group.
pub(super) struct Waiting {
    shared: Arc<Shared>,
    id: Option<u64>,
}

impl Waiting {
    pub(super) const fn new(shared: Arc<Shared>, id: Option<u64>) -> Self {
        Self { shared, id }
    }

    /// `None`: there is no answer any more.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Outcome>> {
        let Some(id) = self.id else { return Poll::Ready(None) };
        let mut state = self.shared.state.lock();
        let has_ended = state.has_ended;
        let Some(group) = &mut state.group else { return Poll::Ready(None) };
        match group.waits.0.remove(&id) {
            Some(Wait::Done(outcome)) => Poll::Ready(Some(outcome)),
            Some(Wait::Pending(_)) if !has_ended => {
                group.waits.0.insert(id, Wait::Pending(Some(context.waker().clone())));
                Poll::Pending
            }
            Some(Wait::Pending(_)) | None => Poll::Ready(None),
        }
    }

    fn wait(&mut self) -> Option<Outcome> {
        let is_done = || {
            let state = self.shared.state.lock();
            let wait = self.id.zip(state.group.as_ref()).and_then(|(id, group)| group.waits.0.get(&id));
            state.has_ended || !matches!(wait, Some(Wait::Pending(_)))
        };
        if !is_done() {
            self.shared.driver.drive(&*self.shared, None, is_done);
        }
        match self.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => None,
        }
    }

    /// Why there is no outcome.
    const fn none(&self) -> GroupError {
        if self.id.is_none() { GroupError::NoGroup } else { GroupError::Closed }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        if let Some((group, id)) = state.group.as_mut().zip(self.id) {
            group.waits.0.remove(&id);
        }
    }
}

/// A commit on its way. It goes on if this is dropped.
pub struct Committing(Waiting);

impl Committing {
    pub(super) const fn new(waiting: Waiting) -> Self {
        Self(waiting)
    }

    /// What came of it, if that is known.
    pub(super) fn now(mut self) -> Option<Result<(), GroupError>> {
        match Pin::new(&mut self).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => Some(result),
            Poll::Pending => None,
        }
    }

    /// Blocks until it is done, or failed for good.
    pub fn wait(mut self) -> Result<(), GroupError> {
        match self.0.wait() {
            Some(Outcome::Committed(result)) => result,
            _ => Err(self.0.none()),
        }
    }
}

impl Future for Committing {
    type Output = Result<(), GroupError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(context).map(|outcome| match outcome {
            Some(Outcome::Committed(result)) => result,
            _ => Err(self.0.none()),
        })
    }
}

/// A question for what was committed.
#[must_use = "the answer comes to who awaits it, or waits for it"]
pub struct FetchingCommitted(Waiting);

impl FetchingCommitted {
    pub(super) const fn new(waiting: Waiting) -> Self {
        Self(waiting)
    }

    /// Blocks until it is answered.
    pub fn wait(mut self) -> Result<CommittedOffsets, GroupError> {
        match self.0.wait() {
            Some(Outcome::Fetched(result)) => result,
            _ => Err(self.0.none()),
        }
    }
}

impl Future for FetchingCommitted {
    type Output = Result<CommittedOffsets, GroupError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(context).map(|outcome| match outcome {
            Some(Outcome::Fetched(result)) => result,
            _ => Err(self.0.none()),
        })
    }
}

impl fmt::Debug for Committing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Committing").finish_non_exhaustive()
    }
}

impl fmt::Debug for FetchingCommitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FetchingCommitted").finish_non_exhaustive()
    }
}
