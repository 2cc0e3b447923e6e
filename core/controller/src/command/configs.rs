//! Settings and features.

use metadata::ConfigResource;
use serde::{Deserialize, Serialize};

/// Change single settings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncrementalAlterConfigs {
    /// The changes, by whose settings they are.
    pub resources: Vec<ResourceConfigs<(ConfigOp, Option<String>)>>,
    /// Only say how it would go.
    pub validate_only: bool,
}

/// How one setting changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConfigOp {
    /// It becomes the value.
    Set,
    /// It goes back to its default.
    Delete,
    /// The list gets the values it does not have.
    Append,
    /// The list loses the values.
    Subtract,
}

/// Replace all that was set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlterConfigs {
    /// All that shall be set, by whose settings they are.
    pub resources: Vec<ResourceConfigs<Option<String>>>,
    /// Only say how it would go.
    pub validate_only: bool,
}

/// What is asked for one resource's settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceConfigs<T> {
    /// Whose settings.
    pub resource: ConfigResource,
    /// By the setting's name; one name once.
    pub entries: Vec<(String, T)>,
}

/// Change the levels of features that the whole cluster keeps to (KIP-584).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateFeatures {
    /// The features, each once.
    pub updates: Vec<FeatureUpdate>,
    /// Only say how it would go.
    #[serde(default)]
    pub validate_only: bool,
}

/// How a feature shall change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeatureUpdate {
    /// Its name, as it was asked for.
    pub name: String,
    /// Its level; 0 is "not in use".
    pub level: i16,
    /// Which way it may go.
    pub direction: FeatureDirection,
}

/// Which way the level of a feature may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FeatureDirection {
    /// Up.
    Upgrade,
    /// Down, if nothing is lost by it.
    SafeDowngrade,
    /// Down, whatever is lost by it.
    UnsafeDowngrade,
}
