//! A group as it will be once the records of a decision are replayed.
//!
//! Whoever decides pushes a record and looks at the state that it makes. So what is decided next rests on what will
//! be, and replaying the records leads to exactly the state that was decided upon.

use std::borrow::Cow;

use super::record::ConsumerGroupRecord;
use super::state::State;

#[derive(Debug)]
pub(super) struct Draft<'a> {
    state: Cow<'a, State>,
    records: Vec<ConsumerGroupRecord>,
}

impl<'a> Draft<'a> {
    pub(super) fn of(state: &'a State) -> Self {
        Self { state: Cow::Borrowed(state), records: Vec::new() }
    }

    pub(super) fn state(&self) -> &State {
        &self.state
    }

    /// One more record.
    pub(super) fn push(&mut self, record: ConsumerGroupRecord) {
        self.state.to_mut().replay(&record);
        self.records.push(record);
    }

    /// The last record of the decision: nobody looks at the state any more, so it need not be copied for it.
    pub(super) fn finish(mut self, last: Option<ConsumerGroupRecord>) -> Vec<ConsumerGroupRecord> {
        self.records.extend(last);
        self.records
    }
}
