//! Log lines on standard error.
//!
//! error: an operator must act · warn: something is wrong that may pass · info: what an operator
//! wants to read the next day · debug: what a developer wants to know about one connection.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::util::TryInitError;

/// The environment variable that says what is logged: a level, or `target=level` pairs separated by
/// commas.
const FILTER_VARIABLE: &str = "VLTAVA_LOG";
/// What the Raft library finds worth telling is for those who look for its faults.
const FILTER_DEFAULT: &str = "info,openraft=error";

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum LoggingError {
    /// The filter cannot be read.
    #[error("log filter {filter:?}: {source}; try a level, such as info, or target=level pairs")]
    Filter {
        /// The filter.
        filter: String,
        /// What is wrong with it.
        source: ParseError,
    },
    /// Somebody has set up a log before.
    #[error(transparent)]
    Taken(#[from] TryInitError),
}

/// Sets up the log of this process, for lines and for panics. To be called once.
pub fn init_logging() -> Result<(), LoggingError> {
    use tracing_subscriber::util::SubscriberInitExt;

    tracing_subscriber::fmt()
        .with_env_filter(filter(std::env::var(FILTER_VARIABLE).ok())?)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .finish()
        .try_init()?;
    log_panics();
    Ok(())
}

fn filter(text: Option<String>) -> Result<EnvFilter, LoggingError> {
    let filter = text.filter(|text| !text.trim().is_empty()).unwrap_or_else(|| FILTER_DEFAULT.to_owned());
    EnvFilter::try_new(&filter).map_err(|source| LoggingError::Filter { filter, source })
}

/// A panic is a bug of ours: it belongs where the operator looks.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let message = panic.payload_as_str().unwrap_or("no message");
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let thread = std::thread::current().name().unwrap_or("unnamed").to_owned();
        let backtrace = std::backtrace::Backtrace::capture();
        tracing::error!(thread, place, %backtrace, "panic: {message}");
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_a_level_or_pairs() {
        let shown = |text: Option<&str>| filter(text.map(str::to_owned)).map(|filter| filter.to_string());
        assert_eq!(shown(None).unwrap(), "openraft=error,info");
        assert_eq!(shown(Some("  ")).unwrap(), "openraft=error,info");
        assert_eq!(shown(Some("debug")).unwrap(), "debug");
        assert_eq!(shown(Some("info,vltava_net=debug")).unwrap(), "vltava_net=debug,info");
        let error = shown(Some("vltava_net=loud")).unwrap_err().to_string();
        assert!(error.starts_with("log filter \"vltava_net=loud\": "), "{error}");
    }
}
