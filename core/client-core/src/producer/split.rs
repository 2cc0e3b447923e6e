//! A batch that is larger than the broker takes goes as two.

use std::sync::Arc;

use base::Effects;
use records::{ClosedBatch, Compression, Scratch};

use super::batch::{Closed, Sent};
use super::{Effect, Place, Producer, Task, Work};

impl Producer {
    /// Whether the records of a batch may be sent as other batches than it. Not if it may have been written
    /// and the broker is to know it again: it would not know its parts.
    pub(super) const fn may_split(&self, batch: &Closed) -> bool {
        batch.records > 1 && !(batch.is_in_doubt && self.settings.idempotence)
    }

    /// A batch that was refused for its size comes again as two; if it is compressed, once somebody halved
    /// it: that takes its time.
    pub(super) fn split(&mut self, place: Place, mut batch: Closed, effects: &mut Effects<Effect>) {
        let body = batch.body.take().expect("it was in flight");
        if self.settings.compression == Compression::None {
            let halves = body.halves(&mut Scratch::default());
            return self.put_halves(place, batch, halves.expect("it was sealed and has several records"));
        }
        effects.push(Effect::Compress(Work {
            place,
            id: batch.id,
            first: batch.first,
            task: Task::Halve(body),
        }));
        self.topics.partition(place).put_back(batch);
        self.list(place);
    }

    /// The halves take the place of the whole, with the sequences that its records had: what was sent behind it
    /// is refused for the lack of it, and follows under its own.
    pub(super) fn put_halves(&mut self, place: Place, whole: Closed, halves: [ClosedBatch; 2]) {
        let sizes = halves.each_ref().map(|half| half.bytes().len());
        let counted = match self.memory.grow(whole.counted_bytes, sizes[0] + sizes[1]) {
            true => sizes,
            // There is no room for the second header; it is not waited for what will be free only then.
            false => [sizes[0].min(whole.counted_bytes), whole.counted_bytes.saturating_sub(sizes[0])],
        };
        self.slots.share(whole.id);
        self.topics.partition(place).make_place_behind(whole.order);
        let mut behind = 0;
        for (number, (half, counted_bytes)) in (0..).zip(halves.into_iter().zip(counted)) {
            let records = usize::try_from(half.count()).unwrap_or(0);
            let sequence = |sent: Sent| sent.sequence.wrapping_add(behind as u32);
            self.topics.partition(place).put_back(Closed {
                id: whole.id,
                order: whole.order + number,
                first: whole.first + behind,
                body: Some(Arc::new(half)),
                records,
                counted_bytes,
                sent: whole.sent.map(|sent| Sent { sequence: sequence(sent), ..sent }),
                left_at: whole.left_at,
                is_sealed: false,
                is_in_doubt: whole.is_in_doubt,
                failures: whole.failures,
                last_error: whole.last_error,
            });
            behind += records;
        }
        self.list(place);
    }
}
