//! Writes batches of the sample records for Kafka's own reader; see `core/records/tests/java/Golden.java`.

#![expect(clippy::disallowed_methods, reason = "it writes files for another program")]

use std::path::Path;

use base::{BrokerId, LeaderEpoch, ProducerEpoch, ProducerId, TimestampMs};
use vltava_records::{BatchLimits, CheckedBatch, Compression, EndMarker, LeaderChange, Scratch};

#[path = "../tests/samples/mod.rs"]
mod samples;

fn main() -> std::io::Result<()> {
    let dir = std::env::args().nth(1).expect("usage: write_batches DIR");
    let dir = Path::new(&dir);
    std::fs::create_dir_all(dir)?;
    for of in Compression::ALL {
        let batch = samples::batch(of, None);
        std::fs::write(dir.join(format!("{}.bin", of.name())), &batch)?;
        for to in Compression::ALL {
            let (limits, mut scratch) = (BatchLimits::default(), Scratch::default());
            let checked = CheckedBatch::check(&batch, &limits, &mut scratch).expect("the batch is right");
            let mut out = Vec::new();
            checked.recompress(to, None, &limits, &mut scratch, &mut out).expect("it fits");
            std::fs::write(dir.join(format!("{}-as-{}.bin", of.name(), to.name())), out)?;
        }
    }
    for (of, level) in
        [(Compression::Gzip, 1), (Compression::Gzip, 9), (Compression::Zstd, -5), (Compression::Zstd, 22)]
    {
        std::fs::write(dir.join(format!("{}-level{level}.bin", of.name())), samples::batch(of, Some(level)))?;
    }
    for commit in [true, false] {
        let mut out = Vec::new();
        let marker = EndMarker { commit, coordinator_epoch: 5 };
        marker.write_batch((ProducerId(7), ProducerEpoch(3)), TimestampMs(samples::BASE_TIME), &mut out);
        std::fs::write(dir.join(format!("{}.bin", if commit { "commit" } else { "abort" })), out)?;
    }
    let change = LeaderChange {
        leader: BrokerId(1),
        voters: vec![BrokerId(1), BrokerId(300)],
        granting: vec![BrokerId(1)],
    };
    let mut out = Vec::new();
    change.write_batch(LeaderEpoch(9), TimestampMs(samples::BASE_TIME), &mut out);
    std::fs::write(dir.join("leader-change.bin"), out)
}
