//! I22: where the parts of a node's log end is in order, and never goes back within a life of the node.

use std::sync::Arc;

use openraft::RaftMetrics;
use openraft::async_runtime::WatchReceiver;
use parking_lot::Mutex;

use crate::Member;
use crate::types::Types;

/// What was found out of order, of any node; nothing may have been when it is dropped.
#[derive(Default)]
pub(crate) struct Disorder(Arc<Mutex<Vec<String>>>);

/// Where they end, by index; what is behind comes first.
const NAMES: [&str; 5] = ["purged", "in a snapshot", "applied", "committed", "written"];

fn places(shown: &RaftMetrics<Types>) -> [Option<u64>; NAMES.len()] {
    let RaftMetrics { purged, snapshot, last_applied, local_committed, .. } = shown;
    let [purged, snapshot, applied, committed] =
        [purged, snapshot, last_applied, local_committed].map(|id| id.as_ref().map(|id| id.index));
    [purged, snapshot, applied, committed, shown.last_log_index]
}

impl Disorder {
    /// Looks at a life of a node until it ends.
    pub(crate) fn watch(&self, member: &Member) {
        let (found, id) = (self.0.clone(), member.me.id);
        let mut all = member.core.metrics();
        tokio::spawn(async move {
            let (mut term, mut before) = (0, [None; NAMES.len()]);
            loop {
                let (now_in, now) = {
                    let shown = all.borrow_watched();
                    (shown.current_term, places(&shown))
                };
                let wrong = |what: String| found.lock().push(format!("node {id}: {what}, {now:?}"));
                if now_in < term {
                    wrong(format!("term {now_in} after {term}"));
                }
                for (place, name) in NAMES.iter().enumerate() {
                    if place > 0 && now[place] < now[place - 1] {
                        wrong(format!("less is {name} than {}", NAMES[place - 1]));
                    }
                    // What was written and not committed may give way to what another leader wrote.
                    if *name != "written" && now[place] < before[place] {
                        wrong(format!("less is {name} than before, {before:?}"));
                    }
                }
                (term, before) = (now_in, now);
                if all.changed().await.is_err() {
                    return;
                }
            }
        });
    }
}

impl Drop for Disorder {
    fn drop(&mut self) {
        let found = self.0.lock();
        if !std::thread::panicking() {
            assert!(found.is_empty(), "{found:#?}");
        }
    }
}
