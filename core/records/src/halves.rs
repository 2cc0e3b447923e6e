//! A batch that is too large becomes two.

use crate::builder::{BatchBuilder, ClosedBatch};
use crate::compress::Scratch;
use crate::header::HEADER_BYTES;
use crate::record::Header;
use crate::stored::StoredBatch;

impl ClosedBatch {
    /// Its records as two batches of about the same size before compression, in their order and not
    /// compressed; `None` if there is one record only, or it was not sealed yet.
    pub fn halves(&self, scratch: &mut Scratch) -> Option<[Self; 2]> {
        let sealed = StoredBatch::trust(self.bytes()).ok()?;
        let header = *sealed.header();
        let records = sealed.records(scratch).ok()?;
        let half = HEADER_BYTES + records.bytes_left() / 2;
        let [mut first, mut second] = [BatchBuilder::new(usize::MAX), BatchBuilder::new(usize::MAX)];
        let last = header.records_count - 1;
        for record in records {
            let record = record.ok()?;
            let is_first_full = !first.is_empty() && first.size_bytes() >= half;
            let is_behind = is_first_full || !second.is_empty() || record.offset_delta == last;
            let headers: Vec<Header<'_>> = record.headers.collect();
            let half = if is_behind { &mut second } else { &mut first };
            half.try_append(record.timestamp(&header), record.key, record.value, &headers).ok()?;
        }
        (!first.is_empty() && !second.is_empty()).then(|| [first.close(), second.close()])
    }
}

#[cfg(test)]
mod tests {
    use base::TimestampMs;

    use super::*;
    use crate::builder::Producer;
    use crate::compress::Compression;

    #[test]
    fn the_halves_of_a_batch_are_its_records() {
        let headers = [Header { key: b"h", value: Some(b"x") }];
        for (sizes, firsts) in [(&[10, 10, 10, 10][..], 2), (&[1, 1, 500], 2), (&[500, 1, 1], 1)] {
            for compression in [Compression::None, Compression::Lz4] {
                let mut builder = BatchBuilder::new(10_000);
                for (number, &size) in sizes.iter().enumerate() {
                    let time = TimestampMs(1_000 - number as i64);
                    builder.try_append(time, Some(b"k"), Some(&vec![7; size]), &headers).expect("it fits");
                }
                let (mut scratch, level) = (Scratch::default(), None);
                let (mut batch, _) = builder.close().compressed(compression, level, &mut scratch, Vec::new());
                assert!(batch.halves(&mut scratch).is_none(), "it is not sealed");
                batch.seal(Producer::NONE, false).expect("it is small");
                let halves = batch.halves(&mut scratch).expect("it has several records");
                assert_eq!(halves[0].count(), firsts);
                let mut seen = Vec::new();
                for mut half in halves {
                    half.seal(Producer::NONE, false).expect("it is small");
                    let stored = StoredBatch::check(half.bytes()).expect("it is right");
                    for (number, record) in stored.records(&mut scratch).expect("it is right").enumerate() {
                        let record = record.expect("it is right");
                        assert_eq!(record.offset_delta as usize, number);
                        assert!(record.headers.eq(headers), "with its headers");
                        seen.push((record.timestamp(stored.header()).0, record.value.map(<[u8]>::len)));
                    }
                    assert!(half.count() > 1 || half.halves(&mut scratch).is_none());
                }
                let sent = sizes.iter().enumerate();
                assert!(seen.into_iter().eq(sent.map(|(number, &size)| (1_000 - number as i64, Some(size)))));
            }
        }
    }
}
