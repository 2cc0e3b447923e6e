//! A report as files beside each other: for programs, for people, and for the tools of others.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::compare::Differences;
use crate::name::in_a_name;
use crate::report::{Report, Summary};
use crate::{openmessaging, page, rows};

/// What the files of a report are called. What was ended early is not written over what was not.
pub(crate) fn stem(report: &Report) -> String {
    let ending = if report.is_interrupted { "-interrupted" } else { "" };
    format!("{}{ending}", in_a_name(&report.name))
}

/// Writes all forms of a report, and says what it wrote.
pub fn write(report: &Report, folder: &Path) -> Result<Vec<PathBuf>> {
    let stem = stem(report);
    let results = format!("{stem}.openmessaging");
    let mut files = vec![
        (format!("{stem}.json"), serde_json::to_string(report)? + "\n"),
        (format!("{stem}.md"), report.markdown()),
        (format!("{stem}.html"), page::page(report)),
    ];
    let has_runs = report.has_runs();
    if has_runs {
        files.push((format!("{stem}.runs.csv"), rows::runs(report)?));
        files.push((format!("{stem}.seconds.csv"), rows::seconds(report)?));
    }
    let mut names: Vec<PathBuf> = files.iter().map(|(name, _)| folder.join(name)).collect();
    // The results' folder is in the other one.
    let deepest = if has_runs { folder.join(&results) } else { folder.to_owned() };
    fs::create_dir_all(&deepest).with_context(|| format!("cannot make {}", deepest.display()))?;
    names.extend(has_runs.then_some(deepest));
    for (name, result) in openmessaging::results(report) {
        files.push((format!("{results}/{name}.json"), serde_json::to_string_pretty(&result)? + "\n"));
    }
    for (name, text) in &files {
        put(&folder.join(name), text)?;
    }
    Ok(names)
}

/// Writes what came of several benchmarks together, beside their own files, and says what it wrote.
pub fn write_summary(summary: &Summary, folder: &Path) -> Result<[PathBuf; 2]> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let [markdown, page] =
        ["md", "html"].map(|ending| folder.join(format!("{}.{ending}", in_a_name(summary.name()))));
    put(&markdown, &summary.markdown())?;
    put(&page, &page::family(summary))?;
    Ok([markdown, page])
}

/// Writes the pages of several reports, and what came of them together, and says what it wrote. Fails, and writes
/// nothing, if one would be written over another.
pub fn write_together(mut summary: Summary, reports: &[Report], folder: &Path) -> Result<Vec<PathBuf>> {
    let mut stems = BTreeSet::from([in_a_name(summary.name())]);
    ensure!(!summary.name().is_empty(), "what they are together has no name");
    for report in reports {
        let is_new = stems.insert(in_a_name(&report.name));
        ensure!(is_new, "two of them are called {}: one would be written over the other", report.name);
        summary.add(report);
    }
    let mut written = Vec::from(write_summary(&summary, folder)?);
    for report in reports {
        written.extend(write_shown(report, &folder.join(in_a_name(&report.name)))?);
    }
    Ok(written)
}

/// Writes the tables and the page of a report that is in a file: into this folder, or beside it.
pub fn write_again(path: &Path, folder: Option<&Path>) -> Result<[PathBuf; 2]> {
    let report = Report::open(path)?;
    match (folder, path.file_name()) {
        (Some(folder), Some(name)) => {
            fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
            write_shown(&report, &folder.join(name).with_extension(""))
        }
        _ => write_shown(&report, &path.with_extension("")),
    }
}

/// What people look at of a report, by that name without its ending.
fn write_shown(report: &Report, name: &Path) -> Result<[PathBuf; 2]> {
    let named = |ending: &str| {
        let mut name = name.as_os_str().to_owned();
        name.push(ending);
        PathBuf::from(name)
    };
    let [markdown, page] = [".md", ".html"].map(named);
    put(&markdown, &report.markdown())?;
    put(&page, &page::page(report))?;
    Ok([markdown, page])
}

/// Writes the page of two reports that were compared.
pub fn write_compared(
    (before, after): (&Report, &Report),
    differences: &Differences,
    folder: &Path,
) -> Result<PathBuf> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let page = folder.join(format!("{}-compared.html", in_a_name(&before.name)));
    put(&page, &page::compared(before, after, differences))?;
    Ok(page)
}

fn put(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hlog::Runs;
    use crate::report::SCHEMA;
    use crate::report::tests::report;
    use crate::workload::Workload;

    #[test]
    fn several_benchmarks_have_a_table_and_a_page_together() {
        let folder = tempfile::tempdir().expect("there is a place for files");
        let mut summary = Summary::of("some", "What they are.");
        summary.add(&report(Workload::default(), &[("vltava", &[10.0]), ("kafka", &[5.0])]));
        let written = write_summary(&summary, &folder.path().join("out")).expect("it can be written");
        assert_eq!(written, ["some.md", "some.html"].map(|name| folder.path().join("out").join(name)));
        let [markdown, page] = written.map(|path| fs::read_to_string(path).expect("it is there"));
        assert_eq!((markdown, page), (summary.markdown(), page::family(&summary)));
    }

    #[test]
    fn what_a_benchmark_is_called_leads_to_no_other_folder() {
        let folder = tempfile::tempdir().expect("there is a place for files");
        let out = folder.path().join("out");
        let mut report = report(Workload::default(), &[("vltava", &[10.0])]);
        report.name = "../1 producer / 1 consumers".to_owned();
        let written = write(&report, &out).expect("it can be written");
        Runs::create(&out, &report.name)
            .and_then(|runs| runs.finish(Some(&report)))
            .expect("it can be written");
        assert_eq!(written[0], out.join(".._1_producer___1_consumers.json"));
        let around: Vec<_> = fs::read_dir(folder.path()).expect("it is there").collect();
        assert_eq!((around.len(), fs::read_dir(&out).expect("it is there").count()), (1, written.len() + 1));
    }

    #[test]
    fn what_a_machine_can_do_alone_has_no_files_of_runs() {
        let folder = tempfile::tempdir().expect("there is a place for files");
        let alone = report(Workload::default(), &[]);
        let written = write(&alone, folder.path()).expect("it can be written");
        assert_eq!(written, ["a.json", "a.md", "a.html"].map(|name| folder.path().join(name)));
        assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), written.len());
    }

    #[test]
    fn what_is_written_is_read_again() {
        let folder = tempfile::tempdir().expect("there is a place for files");
        let report = report(Workload::default(), &[("vltava", &[10.0, 11.0, 12.0]), ("kafka", &[5.0])]);
        let written = write(&report, folder.path()).expect("it can be written");
        assert!(written.iter().all(|path| path.exists()), "{written:?}");
        let path = folder.path().join("a.json");
        assert_eq!(Report::open(&path).expect("it is one"), report);
        let again = write_again(&path, Some(&folder.path().join("again"))).expect("it can be written");
        for (name, again) in ["a.md", "a.html"].into_iter().zip(again) {
            let first = fs::read(folder.path().join(name)).expect("it is there");
            assert_eq!(
                fs::read(again).expect("it is there"),
                first,
                "{name} is made from nothing but the file"
            );
        }
        let other = fs::read_to_string(&path).expect("it is there").replace(SCHEMA, "vltava-bench/9");
        fs::write(&path, other).expect("it can be written");
        let said = Report::open(&path).expect_err("it is another form").to_string();
        assert!(said.ends_with("has the form vltava-bench/9; this program reads vltava-bench/1"), "{said}");
        let markdown = fs::read_to_string(folder.path().join("a.md")).expect("it is there");
        assert!(markdown.contains("Short form"), "{markdown}");
        assert!(
            markdown.contains("| vltava | 11 (10–12) |") && markdown.contains("| kafka | 5 |"),
            "{markdown}"
        );
        assert!(markdown.contains("| vltava to kafka | 2.20 × |"), "{markdown}");
        assert!(markdown.contains("too few runs to tell"), "{markdown}");
        let runs = fs::read_to_string(folder.path().join("a.runs.csv")).expect("it is there");
        assert_eq!(runs.lines().count(), 5, "{runs}");
        assert!(runs.lines().nth(2).is_some_and(|row| row.starts_with("a,vltava,2,,,11,")), "{runs}");
    }
}
