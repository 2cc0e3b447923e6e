//! Records in: which partition, which batch.

use base::{Effects, ErrorCode, Now, PartitionIndex, TimestampMs, TopicName};
use records::{BatchBuilder, Compression, HEADER_BYTES, Header};

use super::batch::Open;
use super::error::AppendError;
use super::partitioner::partition_for_key;
use super::topics::Wish;
use super::{BatchId, Effect, Place, Producer, Task, Work};

/// Where a record is to go.
#[derive(Clone, Copy, Debug)]
pub struct Destination<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The partition; chosen by the key, or by what waits, if `None`.
    pub partition: Option<PartitionIndex>,
}

/// A record to be written.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewRecord<'a> {
    /// What it is about; records with the same key go to the same partition.
    pub key: Option<&'a [u8]>,
    /// What it says.
    pub value: Option<&'a [u8]>,
    /// Its headers.
    pub headers: &'a [Header<'a>],
    /// When it was made; now if `None`.
    pub timestamp: Option<TimestampMs>,
}

/// Where a record was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Its batch.
    pub batch: BatchId,
    /// Whether it is the first of that batch.
    pub is_first: bool,
    /// Its place in the batch.
    pub offset_delta: i32,
    /// Its partition.
    pub partition: PartitionIndex,
    /// Its timestamp.
    pub timestamp: TimestampMs,
    /// Whether the caller should see to it that [`Producer::step`] is called soon: something can leave, or is to leave
    /// before [`Producer::deadline`] as it was said last.
    pub wakes: bool,
}

/// The most that the fields of a record take beside key, value and headers; and of a header.
const RECORD_OVERHEAD_BYTES: usize = 40;
const HEADER_OVERHEAD_BYTES: usize = 10;

impl Producer {
    /// How many partitions a topic has; `None` while that is not known, as at first and after a long
    /// silence. They become fewer only if the topic is made anew.
    pub fn partition_count(&self, topic: &str) -> Option<usize> {
        self.topics.partition_count(topic)
    }

    /// Takes a record, or says why not; nothing of it is kept then.
    pub fn append(
        &mut self,
        now: Now,
        to: Destination<'_>,
        record: &NewRecord<'_>,
        effects: &mut Effects<Effect>,
    ) -> Result<Appended, AppendError> {
        if self.is_closed {
            return Err(AppendError::Closed);
        }
        if let Some(code) = self.failed {
            return Err(AppendError::Failed(code));
        }
        if let Some(timestamp) = record.timestamp.filter(|time| !time.is_some() && *time != TimestampMs::NONE)
        {
            return Err(AppendError::Timestamp(timestamp.0));
        }
        let bytes = bytes_of(record);
        let memory_bytes_max =
            self.settings.memory_bytes_max.saturating_sub(self.settings.kept_bytes_per_record);
        let bytes_max = self.settings.request_bytes_max.min(memory_bytes_max);
        if bytes + HEADER_BYTES > bytes_max {
            return Err(AppendError::TooLarge { size: bytes, max: bytes_max });
        }
        let place = self.choose(now, to, record)?;
        let is_sticky = to.partition.is_none() && record.key.is_none();
        let appended = self.put(now, (place, is_sticky), record, bytes, effects);
        if appended.is_err() {
            self.somebody_waits = true;
        } else if is_sticky {
            self.after_sticky(place, bytes);
        }
        appended
    }

    #[inline]
    fn choose(
        &mut self,
        now: Now,
        to: Destination<'_>,
        record: &NewRecord<'_>,
    ) -> Result<Place, AppendError> {
        let Some(number) = self.topics.number(to.topic) else {
            let topic = to.topic.chars().take(TopicName::BYTES_MAX).collect();
            return Err(AppendError::Topic { topic, code: ErrorCode::InvalidTopicException });
        };
        let topic = self.topics.get_mut(number);
        topic.used_at = now.elapsed;
        let count = topic.count;
        if count == 0 {
            return Err(self.not_known(now, number));
        }
        let partition = match (to.partition, record.key) {
            (Some(index), _) => {
                let found = usize::try_from(index.0).ok().filter(|&place| place < count);
                let Some(place) = found else {
                    // It may have been added since.
                    self.metadata.is_wanted = true;
                    return Err(AppendError::Partition { topic: to.topic.to_owned(), index, count });
                };
                place
            }
            (None, Some(key)) => partition_for_key(key, count),
            (None, None) => match topic.sticky.current() {
                Some(partition) => partition,
                None => self.draw(number),
            },
        };
        Ok(Place { topic: number, partition: partition as u32 })
    }

    /// A topic is to be asked for, or was and is refused.
    #[cold]
    fn not_known(&mut self, now: Now, number: u32) -> AppendError {
        let topic = self.topics.get_mut(number);
        if let Some((code, until)) = topic.refused {
            if now.elapsed < until {
                return AppendError::Topic { topic: topic.name.as_ref().to_owned(), code };
            }
            topic.refused = None;
        }
        if topic.wish == Wish::Nobody {
            topic.wish = Wish::Waits;
            self.needs_step |= !self.awaited.is_wanted;
            self.awaited.is_wanted = true;
        }
        let of_topic = topic.trouble.as_ref().map(|(_, why)| why.clone());
        self.somebody_waits = true;
        // What went wrong before the cluster answered is mended.
        let of_links = self.links.trouble(None, self.told_at).map(|(_, why)| why);
        AppendError::TopicNotKnownYet { why: of_links.or(of_topic) }
    }

    #[cold]
    fn draw(&mut self, number: u32) -> usize {
        let topic = self.topics.get_mut(number);
        let waiting = topic.partitions[..topic.count].iter().map(|part| part.leader.map(|_| part.batches()));
        topic.sticky.draw(waiting, &mut self.chance);
        topic.sticky.current().expect("the topic has partitions")
    }

    #[inline]
    fn after_sticky(&mut self, place: Place, bytes: usize) {
        let share = self.settings.batch_bytes_max;
        if self.topics.get_mut(place.topic).sticky.put(bytes, share) {
            self.note_filling(place);
            self.draw(place.topic);
        }
    }

    /// The open batch of a partition is about to leave, or is left: whether it became about as large as it may
    /// tells what to expect of the next one.
    pub(super) fn note_filling(&mut self, place: Place) {
        let half = self.settings.batch_bytes_max / 2;
        let open = &self.topics.partition(place).open;
        let fills = open.as_ref().is_some_and(|open| open.builder.size_bytes() >= half);
        self.topics.get_mut(place.topic).sticky.fills = fills;
    }

    // A call of its own costs 8 % of the throughput.
    #[inline(always)]
    fn put(
        &mut self,
        now: Now,
        (place, is_sticky): (Place, bool),
        record: &NewRecord<'_>,
        bytes: usize,
        effects: &mut Effects<Effect>,
    ) -> Result<Appended, AppendError> {
        let timestamp = record.timestamp.unwrap_or(now.wall);
        let appended = |batch, is_first, offset_delta, wakes| {
            let partition = PartitionIndex(place.partition as i32);
            Appended { batch, is_first, offset_delta, partition, timestamp, wakes }
        };
        let kept_bytes = self.settings.kept_bytes_per_record;
        if !self.memory.grow(0, kept_bytes) {
            return Err(self.no_room());
        }
        let partition = self.topics.partition(place);
        if let Some(open) = &mut partition.open {
            if open.has_room(bytes, self.settings.batch_bytes_max, &mut self.memory)
                && let Ok(delta) =
                    open.builder.try_append(timestamp, record.key, record.value, record.headers)
            {
                return Ok(appended(open.id, false, delta, false));
            }
            self.close_open(place, effects);
        }
        let begun = self.begin(now, (place, is_sticky), (record, timestamp), bytes);
        let Some((id, delta)) = begun else {
            self.memory.shrink(kept_bytes);
            return Err(self.no_room());
        };
        Ok(appended(id, true, delta, self.wakes(place, now)))
    }

    /// Opens a batch with this record, if there is room.
    #[cold]
    fn begin(
        &mut self,
        now: Now,
        (place, is_sticky): (Place, bool),
        (record, timestamp): (&NewRecord<'_>, TimestampMs),
        bytes: usize,
    ) -> Option<(BatchId, i32)> {
        // Without a key all records of a topic go to one partition; it depends on how fast they come, and on
        // the brokers, whether a batch of it is full before it leaves.
        let is_sure = is_sticky && self.topics.get_mut(place.topic).sticky.fills;
        let buffer = self.memory.take(HEADER_BYTES + bytes, is_sure)?;
        let counted_bytes = buffer.capacity();
        let mut builder = BatchBuilder::in_buffer(buffer, self.settings.batch_bytes_max);
        let delta = builder.try_append(timestamp, record.key, record.value, record.headers);
        let delta = delta.expect("an empty batch takes any record");
        let id = self.slots.take();
        let created = now.elapsed;
        self.by_age.push_back((created, place, id));
        self.topics.partition(place).open = Some(Open { id, builder, counted_bytes, created });
        self.list(place);
        Some((id, delta))
    }

    fn no_room(&mut self) -> AppendError {
        self.needs_step |= !self.is_full;
        self.is_full = true;
        AppendError::Full
    }

    /// The open batch of a partition, if there is one, takes no more records.
    pub(super) fn close_open(&mut self, place: Place, effects: &mut Effects<Effect>) {
        let compression = self.settings.compression;
        let Some(closed) = self.topics.partition(place).close_open() else { return };
        if compression == Compression::None {
            return;
        }
        let batch = closed.body.take().and_then(std::sync::Arc::into_inner).expect("it was just closed");
        effects.push(Effect::Compress(Work {
            place,
            id: closed.id,
            first: closed.first,
            task: Task::Compress(batch),
        }));
    }

    /// A partition has something to send.
    pub(super) fn list(&mut self, place: Place) {
        let partition = self.topics.partition(place);
        if !partition.is_listed {
            partition.is_listed = true;
            self.listed.push(place);
        }
    }

    /// Whether the producer is to be stepped for what a partition has. Whatever can leave, leaves in one
    /// step: one call for it is enough.
    fn wakes(&mut self, place: Place, now: Now) -> bool {
        let lingers_until = now.elapsed + self.settings.linger;
        // Whoever steps it sleeps until then, and does not know of it yet.
        let is_timed = !self.settings.linger.is_zero()
            && self.send_at.is_none_or(|at| at > lingers_until)
            && self.may_send_more(place);
        let wakes = !self.is_woken && (is_timed || self.can_leave(place, now));
        self.is_woken |= wakes;
        wakes
    }
}

impl Open {
    /// Whether a record of so many bytes fits into the buffer, which grows as far as it may.
    #[inline]
    fn has_room(&mut self, bytes: usize, batch_bytes: usize, memory: &mut super::Memory) -> bool {
        let needed = self.builder.size_bytes() + bytes;
        let capacity = self.counted_bytes;
        if needed <= capacity {
            return true;
        }
        if needed > batch_bytes {
            // It may fit all the same, since `bytes` is an upper bound.
            return capacity >= batch_bytes;
        }
        let grown = (2 * capacity).max(needed).min(batch_bytes);
        let may_grow = memory.grow(capacity, grown);
        if may_grow {
            self.builder.reserve_bytes(grown);
            self.counted_bytes = grown;
        }
        may_grow
    }
}

/// At most so many bytes does a record take in a batch.
#[inline]
fn bytes_of(record: &NewRecord<'_>) -> usize {
    let of = |bytes: Option<&[u8]>| bytes.map_or(0, <[u8]>::len);
    let headers = record.headers.iter();
    let headers = headers.map(|h| HEADER_OVERHEAD_BYTES + h.key.len() + of(h.value)).sum::<usize>();
    RECORD_OVERHEAD_BYTES + of(record.key) + of(record.value) + headers
}
