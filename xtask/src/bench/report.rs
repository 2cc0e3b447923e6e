//! The page for people and the values for programs.
//!
//! Both keep the parts that were not measured this time, and the page keeps what a person wrote below
//! its last heading.

use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::broker::KAFKA;
use super::figures::{Measure, Section, Spread};

const REMARKS: &str = "## Remarks";
const REMARKS_ABOUT: &str =
    "\n\nWhat stands here is written by hand and kept when the page is written again.\n";

/// Everything that is known, in the order of the page.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Report {
    sections: Vec<Section>,
}

impl Report {
    /// What the last run left beside the page; nothing if there is none.
    pub(super) fn read(page: &Path) -> Result<Self> {
        let values = page.with_extension("json");
        if !values.exists() {
            return Ok(Self::default());
        }
        let text = std::fs::read(&values)?;
        serde_json::from_slice(&text)
            .with_context(|| format!("{} is not of this tool: move it away", values.display()))
    }

    /// Puts a part in the place of what was known of it.
    pub(super) fn put(&mut self, section: Section) {
        self.sections.retain(|known| known.part != section.part);
        self.sections.push(section);
        self.sections.sort_by_key(|section| section.part);
    }

    /// Writes the page and the values.
    pub(super) fn write(&self, page: &Path) -> Result<()> {
        let remarks = std::fs::read_to_string(page).ok().and_then(|text| {
            let at = text.find(REMARKS)?;
            Some(text[at..].to_owned())
        });
        let mut text = self.page();
        text.push_str(&remarks.unwrap_or_else(|| format!("{REMARKS}{REMARKS_ABOUT}")));
        if let Some(folder) = page.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(page, text)?;
        let mut values = serde_json::to_string_pretty(self)?;
        values.push('\n');
        std::fs::write(page.with_extension("json"), values)?;
        Ok(())
    }

    /// The goals and what became of them.
    pub(super) fn goals(&self) -> String {
        let mut text = String::from("| | wanted | got | |\n|---|---|---|---|\n");
        for goal in self.sections.iter().flat_map(|section| &section.goals) {
            let verdict = match goal.met {
                Some(true) => "met",
                Some(false) => "**missed**",
                None => "–",
            };
            text.push_str(&format!("| {} | {} | {} | {verdict} |\n", goal.what, goal.wanted, goal.got));
        }
        text
    }

    fn page(&self) -> String {
        let mut text = String::from(HEAD);
        text.push_str("\n## Goals\n\n");
        text.push_str(&self.goals());
        text.push('\n');
        for section in &self.sections {
            text.push_str(&section_text(section));
        }
        text
    }
}

const HEAD: &str = "\
# Speed and memory of one node

Written by `cargo xtask bench broker`; every value of every run is in the JSON file beside this page. Both brokers run on this one
machine beside their load and take turns run by run, in an order that turns around each time. Each cell is the median of the runs with
the least and the greatest in parentheses; a ratio is that of the medians, with the least and the greatest ratio of one run. Figures
drift from day to day with what else the machine does, so compare only within a part. *CPU of all else* is the noise that was seen: it
holds the kernel's writing back and whatever other programs ran.

Durability is in the name of each column: with `flush.policy=ack` a record is on the medium before an acks=all answer; with
`flush.policy=os` it is in the page cache, as it is in Kafka, which does not flush before it answers. Commands name the folder of
Apache Kafka's scripts `$KAFKA`; its broker has the settings of its own `config/server.properties`.
";

fn section_text(section: &Section) -> String {
    let stamp = &section.stamp;
    let mut text = format!("## {}\n\n{}\n\n", section.title, section.about);
    text.push_str(&format!("| {} runs | {} |", stamp.runs, section.columns.join(" | ")));
    let mut ours: Vec<&String> = section.columns.iter().filter(|column| *column != KAFKA).collect();
    if ours.len() == section.columns.len() {
        ours.clear(); // There is nothing to compare with.
    }
    for column in &ours {
        text.push_str(&format!(" {} ÷ Kafka |", column.trim_start_matches("Vltava, ")));
    }
    text.push_str(&format!("\n|---|{}\n", "---|".repeat(section.columns.len() + ours.len())));
    for measure in &section.measures {
        text.push_str(&row(section, measure, &ours));
    }
    text.push_str(&format!(
        "\n{}; commit {}; load average {} before, {} after.  \n{}.  \n{}.  \n`{}`\n\n",
        stamp.date,
        stamp.commit,
        stamp.load_before,
        stamp.load_after,
        stamp.machine,
        stamp.versions,
        stamp.command
    ));
    text
}

fn row(section: &Section, measure: &Measure, ours: &[&String]) -> String {
    let mut text = format!("| {}, {} |", measure.name, measure.unit);
    for column in &section.columns {
        let spread = measure.runs.get(column).and_then(|values| Spread::of(values));
        text.push_str(&format!(" {} |", spread.map_or("–".to_owned(), |spread| spread.text(measure.digits))));
    }
    for column in ours {
        let ratio = section.ratio(&measure.name, column, KAFKA).filter(|_| measure.compared);
        text.push_str(&format!(" {} |", ratio.map_or("–".to_owned(), |ratio| ratio.ratio_text())));
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::broker::OS;
    use crate::bench::options::Part;

    fn section(part: Part, value: f64) -> Section {
        let rows = vec![Measure::new("cpu", "s", 1)];
        let mut section = Section::new(part, (part.word(), "How.".to_owned()), &[OS, KAFKA], rows);
        section.add(OS, "cpu", value);
        section.add(KAFKA, "cpu", 4.0);
        section
    }

    #[test]
    fn parts_are_replaced_and_remarks_kept() {
        let dir = tempfile::tempdir().unwrap();
        let page = dir.path().join("page.md");
        let mut report = Report::read(&page).unwrap();
        report.put(section(Part::Consume, 1.0));
        report.put(section(Part::Produce, 2.0));
        report.write(&page).unwrap();
        let text = std::fs::read_to_string(&page).unwrap();
        assert!(text.find("## produce").unwrap() < text.find("## consume").unwrap());
        std::fs::write(&page, format!("{text}\nIt was raining.\n")).unwrap();
        let mut report = Report::read(&page).unwrap();
        report.put(section(Part::Produce, 3.0));
        report.write(&page).unwrap();
        let text = std::fs::read_to_string(&page).unwrap();
        assert!(text.ends_with("It was raining.\n"));
        assert!(
            text.contains("| cpu, s | 3.0 | 4.0 | 0.75 |") && text.contains("| cpu, s | 1.0 | 4.0 | 0.25 |")
        );
        assert_eq!(text.matches(REMARKS).count(), 1);
    }
}
