//! A batch that is larger than the broker takes goes as two.

use std::sync::Arc;

use base::Effects;
use records::{Compression, Scratch};

use super::batch::{Closed, Sent};
use super::{Effect, Place, Producer, Work};

impl Producer {
    /// Whether the records of a batch may be sent as other batches than it. Not if it may have been written
    /// and the broker is to know it again: it would not know its parts.
    pub(super) const fn may_split(&self, batch: &Closed) -> bool {
        batch.records > 1 && !(batch.is_in_doubt && self.settings.idempotence)
    }

    /// A batch that was refused for its size comes again as two, with the sequences that its records had:
    /// what was sent behind it is refused for the lack of it, and follows under its own.
    pub(super) fn split(&mut self, place: Place, batch: Closed, effects: &mut Effects<Effect>) {
        let body = batch.body.as_ref().expect("it was in flight");
        let halves = body.halves(&mut Scratch::default()).expect("it was sealed and has several records");
        let sizes = halves.each_ref().map(|half| half.bytes().len());
        let counted = match self.memory.grow(batch.counted_bytes, sizes[0] + sizes[1]) {
            true => sizes,
            // There is no room for the second header; it is not waited for what will be free only then.
            false => [sizes[0].min(batch.counted_bytes), batch.counted_bytes.saturating_sub(sizes[0])],
        };
        self.slots.share(batch.id);
        self.topics.partition(place).make_place_behind(batch.order);
        let mut behind = 0;
        for (number, (half, counted_bytes)) in (0..).zip(halves.into_iter().zip(counted)) {
            let records = usize::try_from(half.count()).unwrap_or(0);
            let sequence = |sent: Sent| sent.sequence.wrapping_add(behind as u32);
            let mut closed = Closed {
                id: batch.id,
                order: batch.order + number,
                first: batch.first + behind,
                body: None,
                records,
                counted_bytes,
                sent: batch.sent.map(|sent| Sent { sequence: sequence(sent), ..sent }),
                is_sealed: false,
                is_in_doubt: batch.is_in_doubt,
                failures: batch.failures,
                last_error: batch.last_error,
            };
            behind += records;
            if self.settings.compression == Compression::None {
                closed.body = Some(Arc::new(half));
            } else {
                let work = Work { place, id: closed.id, first: closed.first, batch: half };
                effects.push(Effect::Compress(work));
            }
            self.topics.partition(place).put_back(closed);
        }
        self.list(place);
    }
}
