//! What a broker's log directories say of its replicas: what may be missing since the last stop, where each
//! log is, and which of them cannot be served.
//!
//! ```text
//!   last stop ─ last_stop ─▶ RegisterBroker: in doubt before anything is elected
//!   metadata and names on the disks ─ place ─▶ open, make, or offline
//!   offline, and another leads ─ begins_anew ─▶ make: empty, and filled by the leader
//!   offline in a directory that is well ─ give_up ─▶ AssignReplicasToDirs: lost, others lead in its stead
//!   served, and found damaged ─ can_be_replaced ─▶ offline
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
/// A log that could not be served before, or whose directory is not there, is looked for everywhere; the latter only
/// if it may begin anew, for then it does not matter how old what is found is. It does where the topic `compacts`: the
/// others may have been all there were meanwhile, and have dropped tombstones of what an old log has (ADR 0038). So of
/// such a topic what is found where it is not known to be is not believed, if the leader can fill an empty one.
pub fn place(
    broker: BrokerId,
    image: &Image,
    (topic, partition): (TopicId, &Partition),
    dirs: &[Uuid],
    named: &[(usize, Whose)],
    compacts: impl FnOnce() -> bool,
) -> Option<Place> {
    if !partition.replicas.contains(&broker) {
        return None;
    }
    let assigned = partition.directory_of(broker).filter(|id| *id != Partition::DIRECTORY_UNASSIGNED);
    let is_at_home = assigned.is_some_and(|id| dirs.contains(&id));
    if !is_at_home && is_dispensable(broker, image, partition) && compacts() {
        return Some(Place::Make);
    }
    let begins_anew = begins_anew(broker, image, partition, dirs);
    if !begins_anew && assigned != Some(Partition::DIRECTORY_LOST) {
        return Some(locate(assigned, dirs, topic, named));
    }
    Some(match locate(None, dirs, topic, named) {
        Place::Make if !begins_anew => Place::Offline(Lost::Nowhere),
        place => place,
    })
}

/// Whether a replica whose log is nowhere may begin with an empty one: its directory is not among `dirs`, or it was
/// given up; another broker leads and is there; and nobody counts on this one.
///
/// **Invariant:** an empty log is not elected. As long as the replica is assigned to a directory that is not there,
/// the controller has it neither in sync nor lead; so who leads now led after it, and it comes back into the in-sync
/// set, the eligible replicas or the memory of the last leader only by catching up with a leader of now or later.
pub fn begins_anew(broker: BrokerId, image: &Image, partition: &Partition, dirs: &[Uuid]) -> bool {
    let directory = partition.directory_of(broker);
    let is_gone = directory.is_some_and(|id| id != Partition::DIRECTORY_UNASSIGNED && !dirs.contains(&id));
    is_gone && is_dispensable(broker, image, partition)
}

/// Whether another broker leads and is there, and nobody counts on this one's replica.
fn is_dispensable(broker: BrokerId, image: &Image, partition: &Partition) -> bool {
    let counted_on = [&partition.isr[..], partition.eligible(), partition.last_known_eligible()];
    let is_counted_on = counted_on.iter().any(|ids| ids.contains(&broker));
    let is_led = image.broker(partition.leader).is_some_and(|leader| !leader.fenced);
    is_led && partition.leader != broker && !is_counted_on
}

/// Whether another replica has all that is committed, and is there to lead at once, if this broker's is given up.
pub fn can_be_replaced(broker: BrokerId, image: &Image, partition: &Partition) -> bool {
    let others = partition.isr.iter().chain(partition.eligible()).filter(|id| **id != broker);
    others.filter_map(|id| image.broker(*id)).any(|other| !other.fenced && !other.in_controlled_shutdown)
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
    // A life that is over is told so, and has nothing to give up.
    let epoch = image.broker(broker)?.epoch;
    let command = AssignReplicasToDirs { broker, epoch, replicas };
    (!command.replicas.is_empty()).then_some(Command::AssignReplicasToDirs(command))
}

#[cfg(test)]
mod tests {
    use base::{LeaderEpoch, Offset, PartitionIndex};
    use metadata::{Broker, MetadataRecord, Unsettled};

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
            unclean_epoch: LeaderEpoch::NONE,
            isr: replicas.clone(),
            directories: replicas.iter().map(|_| directory).collect(),
            replicas,
            unsettled: None,
        }
    }

    /// Brokers 2 and 3 are there, 4 is fenced.
    fn image() -> Image {
        let broker = |id| {
            MetadataRecord::RegisterBroker(Broker {
                id: BrokerId(id),
                epoch: BrokerEpoch(1),
                incarnation: Uuid::ZERO,
                endpoints: Vec::new(),
                features: Vec::new(),
                rack: None,
                fenced: id == 4,
                in_controlled_shutdown: false,
                log_dirs: Vec::new(),
            })
        };
        Image::default().after(&[broker(2), broker(3), broker(4)], Offset(3)).0
    }

    fn look(partition: &Partition, named: &[(usize, Whose)]) -> Option<Place> {
        place(BrokerId(1), &image(), (TOPIC, partition), &[HERE], named, || false)
    }

    #[test]
    fn an_old_copy_of_a_compacted_log_is_not_believed_beside_others() {
        let copy = [(0, Whose::Topic(TOPIC))];
        let of = |leader, isr: &[i32], directory, compacts| {
            let isr = isr.iter().map(|id| BrokerId(*id)).collect();
            let partition = Partition { isr, ..partition(&[1, 2], leader, directory) };
            place(BrokerId(1), &image(), (TOPIC, &partition), &[HERE], &copy, || compacts)
        };
        let open = Some(Place::Open(0));
        // It was taken from this broker, say, and given back.
        for directory in [Partition::DIRECTORY_UNASSIGNED, Partition::DIRECTORY_LOST, Uuid([9; 16])] {
            assert_eq!(of(2, &[2], directory, true), Some(Place::Make), "{directory}");
            assert_eq!(of(2, &[2], directory, false), open, "{directory}");
        }
        assert_eq!(of(2, &[2], HERE, true), open, "it was out of sync, and the others have waited");
        let unassigned = Partition::DIRECTORY_UNASSIGNED;
        assert_eq!(of(2, &[1, 2], unassigned, true), open, "it was made, and that was not said any more");
        assert_eq!(of(-1, &[], unassigned, true), open, "nobody else has it");
    }

    #[test]
    fn what_could_not_be_served_is_looked_for_and_made_anew_only_beside_others() {
        let look_for = |leader, named: &[(usize, Whose)]| {
            let mut lost = partition(&[1, 2], leader, Partition::DIRECTORY_LOST);
            lost.isr = [BrokerId(2)].into();
            look(&lost, named)
        };
        assert_eq!(look_for(2, &[(0, Whose::Topic(TOPIC))]), Some(Place::Open(0)));
        assert_eq!(look_for(1, &[(0, Whose::Topic(TOPIC))]), Some(Place::Open(0)), "somebody put it back");
        assert_eq!(look_for(2, &[]), Some(Place::Make));
        assert_eq!(look_for(1, &[]), Some(Place::Offline(Lost::Nowhere)));
        assert_eq!(look_for(-1, &[]), Some(Place::Offline(Lost::Nowhere)));
        assert_eq!(look(&partition(&[2, 3], 2, HERE), &[]), None);
        let new = partition(&[1, 2], 1, Partition::DIRECTORY_UNASSIGNED);
        assert_eq!(look(&new, &[]), Some(Place::Make));
        let vanished = partition(&[1, 2], 1, HERE);
        assert_eq!(look(&vanished, &[]), Some(Place::Offline(Lost::Vanished { at: 0 })));
    }

    #[test]
    fn a_log_that_went_with_its_disk_begins_anew_only_where_it_is_not_counted_on_and_another_leads() {
        let gone = Uuid([9; 16]);
        let of = |leader, isr: &[i32]| {
            let isr = isr.iter().map(|id| BrokerId(*id)).collect();
            Partition { isr, ..partition(&[1, 2, 4], leader, gone) }
        };
        let offline = Some(Place::Offline(Lost::NoDirectory(gone)));
        assert_eq!(look(&of(2, &[2]), &[]), Some(Place::Make));
        assert_eq!(look(&of(-1, &[]), &[]), offline, "nobody leads");
        assert_eq!(look(&of(1, &[1]), &[]), offline, "it leads itself, as far as anybody knows");
        assert_eq!(look(&of(2, &[1, 2]), &[]), offline, "it is in sync");
        assert_eq!(look(&of(4, &[4]), &[]), offline, "who leads is not there");
        // An old copy, perhaps: it is no better than none, but what it has need not be sent again.
        let copy = [(0, Whose::Topic(TOPIC))];
        assert_eq!(look(&of(2, &[2]), &copy), Some(Place::Open(0)));
        assert_eq!(look(&of(-1, &[]), &copy), offline, "it must not be elected for what it is not");
        let alone = partition(&[1], 1, gone);
        assert_eq!(look(&alone, &[]), offline);
        let mut eligible = of(2, &[2]);
        eligible.unsettled =
            Some(Box::new(Unsettled { eligible: [BrokerId(1)].into(), ..Unsettled::default() }));
        assert_eq!(look(&eligible, &[]), offline, "it is eligible");
    }
}
