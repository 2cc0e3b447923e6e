//! `vltava log dump`: what is in the files of a log directory, ours or Kafka's.
//!
//! ```text
//!   name of the file ──▶ kind ──▶ its reader ──▶ Line, one for each thing found ──▶ text or JSON
//! ```
//!
//! Files are read as they are, in pieces: a segment may be larger than memory, and damaged.

mod batches;
mod groups;
mod line;
mod tables;
mod texts;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use base::Offset;
use clap::Subcommand;
use storage::layout::{self, FileKind, FileName};

use line::Lines;

/// Look into log and index files
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  vltava log dump vltava-data/orders-0/00000000000000000000.log
  vltava log dump --records vltava-data/__cluster_metadata-0/*.log
  vltava log dump --records vltava-data/__consumer_offsets-*/*.log";

#[derive(Subcommand)]
enum Command {
    Dump(Dump),
}

/// Print what is in files of a log directory
///
/// Reads segments (.log), indexes (.index, .timeindex, .txnindex), producer snapshots (.snapshot),
/// checkpoints, partition.metadata and meta.properties; those of Kafka 4, too. A file is known by its name.
/// The exit code is 1 if anything in a file is damaged.
#[derive(clap::Args)]
#[command(after_help = DUMP_EXAMPLES)]
struct Dump {
    /// The files
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Also print the records of each batch; those of the cluster's metadata and of groups in words
    #[arg(long)]
    records: bool,
    /// Answer with JSON, one object a line, for programs
    #[arg(long)]
    json: bool,
}

const DUMP_EXAMPLES: &str = "\
Examples:
  vltava log dump vltava-data/orders-0/00000000000000000000.log
  vltava log dump --records vltava-data/orders-0/*.log
  vltava log dump vltava-data/orders-0/*.index vltava-data/orders-0/*.timeindex
  vltava log dump vltava-data/recovery-point-offset-checkpoint
  vltava log dump --json --records vltava-data/orders-0/*.log | jq 'select(.type == \"record\") | .key'";

/// What a file is, by its name.
enum Known {
    Part(FileKind, Offset),
    Offsets,
    Epochs,
    PartitionMetadata,
    MetaProperties,
}

pub(crate) fn run(arguments: Arguments, out: &mut dyn Write) -> Result<()> {
    let Command::Dump(dump) = arguments.command;
    let mut lines = Lines::new(out, dump.json);
    // A name that is no file of a log is a slip of the hand: nothing is read then.
    let files: Vec<(&PathBuf, Known)> =
        dump.files.iter().map(|path| Ok((path, known(path)?))).collect::<Result<_>>()?;
    for (path, known) in files {
        lines.file(path)?;
        read(known, path, dump.records, &mut lines).with_context(|| path.display().to_string())?;
    }
    match lines.damaged() {
        0 => Ok(()),
        1 => bail!("there is damage in one place"),
        places => bail!("there is damage in {places} places"),
    }
}

fn read(known: Known, path: &Path, records: bool, lines: &mut Lines<'_>) -> Result<()> {
    match known {
        Known::Part(FileKind::Log, _) => batches::dump(path, records, lines),
        Known::Part(FileKind::OffsetIndex, base) => tables::offsets(path, base, lines),
        Known::Part(FileKind::TimeIndex, base) => tables::times(path, base, lines),
        Known::Part(FileKind::TxnIndex, _) => tables::aborted(path, lines),
        Known::Part(FileKind::Snapshot, _) => tables::producers(path, lines),
        Known::Offsets => texts::offsets(path, lines),
        Known::Epochs => texts::epochs(path, lines),
        Known::PartitionMetadata => texts::partition_metadata(path, lines),
        Known::MetaProperties => texts::meta_properties(path, lines),
    }
}

fn known(path: &Path) -> Result<Known> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    // A file that was given up keeps its form.
    let name = name.trim_end_matches(".deleted").trim_end_matches(".cleaned");
    match name {
        layout::EPOCHS_FILE => Ok(Known::Epochs),
        layout::PARTITION_METADATA_FILE => Ok(Known::PartitionMetadata),
        layout::META_PROPERTIES_FILE => Ok(Known::MetaProperties),
        _ if name.ends_with("-offset-checkpoint") => Ok(Known::Offsets),
        // Snapshots of the metadata are batches, too.
        _ if name.ends_with(".checkpoint") => Ok(Known::Part(FileKind::Log, Offset::ZERO)),
        _ => match layout::parse_file_name(name) {
            FileName::Part(kind, base) | FileName::Swap(kind, base) => Ok(Known::Part(kind, base)),
            FileName::Leftover | FileName::Other => bail!(
                "{} has no name that a file of a log directory has, such as 00000000000000000000.log",
                path.display()
            ),
        },
    }
}
