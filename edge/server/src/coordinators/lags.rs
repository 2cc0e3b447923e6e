//! What groups there are on this node, and how far behind they are, counted when somebody looks at the metrics.
//!
//! ```text
//!   shard ── offsets, a slice at a time ──▶ by group and topic ──▶ the highest lags
//!   replicas on this node, leaders and followers ── high watermarks ──┘
//! ```
//!
//! A group is counted where it is coordinated, so the sum over the nodes is that of the cluster. Where its partitions
//! end only those know that have replicas of them: what has none on this node has a lag that is not known here, and so
//! has its topic, for a part of a sum is no sum. A follower knows what its leader told it last.
//!
//! **Invariant:** no more than a twentieth of the time is spent on it, however often it is asked for.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use base::{Offset, PartitionIndex, TopicId};
use coordinator::{CountedGroup, CountedTopic};
use metadata::Image;
use parking_lot::{Condvar, Mutex};
use telemetry::{GroupCensus, GroupLag};

use super::{Coordinators, ShardCell};
use crate::table::PartitionTable;

/// As many lags are shown: each is a line, with a name that a client chose.
const LAGS_MAX: usize = 1_000;
/// No label is longer, in bytes. Groups with longer ids are counted, but their lags are left out.
const LABEL_BYTES_MAX: usize = 256;
/// Offsets that are looked at while requests of a shard wait.
const SLICE_OFFSETS: usize = 10_000;
/// What was counted is shown again for so many times as long as the counting took.
const REST: u32 = 20;

/// Who looks waits for so long, and then is shown what there was before: it may be a disk that has to answer first.
const WAIT_MAX: Duration = Duration::from_millis(500);

/// Counts, and remembers for a while.
#[derive(Default)]
pub(crate) struct Lags(Arc<Counting>);

#[derive(Default)]
struct Counting {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    last: Option<Counted>,
    is_counting: bool,
}

struct Counted {
    census: Arc<GroupCensus>,
    at: Instant,
    took: Duration,
}

/// Where the partitions on this node end, as far as somebody asked.
struct Ends<'a> {
    table: &'a PartitionTable,
    known: BTreeMap<(TopicId, PartitionIndex), Option<Offset>>,
}

impl Lags {
    /// What there is, or was a moment ago; nothing if that is not known soon.
    pub(crate) fn get(
        &self,
        coordinators: &Arc<Coordinators>,
        table: &Arc<PartitionTable>,
        image: &Arc<ArcSwap<Image>>,
    ) -> Arc<GroupCensus> {
        let mut state = self.0.state.lock();
        let is_fresh = |it: &Counted| it.at.elapsed() < it.took * REST;
        if !state.last.as_ref().is_some_and(is_fresh) {
            if !state.is_counting {
                let (coordinators, table, image) =
                    (Arc::clone(coordinators), Arc::clone(table), image.load_full());
                state.is_counting = self.0.begin(move || count(&coordinators.all(), &table, &image));
            }
            let give_up_at = Instant::now() + WAIT_MAX;
            while state.is_counting && !self.0.ended.wait_until(&mut state, give_up_at).timed_out() {}
        }
        state.last.as_ref().map_or_else(Arc::default, |counted| Arc::clone(&counted.census))
    }
}

impl Counting {
    /// Counts, on a thread that may wait. Whether there is one.
    fn begin(self: &Arc<Self>, count: impl FnOnce() -> GroupCensus + Send + 'static) -> bool {
        struct Over(Arc<Counting>);
        impl Drop for Over {
            fn drop(&mut self) {
                self.0.state.lock().is_counting = false;
                self.0.ended.notify_all();
            }
        }
        let counting = Arc::clone(self);
        let thread = std::thread::Builder::new().name("group-lags".to_owned());
        let begun = thread.spawn(move || {
            let (over, at) = (Over(counting), Instant::now());
            let census = Arc::new(count());
            over.0.state.lock().last = Some(Counted { census, at, took: at.elapsed() });
        });
        begun.is_ok()
    }
}

fn count(shards: &[Arc<ShardCell>], table: &PartitionTable, image: &Image) -> GroupCensus {
    let mut census = GroupCensus::default();
    let mut ends = Ends { table, known: BTreeMap::new() };
    for shard in shards {
        let mut after: Option<Arc<str>> = None;
        loop {
            let slice = shard.with(|shard| shard.count_groups(after.as_deref(), SLICE_OFFSETS));
            let Some(last) = slice.last() else { break };
            after = Some(Arc::clone(&last.group));
            slice.iter().for_each(|group| take(group, &mut ends, image, &mut census));
        }
    }
    show_highest(&mut census, LAGS_MAX);
    census
}

/// Leaves out all but the highest lags.
fn show_highest(census: &mut GroupCensus, lags_max: usize) {
    census.lags.sort_unstable_by(|a, b| {
        let key = |it: &GroupLag| Reverse(it.records);
        (key(a), &a.group, &a.topic).cmp(&(key(b), &b.group, &b.topic))
    });
    census.lags_left_out += census.lags.len().saturating_sub(lags_max) as u64;
    census.lags.truncate(lags_max);
}

fn take(group: &CountedGroup, ends: &mut Ends<'_>, image: &Image, census: &mut GroupCensus) {
    *census.groups.entry((group.kind, group.state)).or_default() += 1;
    for topic in &group.topics {
        census.offsets += topic.offsets.len() as u64;
        let Some(id) = image.topic(topic.name.as_str()).map(|topic| topic.id) else { continue };
        match lag(id, topic, ends) {
            None => census.lags_unknown += 1,
            Some(_) if group.group.len() > LABEL_BYTES_MAX => census.lags_left_out += 1,
            Some(records) => {
                let (group, topic) = (Arc::clone(&group.group), topic.name.to_string());
                census.lags.push(GroupLag { group, topic, records });
            }
        }
    }
}

/// Records that are to be read of a topic; `None` if that is not known of all that was committed.
fn lag(id: TopicId, topic: &CountedTopic, ends: &mut Ends<'_>) -> Option<u64> {
    let mut records = 0_u64;
    for &(index, of, offset) in &topic.offsets {
        // What was committed of a topic that had this name before says nothing of this one.
        if !of.is_zero() && of != id.0 {
            continue;
        }
        let end = ends.of(id, index)?;
        records = records.saturating_add(u64::try_from(end.0.saturating_sub(offset.0)).unwrap_or(0));
    }
    Some(records)
}

impl Ends<'_> {
    fn of(&mut self, topic: TopicId, partition: PartitionIndex) -> Option<Offset> {
        let table = self.table;
        *self.known.entry((topic, partition)).or_insert_with(|| {
            let cell = table.get(topic, partition).filter(|cell| !cell.is_offline())?;
            Some(cell.with(|partition| partition.high_watermark()))
        })
    }
}

#[cfg(test)]
mod tests {
    use base::{TopicName, Uuid};
    use metadata::{MetadataRecord, NewTopic};

    use super::*;

    const ID: TopicId = TopicId(Uuid([7; 16]));
    const OLDER: Uuid = Uuid([6; 16]);

    /// A group that has come to these offsets in `orders`: partition, id of the topic, offset.
    fn group(id: &str, offsets: &[(i32, Uuid, i64)]) -> CountedGroup {
        let offsets = offsets.iter().map(|&(index, of, offset)| (PartitionIndex(index), of, Offset(offset)));
        let name = TopicName::new("orders").expect("it is legal");
        let topics = vec![CountedTopic { name, offsets: offsets.collect() }];
        CountedGroup { group: id.into(), kind: "classic", state: "Stable", topics }
    }

    #[test]
    fn lags_are_told_where_all_ends_are_known_the_highest_first() {
        let name = TopicName::new("orders").expect("it is legal");
        let image = Image::default().after(&[MetadataRecord::Topic(NewTopic { name, id: ID })], Offset(1)).0;
        let table = PartitionTable::default();
        let known = [(0, Some(100)), (1, Some(10)), (2, None)];
        let known = known.map(|(index, end)| ((ID, PartitionIndex(index)), end.map(Offset)));
        let mut ends = Ends { table: &table, known: known.into() };
        let mut census = GroupCensus::default();
        let long = "x".repeat(LABEL_BYTES_MAX + 1);
        for group in [
            group("both", &[(0, ID.0, 90), (1, Uuid::ZERO, 7)]),
            group("ahead", &[(0, ID.0, 101)]),
            group("of the topic before", &[(0, OLDER, 5), (1, ID.0, 9)]),
            group("elsewhere", &[(0, ID.0, 0), (2, ID.0, 5)]),
            group("no replica", &[(3, ID.0, 5)]),
            group(&long, &[(0, ID.0, 5)]),
        ] {
            take(&group, &mut ends, &image, &mut census);
        }
        show_highest(&mut census, 2);
        let lags: Vec<(&str, u64)> = census.lags.iter().map(|it| (&*it.group, it.records)).collect();
        assert_eq!(lags, [("both", 13), ("of the topic before", 1)]);
        assert_eq!(
            (census.lags_left_out, census.lags_unknown),
            (2, 2),
            "one for its name, one for its place"
        );
        assert_eq!((census.groups[&("classic", "Stable")], census.offsets), (6, 9));
        // Nobody reads what is not there any more.
        let mut gone = GroupCensus::default();
        take(&group("late", &[(0, ID.0, 1)]), &mut ends, &Image::default(), &mut gone);
        assert_eq!((gone.lags.len(), gone.lags_unknown, gone.offsets), (0, 0, 1));
    }
}
