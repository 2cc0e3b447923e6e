//! Those who lead are killed while a client writes: all that it wrote is there once, in its order.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, Result, ensure};

use super::STORY_MS;
use crate::driver::{How, Place, ReadMany};
use crate::matrix::{Client, Feature};
use crate::record::Many;
use crate::suite::{Suite, topic};

/// How many leaders are killed, one after the other.
const KILLS: u32 = 3;
/// Few enough that a kill comes in the middle of many.
const COUNT: u64 = 5_000;

/// What the stories of several clients kill is one cluster: a second death would leave too few.
static ALONE: Mutex<()> = Mutex::new(());

/// Writes on and on while leaders go, and reads it all.
pub fn failover(suite: &Suite, client: &Client) -> Result<()> {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let topic = topic("failover", client);
    let at = Place { topic: &topic, partition: 0 };
    let how = How { compression: "none", acks: "all", idempotent: true };
    let timestamp = client.can(Feature::Timestamps).then_some(STORY_MS);
    let many = Many { seed: 3, count: COUNT, sizes: vec![100], timestamp, batch_bytes_max: None };
    suite.tell(client, |driver| {
        suite.create(driver, &topic, 1, &[])?;
        let cluster = suite.cluster()?;
        cluster.wait_until_whole()?;
        let is_over = AtomicBool::new(false);
        let rounds = thread::scope(|scope| {
            let killing = scope.spawn(|| {
                let killed = (0..KILLS).try_for_each(|_| {
                    cluster.kill_leader(&topic)?;
                    cluster.wait_until_whole()
                });
                is_over.store(true, Ordering::Release);
                killed
            });
            let mut rounds = 0;
            let written = loop {
                let was_over = is_over.load(Ordering::Acquire);
                let first = (rounds * COUNT) as i64;
                let written = driver.produce_many(at, how, &many).and_then(|offsets| {
                    let wanted = (Some(first), Some(first + COUNT as i64 - 1));
                    ensure!(
                        offsets == wanted,
                        "written at {offsets:?}, not {wanted:?}; the log is {:?}",
                        driver.offsets(at)
                    );
                    Ok(())
                });
                rounds += 1;
                if written.is_err() || was_over {
                    break written.with_context(|| format!("round {rounds}"));
                }
            };
            killing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).context("killing")?;
            written.map(|()| rounds)
        })?;
        for round in 0..rounds {
            let first = (round * COUNT) as i64;
            let last = first + COUNT as i64 - 1;
            let digest = many.digest_behind(first, 0..COUNT);
            let want = ReadMany { first: Some(first), last: Some(last), count: COUNT, digest };
            let read = driver.consume_many(at, first, COUNT)?;
            ensure!(read == want, "round {round}: read {read:?}, not {want:?}");
        }
        let end = driver.offsets(at)?.1;
        ensure!(end == (rounds * COUNT) as i64, "the partition ends at {end}");
        Ok(())
    })
}
