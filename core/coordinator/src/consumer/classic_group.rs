//! A group of the classic protocol in plain values, as it is handed over.

/// A classic group with members, between two rebalances.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClassicGroup {
    /// Its generation.
    pub generation: i32,
    /// The assignor that its members agreed on.
    pub protocol: String,
    /// Its members.
    pub members: Vec<ClassicMember>,
}

/// A member of a classic group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClassicMember {
    /// Its id.
    pub id: String,
    /// Its `group.instance.id`, if it is static.
    pub instance_id: Option<String>,
    /// The name of its client.
    pub client_id: String,
    /// The address it comes from.
    pub client_host: String,
    /// How long it may take to join, in milliseconds.
    pub rebalance_timeout_ms: i32,
    /// How long it may be silent, in milliseconds.
    pub session_timeout_ms: i32,
    /// The assignors that it knows, by name, with its subscription as bytes.
    pub protocols: Vec<(String, Vec<u8>)>,
    /// What it was assigned, as bytes; may be empty.
    pub assignment: Vec<u8>,
}
