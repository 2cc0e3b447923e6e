//! The in-sync sets that leaders of this broker ask for: one request to the controller at a time, with all
//! that came together meanwhile (KIP-497).

use std::collections::BTreeMap;

use controller::{ControllerError, Outcomes, PartitionAltered, Reply};
use replica::{AlterIsr, IsrAnswer};

use super::PartitionKey;

/// See the module. Bounded by the partitions: each has one proposal at most.
#[derive(Debug, Default)]
pub struct Proposals {
    waiting: BTreeMap<PartitionKey, AlterIsr>,
    in_flight: BTreeMap<PartitionKey, AlterIsr>,
}

impl Proposals {
    /// A partition asks. What it asked before and was not sent is replaced.
    pub fn add(&mut self, key: PartitionKey, proposal: AlterIsr) {
        self.waiting.insert(key, proposal);
    }

    /// Whether there is something to send.
    pub fn are_due(&self) -> bool {
        self.in_flight.is_empty() && !self.waiting.is_empty()
    }

    /// What to send now, at most `max` of them; empty while an answer is awaited, or if there is nothing.
    pub fn next(&mut self, max: usize) -> Vec<(PartitionKey, AlterIsr)> {
        if !self.in_flight.is_empty() {
            return Vec::new();
        }
        let rest = match self.waiting.keys().nth(max).copied() {
            Some(first_left) => self.waiting.split_off(&first_left),
            None => BTreeMap::new(),
        };
        self.in_flight = std::mem::replace(&mut self.waiting, rest);
        self.in_flight.iter().map(|(key, proposal)| (*key, proposal.clone())).collect()
    }

    /// The request was answered, or nobody knows what became of it (`None`): those that were in it, each with
    /// what it is to be told.
    pub fn on_answered(&mut self, reply: Option<Reply>) -> Vec<(PartitionKey, AlterIsr, IsrAnswer)> {
        let asked = std::mem::take(&mut self.in_flight);
        let outcomes = match reply {
            Some(Reply::AlterPartitions(outcomes)) if outcomes.len() == asked.len() => outcomes,
            _ => Outcomes::new(),
        };
        let answers = outcomes.into_iter().map(answer).chain(std::iter::repeat(IsrAnswer::Unknown));
        asked.into_iter().zip(answers).map(|((key, proposal), answer)| (key, proposal, answer)).collect()
    }
}

fn answer(outcome: Result<PartitionAltered, ControllerError>) -> IsrAnswer {
    match outcome {
        Ok(PartitionAltered { isr, partition_epoch, .. }) => IsrAnswer::Altered { isr, partition_epoch },
        // It was compared with the partition as the leader knows it, so no copy of it was taken before.
        Err(ControllerError::IneligibleReplica(_) | ControllerError::InvalidRequest(_)) => IsrAnswer::Refused,
        // Deleted, or not known yet by a controller that was deposed and not told: the metadata will say.
        Err(ControllerError::UnknownTopicId(_) | ControllerError::UnknownPartition { .. }) => {
            IsrAnswer::Unknown
        }
        // Something changed the partition, and that may have been a copy of it.
        Err(_) => IsrAnswer::Outdated,
    }
}

#[cfg(test)]
mod tests {
    use base::{BrokerEpoch, BrokerId, LeaderEpoch, PartitionIndex, TopicId, Uuid};

    use super::*;

    fn asked(partition: i32) -> (PartitionKey, AlterIsr) {
        let isr = vec![(BrokerId(1), BrokerEpoch::NONE), (BrokerId(2), BrokerEpoch(7))];
        let proposal = AlterIsr { leader_epoch: LeaderEpoch(1), partition_epoch: 4, isr };
        ((TopicId(Uuid([1; 16])), PartitionIndex(partition)), proposal)
    }

    fn answers(reply: Option<Reply>) -> Vec<IsrAnswer> {
        let mut proposals = Proposals::default();
        for (key, proposal) in (0..3).map(asked) {
            proposals.add(key, proposal);
        }
        assert!(proposals.are_due());
        assert_eq!(proposals.next(10), (0..3).map(asked).collect::<Vec<_>>());
        proposals.add(asked(3).0, asked(3).1);
        assert_eq!(proposals.next(10), [], "one request at a time");
        assert!(!proposals.are_due());
        let answered = proposals.on_answered(reply);
        assert!(answered.iter().map(|(key, proposal, _)| (*key, proposal.clone())).eq((0..3).map(asked)));
        assert!(proposals.are_due(), "what came meanwhile");
        answered.into_iter().map(|(_, _, answer)| answer).collect()
    }

    #[test]
    fn only_what_was_looked_at_and_found_wrong_is_refused() {
        let altered = PartitionAltered {
            leader: BrokerId(1),
            leader_epoch: LeaderEpoch(1),
            isr: vec![BrokerId(1), BrokerId(2)],
            recovering: false,
            partition_epoch: 5,
        };
        let stale = ControllerError::InvalidUpdateVersion { current: 5, got: 4 };
        let ineligible = ControllerError::IneligibleReplica("2".into());
        let outcomes = vec![Ok(altered.clone()), Err(stale), Err(ineligible)];
        let taken = IsrAnswer::Altered { isr: altered.isr, partition_epoch: 5 };
        let expected = [taken, IsrAnswer::Outdated, IsrAnswer::Refused];
        assert_eq!(answers(Some(Reply::AlterPartitions(outcomes))), expected);
    }

    #[test]
    fn nobody_knows_what_became_of_a_request_without_an_answer() {
        let unknown = [IsrAnswer::Unknown, IsrAnswer::Unknown, IsrAnswer::Unknown];
        assert_eq!(answers(None), unknown);
        assert_eq!(answers(Some(Reply::AlterPartitions(Outcomes::new()))), unknown, "too few outcomes");
    }
}
