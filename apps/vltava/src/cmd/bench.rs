//! `vltava bench`: the benchmarks, by name.

mod live;
mod run;
mod worker;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use bench::compare::{Differences, Line, compare};
use bench::files;
use bench::preset::{Family, PRESETS, Preset};
use bench::report::{Report, Summary};
use bench::workload::Experiment;
use clap::Subcommand;
use serde_json::json;

use crate::failure;
use crate::output::{Table, say, wrapped};

/// Measure by name: what LinkedIn, LiveRamp and Confluent measured, on this program, Apache Kafka, or any cluster
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  vltava bench list
  vltava bench run linkedin-1p-rf1 --quick
  vltava bench run linkedin-3p-rf3-async --quick --against kafka --runs 5 --out results
  vltava bench run workload.yaml --bootstrap-server 127.0.0.1:9092
  vltava bench compare before/linkedin-1p-rf1.json after/linkedin-1p-rf1.json --out results
  vltava bench report results/linkedin-1p-rf1.json
  vltava bench report results/linkedin-*.json --together linkedin";

const EXIT_CODES: &str = "\
Exit codes:
  0  nothing became worse
  1  something became worse, which chance does not explain, or a run behind failed or lost records
  2  the two could not be compared, or the arguments make no sense
  3  it is not known: something looks worse, and there are too few runs to tell whether that is chance; or a point, or
     the first system of one, is in the result before alone";

/// The two could not be compared: nothing is known of what became worse.
const NOT_COMPARED: i32 = 2;
/// What looks worse cannot be judged, or is not there: no failure, and no reason to go on.
const UNJUDGED: i32 = 3;

#[derive(Subcommand)]
enum Command {
    List(ListArguments),
    Show(ShowArguments),
    Run(run::Arguments),
    Worker(worker::Arguments),
    Compare(CompareArguments),
    Report(ReportArguments),
}

/// List the benchmarks, with what others measured
#[derive(clap::Args)]
struct ListArguments {
    /// Answer with JSON, for programs
    #[arg(long)]
    json: bool,
}

/// Print the workload of a benchmark, to be changed and run as a file
///
/// Of a file of the OpenMessaging Benchmark it is what `bench run` makes of it, with notes of what is not the same.
#[derive(clap::Args)]
struct ShowArguments {
    /// Which; or a file
    name: String,
}

/// Compare two results; fails if something became worse, past the noise
///
/// From four runs of each on there is a verdict: by the ranks of all runs, and not from medians alone. The more
/// figures there are, the surer it has to be: one of many looks worse by chance. A run behind that failed, or lost
/// records, fails it, too. With fewer runs nothing is judged, which is said; `bench run` does one of each unless
/// --runs says more.
#[derive(clap::Args)]
#[command(after_help = EXIT_CODES)]
struct CompareArguments {
    /// The result before, as `bench run --out` wrote it
    before: PathBuf,
    /// The result behind
    after: PathBuf,
    /// Less than this share is no difference, however sure it is
    #[arg(long, default_value_t = 0.03, value_name = "SHARE", value_parser = share)]
    noise: f64,
    /// Write a page with charts of both into this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..1.0).contains(share));
    share.ok_or_else(|| "a share is a number from 0 to less than 1: 0.03 is 3 %".to_owned())
}

/// Make the tables and the page with charts of a result again, from its JSON, or one of several together
#[derive(clap::Args)]
struct ReportArguments {
    /// Results, as `bench run --out` wrote them
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Write them into this directory, and not beside the results
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Make a table and a page of all of them together, too, of this name, as `bench run` of a family does
    #[arg(long, value_name = "NAME")]
    together: Option<String>,
}

pub(crate) fn run(arguments: Arguments, out: &mut dyn Write) -> Result<()> {
    match arguments.command {
        Command::List(arguments) => list(&arguments, out),
        Command::Show(arguments) => show(&arguments, out),
        Command::Run(arguments) => run::run(&arguments, &mut WhileRead(out)),
        Command::Worker(arguments) => worker::run(&arguments),
        Command::Compare(arguments) => compare_two(&arguments, &mut WhileRead(out)),
        Command::Report(arguments) => report(&arguments),
    }
}

/// Writes for as long as somebody reads. When nobody does any more, what came of a benchmark is true all the same: files
/// are written, and what failed fails.
struct WhileRead<'a>(&'a mut dyn Write);

impl Write for WhileRead<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(bytes.len()),
            written => written,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.0.flush() {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            flushed => flushed,
        }
    }
}

fn list(arguments: &ListArguments, out: &mut dyn Write) -> Result<()> {
    let mut said = Vec::new();
    let mut table = Table::new(&["benchmark", "published", "what it asks"]);
    for preset in PRESETS {
        let experiment = preset.experiment(false)?;
        let published = experiment.published.unwrap_or_default();
        said.push(json!({
            "name": preset.name,
            "about": experiment.about,
            "points": experiment.points.len(),
            "published": published,
        }));
        let about = wrapped(&experiment.about, 56).join("\n");
        table.row([preset.name.to_owned(), wrapped(&published.result, 34).join("\n"), about]);
    }
    for family in Family::all()? {
        let names: Vec<&str> = family.members.iter().map(|preset| preset.name).collect();
        let about = wrapped(&family.about, 56).join("\n");
        table.row([family.name.clone(), format!("{} of these", names.len()), about]);
        said.push(json!({ "name": family.name, "about": family.about, "experiments": names }));
    }
    if arguments.json {
        writeln!(out, "{}", json!(said))?;
    } else {
        writeln!(
            out,
            "{table}\n\n`vltava bench run NAME --quick` runs one; `vltava bench show NAME` prints its workload."
        )?;
    }
    Ok(())
}

/// Whether a workload is named by its file.
fn is_path(name: &str) -> bool {
    name.contains('/') || name.ends_with(".yaml") || name.ends_with(".yml")
}

fn show(arguments: &ShowArguments, out: &mut dyn Write) -> Result<()> {
    if is_path(&arguments.name) {
        out.write_all(Experiment::shown(Path::new(&arguments.name))?.as_bytes())?;
        return Ok(());
    }
    let family = Family::find(&arguments.name)?.and_then(|family| family.text);
    let text = family.map_or_else(|| Preset::find(&arguments.name).map(|preset| preset.text), Ok)?;
    out.write_all(text.as_bytes())?;
    Ok(())
}

fn compare_two(arguments: &CompareArguments, out: &mut dyn Write) -> Result<()> {
    let found = compared(arguments, out).unwrap_or_else(|error| {
        say(format_args!("{}", failure::describe(&error, failure::Asked::Other)));
        std::process::exit(NOT_COMPARED)
    });
    if let Some(unjudged) = found.unjudged() {
        say(format_args!("warning: {unjudged}"));
    }
    if !found.wrong.is_empty() {
        bail!("runs of {} failed: {}", arguments.after.display(), found.wrong.join("; "));
    }
    if let Some(chance) = found.chance() {
        say(format_args!("warning: {chance}"));
    }
    if found.is_worse() {
        let worse: Vec<String> = found.surely_worse().map(Line::in_words).collect();
        bail!("something became worse, past the noise: {}", worse.join("; "));
    }
    let worse = found.perhaps_worse();
    if worse.is_empty() && found.missing.is_empty() {
        return Ok(());
    }
    for line in worse {
        say(format_args!("warning: looks worse: {}", line.in_words()));
    }
    std::process::exit(UNJUDGED)
}

/// What the two come to, written as a table and, if that is wanted, as a page.
fn compared(arguments: &CompareArguments, out: &mut dyn Write) -> Result<Differences> {
    let (before, after) = (Report::open(&arguments.before)?, Report::open(&arguments.after)?);
    let found = compare(&before, &after, arguments.noise);
    for missing in &found.missing {
        say(format_args!("warning: {missing}"));
    }
    for note in &found.unmatched {
        say(format_args!("note: {note}"));
    }
    if found.lines.is_empty() && found.wrong.is_empty() {
        bail!("the two have nothing in common that could be compared");
    }
    if let Some(folder) = &arguments.out {
        let page = files::write_compared((&before, &after), &found, folder)?;
        say(format_args!("written: {}", page.display()));
    }
    write!(out, "{}", found.table().text())?;
    out.flush()?;
    Ok(found)
}

fn report(arguments: &ReportArguments) -> Result<()> {
    let written = match &arguments.together {
        Some(name) => together(name, arguments)?,
        None => {
            let again = |file: &PathBuf| files::write_again(file, arguments.out.as_deref());
            arguments.files.iter().map(again).collect::<Result<Vec<_>>>()?.concat()
        }
    };
    for path in written {
        say(format_args!("written: {}", path.display()));
    }
    Ok(())
}

fn together(name: &str, arguments: &ReportArguments) -> Result<Vec<PathBuf>> {
    let about = Family::find(name)?.map_or_else(|| "Several benchmarks.".to_owned(), |family| family.about);
    let reports = arguments.files.iter().map(|file| Report::open(file)).collect::<Result<Vec<_>>>()?;
    let beside = arguments.files.first().and_then(|file| file.parent()).unwrap_or(Path::new(""));
    files::write_together(Summary::of(name, &about), &reports, arguments.out.as_deref().unwrap_or(beside))
}
