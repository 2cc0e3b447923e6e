//! Record batches: as a producer sends them, as they are stored, and what is in them.
//!
//! Almost no random bytes have the right checksum, so each input is tried as it is and mended.
#![no_main]

use libfuzzer_sys::fuzz_target;
use records::{
    BatchHeader, BatchLimits, CheckedBatch, ControlRecord, HEADER_BYTES, Scratch, StoredBatch, batches,
};
use vltava_fuzz::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

/// What a batch of such an input may be decompressed to, twice, as it grows; windows and tables.
fn bytes_max(input: &[u8]) -> usize {
    2 * BatchLimits::default().decompressed.bytes_max(input.len()) + 16 * input.len() + (16 << 20)
}

fn examine(bytes: &[u8], scratch: &mut Scratch) {
    if let Ok(batch) = CheckedBatch::check(bytes, &BatchLimits::default(), scratch) {
        let count = batch.header().records_count;
        let records = batch.records(scratch).expect("a checked batch can be read");
        assert_eq!(records.map(|record| record.expect("so can its records")).count(), count as usize);
    }
    for batch in batches(bytes).flatten() {
        read(&batch, scratch);
    }
}

fn read(batch: &StoredBatch<'_>, scratch: &mut Scratch) {
    if let Ok(records) = batch.records(scratch) {
        for record in records.flatten() {
            let _ = ControlRecord::parse(&record);
            record.headers.for_each(drop);
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    ALLOCATOR.within(bytes_max(bytes), || examine_and_mend(bytes));
});

fn examine_and_mend(bytes: &[u8]) {
    let mut scratch = Scratch::default();
    examine(bytes, &mut scratch);
    if bytes.len() < HEADER_BYTES {
        return;
    }
    let mut mended = bytes.to_vec();
    mended[..8].fill(0);
    mended[8..12].copy_from_slice(&(bytes.len() as u32 - 12).to_be_bytes());
    mended[16] = 2;
    if let Ok(mut header) = BatchHeader::parse(&mended) {
        header.crc = header.compute_crc(&mended[HEADER_BYTES..]);
        mended[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
        examine(&mended, &mut scratch);
    }
}
