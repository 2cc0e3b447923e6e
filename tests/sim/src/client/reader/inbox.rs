//! What has come for the reader and was not read, kept as `edge/client` keeps it.

use std::collections::VecDeque;

use base::TopicPartition;
use client_core::consumer::{Chunk, ConsumeError, Consumer, Start};

use super::ReaderPlant;

/// What comes for the reader.
#[derive(Debug)]
pub(super) enum Arrived {
    Chunk(Chunk),
    Failed { of: TopicPartition, generation: u32, error: ConsumeError },
}

/// What the reader finds.
#[derive(Debug)]
pub(super) enum Found {
    /// A batch, lent by the chunk at hand.
    Batch,
    Failed(TopicPartition, ConsumeError),
    Nothing,
}

/// The chunk at hand, and what is behind it.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    pub(super) current: Option<Chunk>,
    pub(super) arrived: VecDeque<Arrived>,
}

impl Inbox {
    /// Goes to the next batch.
    pub(super) fn next(&mut self, consumer: &mut Consumer, plant: Option<ReaderPlant>) -> Found {
        loop {
            match self.current.as_mut().and_then(|chunk| Some((chunk.advance()?, &*chunk))) {
                Some((Ok(()), _)) => return Found::Batch,
                Some((Err(error), chunk)) => {
                    let of = chunk.of().clone();
                    consumer.fail(chunk);
                    self.drop_stale(consumer, plant);
                    return Found::Failed(of, error);
                }
                None => {}
            }
            if let Some(done) = self.current.take() {
                free(consumer, &done, plant);
            }
            match self.arrived.pop_front() {
                None => return Found::Nothing,
                Some(Arrived::Chunk(chunk)) => {
                    if consumer.is_current(chunk.of(), chunk.generation())
                        || plant == Some(ReaderPlant::SeekForgotten)
                    {
                        self.current = Some(chunk);
                    } else {
                        free(consumer, &chunk, plant);
                    }
                }
                Some(Arrived::Failed { of, generation, error }) => {
                    if consumer.is_current(&of, generation) {
                        return Found::Failed(of, error);
                    }
                }
            }
        }
    }

    /// Lends and asks for nothing of a partition from here on; what was not lent comes again.
    pub(super) fn pause(&mut self, consumer: &mut Consumer, of: &TopicPartition, plant: Option<ReaderPlant>) {
        let arrived = self.arrived.iter().filter_map(|arrived| match arrived {
            Arrived::Chunk(chunk) => Some(chunk),
            Arrived::Failed { .. } => None,
        });
        let mut all = self.current.iter().chain(arrived);
        let unlent =
            all.find(|chunk| chunk.of() == of && consumer.is_current(chunk.of(), chunk.generation()));
        match (unlent, consumer.position(of)) {
            (Some(_), Some(at)) if plant == Some(ReaderPlant::PauseForgets) => {
                consumer.seek(of, Start::Offset(at));
            }
            (Some(chunk), _) => consumer.go_back(chunk, chunk.next_offset()),
            (None, _) => {}
        }
        consumer.set_paused(of, true);
        self.drop_stale(consumer, plant);
    }

    /// What is not of what is read now makes room.
    pub(super) fn drop_stale(&mut self, consumer: &mut Consumer, plant: Option<ReaderPlant>) {
        if plant == Some(ReaderPlant::SeekForgotten) {
            return;
        }
        let is_stale =
            |chunk: &Chunk, consumer: &Consumer| !consumer.is_current(chunk.of(), chunk.generation());
        if let Some(stale) = self.current.take_if(|chunk| is_stale(chunk, consumer)) {
            free(consumer, &stale, plant);
        }
        for arrived in std::mem::take(&mut self.arrived) {
            match &arrived {
                Arrived::Chunk(chunk) if is_stale(chunk, consumer) => free(consumer, chunk, plant),
                Arrived::Failed { of, generation, .. } if !consumer.is_current(of, *generation) => {}
                _ => self.arrived.push_back(arrived),
            }
        }
    }

    /// Partitions whose failure was not told yet.
    pub(super) fn failing(&self, consumer: &Consumer) -> impl Iterator<Item = &TopicPartition> {
        self.arrived.iter().filter_map(|arrived| match arrived {
            Arrived::Failed { of, generation, .. } => consumer.is_current(of, *generation).then_some(of),
            Arrived::Chunk(_) => None,
        })
    }

    /// Bytes of all that was not read.
    pub(super) fn bytes(&self) -> usize {
        let arrived = self.arrived.iter().map(|arrived| match arrived {
            Arrived::Chunk(chunk) => chunk.bytes(),
            Arrived::Failed { .. } => 0,
        });
        self.current.as_ref().map_or(0, Chunk::bytes) + arrived.sum::<usize>()
    }
}

fn free(consumer: &mut Consumer, chunk: &Chunk, plant: Option<ReaderPlant>) {
    if plant != Some(ReaderPlant::RoomForgotten) {
        consumer.on_read(chunk.bytes());
    }
}
