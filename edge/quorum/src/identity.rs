//! Which cluster a log directory belongs to.
//!
//! The cluster's id lies in `meta.properties`, as in Kafka: whoever carries a directory to another
//! cluster finds out before anything is read from it.

use std::path::Path;

use base::{BrokerId, Uuid};
use storage::dirs::MetaProperties;
use storage::disk::Disk;

use crate::error::OpenError;

const META_PROPERTIES_FILE: &str = "meta.properties";
const BYTES_MAX: u64 = 64 << 10;

/// The id of the cluster; a fresh one is written down first if the directory has none.
pub(crate) fn cluster_id(
    disk: &dyn Disk,
    log_dir: &Path,
    node_id: BrokerId,
    has_log: bool,
    fresh: Uuid,
) -> Result<String, OpenError> {
    let path = log_dir.join(META_PROPERTIES_FILE);
    if let Some(bytes) = disk.read(&path, BYTES_MAX)? {
        let parsed = MetaProperties::parse(&bytes);
        let properties = parsed.map_err(|error| OpenError::Properties { path, error })?;
        return Ok(properties.cluster_id);
    }
    if has_log {
        return Err(OpenError::Unowned { path: log_dir.to_owned() });
    }
    // The directory gets its own id when it is opened as a log directory.
    let properties = MetaProperties {
        cluster_id: fresh.to_string(),
        node_id,
        directory_id: Uuid::ZERO,
        metadata_directory: Uuid::ZERO,
    };
    disk.replace(&path, properties.format().as_bytes())?;
    Ok(properties.cluster_id)
}
