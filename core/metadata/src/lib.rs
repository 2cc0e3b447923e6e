//! What the cluster is: record, image, delta; and the table of settings.
//!
//! ```text
//!   MetadataRecord ── replay ──▶ Image        every committed record, in order
//!                        └─────▶ Delta        what those records changed, for whoever must act on it
//! ```
//!
//! The cluster's state is nothing but the replay of its committed records. [`Image`] is that state at
//! one place in the metadata log: immutable to its readers, cheap to clone, because what two images
//! have in common they share.
//!
//! **Invariant:** replay cannot fail and asks nobody: the same records make the same image on every node.

mod metadata_record; // start here

mod image; // what records add up to
mod parts;
mod snapshot; // and back

mod delta; // what changed on the way
mod diff;

mod codec; // records as bytes
pub mod record;

pub mod settings;

mod shared_map;

pub use codec::RecordError;
pub use delta::{Delta, UncleanElection};
pub use image::Image;
pub use metadata_record::{
    BrokerChange, ConfigChange, FeatureLevel, MetadataRecord, NewPartition, NewTopic, PartitionChange,
    ProducerIds,
};
pub use parts::{Broker, ConfigMap, ConfigResource, Endpoint, Partition, Topic, Unsettled};
pub use shared_map::SharedMap;

/// The level of `metadata.version` whose records we write: that of Kafka 4.4 (4.4-IV2).
pub const METADATA_VERSION: i16 = 33;

/// The feature whose level says which records are written.
pub const METADATA_FEATURE: &str = "metadata.version";

/// The feature whose level 1 says that groups may speak the new protocol (KIP-848). There is no way back to 0: groups
/// that speak it would be lost.
pub const GROUP_FEATURE: &str = "group.version";

/// The features that this release can speak: name, lowest and highest level (KIP-584), by name.
pub const FEATURES: &[(&str, i16, i16)] =
    &[(GROUP_FEATURE, 1, 1), (METADATA_FEATURE, METADATA_VERSION, METADATA_VERSION)];
