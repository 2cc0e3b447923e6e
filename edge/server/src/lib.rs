//! Composition root: settings, threads, wiring.

use std::path::PathBuf;

/// What the command line says about a node.
#[derive(Debug, Clone, Default)]
pub struct ServerArgs {
    /// The settings file, if one is named.
    pub config: Option<PathBuf>,
    /// Settings given one by one; they win over the file.
    pub set: Vec<(String, String)>,
    /// The log directories; empty means the setting's.
    pub data_dirs: Vec<PathBuf>,
    /// Where Kafka clients connect.
    pub listen: Option<String>,
    /// Where health and metrics are served.
    pub http_listen: Option<String>,
}

/// Why a node could not start or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The node cannot serve.
    #[error("{0}")]
    Start(String),
}

/// Runs a node until it is told to stop.
pub fn run(args: ServerArgs) -> Result<(), ServerError> {
    let _ = args;
    Err(ServerError::Start("the server is not wired".to_owned()))
}
