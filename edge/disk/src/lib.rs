//! The real disk: files, barriers, and whether a directory can still be trusted.
//!
//! One [`FsDisk`] stands for one log directory. After the first error of a write or a barrier the
//! kernel may have dropped dirty pages and told nobody else, so a second `fsync` that succeeds proves
//! nothing: the directory is retired for good, and only reads go on.
//!
//! **Invariant:** no write reaches a directory after one has failed.

mod device; // what it did, whoever wanted it
mod file;
mod fs_disk; // start here
mod health;

mod lock; // one process per directory
pub mod probe; // a directory that could not be opened

mod flush_pool; // group commit
mod warm; // cold reads

pub use device::{Device, DeviceCounts};
pub use flush_pool::{FlushJob, FlushPool, FlushTicket};
pub use fs_disk::FsDisk;
pub use health::DirHealth;
pub use lock::{DirLock, LockError};
pub use warm::{advise, is_cached, warm};
