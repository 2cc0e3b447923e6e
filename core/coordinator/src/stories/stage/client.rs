//! Clients of the stage.

use std::sync::Arc;

use super::subscription;

/// A client that wants to be a member.
#[derive(Debug, Clone)]
pub(in crate::stories) struct Client {
    pub(in crate::stories) name: String,
    pub(in crate::stories) id: Arc<str>,
    pub(in crate::stories) instance: Option<&'static str>,
    pub(in crate::stories) generation: i32,
    pub(in crate::stories) protocols: Vec<(&'static str, Vec<u8>)>,
    pub(in crate::stories) protocol_type: &'static str,
    pub(in crate::stories) version: i16,
}

impl Client {
    pub(in crate::stories) fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            id: "".into(),
            instance: None,
            generation: -1,
            protocols: vec![("range", subscription(&["events"], &[]))],
            protocol_type: "consumer",
            version: 9,
        }
    }

    pub(in crate::stories) fn fixed(name: &str, instance: &'static str) -> Self {
        Self { instance: Some(instance), ..Self::new(name) }
    }

    /// The same client, started again: it has forgotten its id.
    pub(in crate::stories) fn again(&self) -> Self {
        Self { id: "".into(), generation: -1, ..self.clone() }
    }
}
