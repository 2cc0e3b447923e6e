//! The consensus library's own conformance suite.

use std::path::Path;
use std::sync::Arc;

use openraft::StorageError;
use openraft::testing::log::{StoreBuilder, Suite};
use storage::memory::MemoryDisk;

use crate::machine::{Machine, SnapshotEvery};
use crate::open;
use crate::store::{LogStore, Store};
use crate::tell::Teller;
use crate::types::Types;

struct Fresh;

impl StoreBuilder<Types, LogStore, Machine> for Fresh {
    async fn build(&self) -> Result<((), LogStore, Machine), StorageError<Types>> {
        let found = open::open(Arc::new(MemoryDisk::new()), Path::new("data"), 0).expect("a fresh disk");
        let teller = Arc::new(Teller::new(0, Box::new(|_| {})));
        let store = Store::start(found.writer, found.memory, teller).expect("a thread");
        let machine = Machine::new(store.clone(), None, SnapshotEvery::default());
        Ok(((), LogStore(store), machine))
    }
}

#[test]
fn the_storage_is_what_the_library_asks_for() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(Suite::test_all(Fresh)).expect("it conforms");
}
