//! What a broker's log directories say of its replicas: what may be missing since the last stop, where each
//! log is, and which of them cannot be served.
//!
//! ```text
//!   last stop ─ last_stop ─▶ RegisterBroker: in doubt before anything is elected
//!   metadata and names on the disks ─ place ─▶ open, make, or offline
//!   offline in a directory that is well ─ give_up ─▶ AssignReplicasToDirs: lost, others lead in its stead
//! ```
//!
//! A directory that fails while the broker runs is said with each heartbeat:
//! [`Lifecycle::on_log_dir_failed`](crate::lifecycle::Lifecycle::on_log_dir_failed).

use base::{BrokerEpoch, BrokerId, TopicId, Uuid};
use controller::{AssignReplicasToDirs, Command, InDoubt, PARTITIONS_PER_COMMAND_MAX};
use metadata::{Image, Partition};
use storage::dirs::locate::{Lost, Place, Whose, locate};

use crate::replication::PartitionKey;

/// A log directory as it was found at start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Whether it was never used before.
    pub is_new: bool,
    /// What the mark of an orderly stop says, if there is one: the epoch of the life that ended so; -1 if that
    /// was never registered.
    pub clean: Option<i64>,
    /// The logs in it that count records before these are on the media.
    pub lax: Vec<PartitionKey>,
}

/// What the last stop left, as [`controller::RegisterBroker`] says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastStop {
    /// Whether it was a crash.
    pub after_crash: bool,
    /// The life that was stopped in good order.
    pub previous_epoch: Option<BrokerEpoch>,
    /// The replicas that may lack what they once acknowledged (KIP-966): where nothing counted that was not
    /// durable, none.
    pub in_doubt: InDoubt,
}

/// What the last stop left in all the directories of a broker.
pub fn last_stop(found: &[Found]) -> LastStop {
    let used = || found.iter().filter(|directory| !directory.is_new);
    if used().next().is_none() {
        return LastStop { after_crash: false, previous_epoch: None, in_doubt: InDoubt::Everything };
    }
    let unclean = || used().filter(|directory| directory.clean.is_none());
    if unclean().next().is_none() {
        let epoch = used().filter_map(|directory| directory.clean).min().filter(|epoch| *epoch >= 0);
        let previous_epoch = epoch.map(BrokerEpoch);
        return LastStop { after_crash: false, previous_epoch, in_doubt: InDoubt::Nothing };
    }
    let lax: Vec<PartitionKey> = unclean().flat_map(|directory| directory.lax.iter().copied()).collect();
    let in_doubt = if lax.is_empty() { InDoubt::Nothing } else { InDoubt::Partitions(lax) };
    LastStop { after_crash: true, previous_epoch: None, in_doubt }
}

/// What is to be done with a broker's replica at start; `None` if it has none. `dirs` and `named` are as for
/// [`locate`].
///
/// A log that could not be served before is looked for everywhere. In none of the directories it is made anew if
/// another has what it had, and leads.
pub fn place(
    broker: BrokerId,
    topic: TopicId,
    partition: &Partition,
    dirs: &[Uuid],
    named: &[(usize, Whose)],
) -> Option<Place> {
    if !partition.replicas.contains(&broker) {
        return None;
    }
    let assigned = partition.directory_of(broker).filter(|id| *id != Partition::DIRECTORY_UNASSIGNED);
    if assigned != Some(Partition::DIRECTORY_LOST) {
        return Some(locate(assigned, dirs, topic, named));
    }
    let is_led = partition.leader != BrokerId::NONE && partition.leader != broker;
    Some(match locate(None, dirs, topic, named) {
        Place::Make if !is_led => Place::Offline(Lost::Nowhere),
        place => place,
    })
}

/// Has the controller know of logs that cannot be served although their directories are as good as any: others
/// are in sync and lead in their stead. To be said until it is so; `None` if there is nothing to say.
pub fn give_up(
    broker: BrokerId,
    image: &Image,
    lost: impl IntoIterator<Item = PartitionKey>,
) -> Option<Command> {
    let is_news = |&(topic, index): &PartitionKey| {
        image.partition(topic, index).is_some_and(|partition| {
            // Of one that nobody else has there is nothing to give up: it is said where it should be.
            let directory = partition.directory_of(broker);
            partition.replicas.len() > 1 && directory != Some(Partition::DIRECTORY_LOST)
        })
    };
    let lost = lost.into_iter().filter(is_news).take(PARTITIONS_PER_COMMAND_MAX);
    let replicas: Vec<_> = lost.map(|(topic, index)| (topic, index, Partition::DIRECTORY_LOST)).collect();
    let command = AssignReplicasToDirs { broker, replicas };
    (!command.replicas.is_empty()).then_some(Command::AssignReplicasToDirs(command))
}

#[cfg(test)]
mod tests {
    use base::{LeaderEpoch, PartitionIndex};

    use super::*;

    const TOPIC: TopicId = TopicId(Uuid([7; 16]));
    const HERE: Uuid = Uuid([1; 16]);

    /// A crash, the life that was ended, what is in doubt.
    type Left = (bool, Option<i64>, InDoubt);

    #[test]
    fn what_the_last_stop_left() {
        let key = |index| (TOPIC, PartitionIndex(index));
        let new = || Found { is_new: true, clean: None, lax: vec![] };
        let clean = |epoch| Found { is_new: false, clean: Some(epoch), lax: vec![key(9)] };
        let crashed = |lax: &[i32]| Found {
            is_new: false,
            clean: None,
            lax: lax.iter().map(|index| key(*index)).collect(),
        };
        let partitions = |all: &[i32]| InDoubt::Partitions(all.iter().map(|index| key(*index)).collect());
        let cases: &[(&str, &[Found], Left)] = &[
            ("all are new", &[new(), new()], (false, None, InDoubt::Everything)),
            ("in order", &[clean(5), clean(5)], (false, Some(5), InDoubt::Nothing)),
            ("an old disk among them", &[clean(5), clean(3)], (false, Some(3), InDoubt::Nothing)),
            ("one more disk", &[clean(5), new()], (false, Some(5), InDoubt::Nothing)),
            ("never registered", &[clean(-1)], (false, None, InDoubt::Nothing)),
            ("a crash, all of it durable", &[crashed(&[])], (true, None, InDoubt::Nothing)),
            ("a crash", &[crashed(&[1, 2]), crashed(&[3])], (true, None, partitions(&[1, 2, 3]))),
            ("a crash after half a stop", &[clean(5), crashed(&[1])], (true, None, partitions(&[1]))),
        ];
        for (name, found, wanted) in cases {
            let left = last_stop(found);
            let got = (left.after_crash, left.previous_epoch.map(|epoch| epoch.0), left.in_doubt);
            assert_eq!(&got, wanted, "{name}");
        }
    }

    fn partition(replicas: &[i32], leader: i32, directory: Uuid) -> Partition {
        let replicas: Box<[BrokerId]> = replicas.iter().map(|id| BrokerId(*id)).collect();
        Partition {
            index: PartitionIndex(0),
            leader: BrokerId(leader),
            leader_epoch: LeaderEpoch(0),
            partition_epoch: 0,
            recovering: false,
            isr: replicas.clone(),
            directories: replicas.iter().map(|_| directory).collect(),
            replicas,
            unsettled: None,
        }
    }

    #[test]
    fn what_could_not_be_served_is_looked_for_and_made_anew_only_beside_others() {
        let look = |leader, named: &[(usize, Whose)]| {
            place(BrokerId(1), TOPIC, &partition(&[1, 2], leader, Partition::DIRECTORY_LOST), &[HERE], named)
        };
        assert_eq!(look(2, &[(0, Whose::Topic(TOPIC))]), Some(Place::Open(0)));
        assert_eq!(look(2, &[]), Some(Place::Make));
        assert_eq!(look(1, &[]), Some(Place::Offline(Lost::Nowhere)));
        assert_eq!(look(-1, &[]), Some(Place::Offline(Lost::Nowhere)));
        let anothers = partition(&[2, 3], 2, HERE);
        assert_eq!(place(BrokerId(1), TOPIC, &anothers, &[HERE], &[]), None);
        let new = partition(&[1, 2], 1, Partition::DIRECTORY_UNASSIGNED);
        assert_eq!(place(BrokerId(1), TOPIC, &new, &[HERE], &[]), Some(Place::Make));
        let vanished = partition(&[1, 2], 1, HERE);
        let place = place(BrokerId(1), TOPIC, &vanished, &[HERE], &[]);
        assert_eq!(place, Some(Place::Offline(Lost::Vanished { at: 0 })));
    }
}
