//! Why a node could not start or had to stop.

use crate::cluster::joining::JoinError;
use crate::config::ConfigError;
use crate::control::ControlFailed;
use crate::directories::DirectoryError;

/// Why a node could not start or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The settings cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The log filter cannot be read.
    #[error(transparent)]
    Logging(#[from] telemetry::LoggingError),
    /// A log directory cannot be used.
    #[error(transparent)]
    Directory(#[from] Box<DirectoryError>),
    /// The metadata log cannot be read.
    #[error(transparent)]
    Metadata(#[from] Box<quorum::OpenError>),
    /// The metadata log cannot be written.
    #[error("{0}")]
    Control(String),
    /// An address cannot be listened on.
    #[error("{0}; stop the program that uses the address, or choose another one with --listen")]
    Bind(#[from] net::BindError),
    /// The address for HTTP cannot be listened on.
    #[error("{0}; stop the program that uses the address, or choose another one with --http-listen")]
    HttpBind(#[from] http::BindError),
    /// An address that cannot be understood, or a listener that is not served.
    #[error("{0}")]
    Listener(String),
    /// The cluster that this node is to join does not take it, or cannot be told.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// The system did not give what a node needs.
    #[error("cannot start: {0}")]
    System(#[from] std::io::Error),
}

impl From<ControlFailed> for ServerError {
    fn from(failed: ControlFailed) -> Self {
        Self::Control(failed.to_string())
    }
}
