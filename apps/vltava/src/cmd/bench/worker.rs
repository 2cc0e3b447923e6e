//! `vltava bench worker`.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use bench::export::Export;
use bench::fleet::{Token, Worker};

/// Wait for a coordinator, and be one of the machines that make its load
///
/// `vltava bench run NAME --workers HOST:PORT,…` is the coordinator. Whoever reaches a worker and knows its token can
/// have it connect to any address, and send there and read from there as much as it can. It works for one coordinator
/// at a time, and ends what it does when that goes away. What they tell each other is not encrypted.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Where it waits; another address than loopback takes a token
    #[arg(long, default_value = "127.0.0.1:7411", value_name = "HOST:PORT")]
    listen: String,
    #[command(flatten)]
    token: TokenArguments,
    /// Show numbers for Prometheus at this address, as /metrics
    #[arg(long, value_name = "HOST:PORT")]
    metrics: Option<String>,
}

/// What coordinator and workers both know.
#[derive(clap::Args)]
pub(super) struct TokenArguments {
    /// A file with the token that coordinator and workers share: 16 letters or more. VLTAVA_BENCH_TOKEN has it otherwise
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// Read from the environment, and not from an argument: those are seen by everybody on the machine.
const TOKEN: &str = "VLTAVA_BENCH_TOKEN";

const EXAMPLES: &str = "\
Examples:
  vltava bench worker
  vltava bench worker --listen 0.0.0.0:7411 --token-file token --metrics 0.0.0.0:9412";

impl TokenArguments {
    pub(super) fn token(&self) -> Result<Token> {
        match (&self.token_file, std::env::var(TOKEN)) {
            (Some(path), _) => Token::open(path),
            (None, Ok(text)) => Token::new(&text),
            (None, Err(_)) => Ok(Token::default()),
        }
    }
}

/// Shows numbers, if that was asked for.
pub(super) fn export(metrics: Option<&str>) -> Result<Option<Arc<Export>>> {
    let Some(address) = metrics else { return Ok(None) };
    let export = Arc::new(Export::default());
    let address = export.serve(address)?;
    eprintln!("metrics at http://{address}/metrics");
    Ok(Some(export))
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let export = export(arguments.metrics.as_deref())?;
    let token = arguments.token.token()?;
    let guarded = if token.is_set() { "whoever knows the token" } else { "anybody on this machine" };
    let listening = Worker::new(token, export).listen(&arguments.listen)?;
    let address = listening.address()?;
    eprintln!(
        "worker at {address}: {guarded} can have it send to, and read from, any brokers that it reaches"
    );
    listening.serve(|words| eprintln!("{words}"))
}
