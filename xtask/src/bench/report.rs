//! The page for people and the values for programs.
//!
//! Both keep the parts that were not measured this time, and the page keeps what a person wrote below
//! its last heading.

use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::figures::{Measure, Ratio, Section, Spread};
use super::options::Page;

const REMARKS: &str = "## Remarks";
const REMARKS_ABOUT: &str =
    "\n\nWhat stands here is written by hand and kept when the page is written again.\n";

/// Everything that is known, in the order of the page.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Report {
    #[serde(skip)]
    page: Page,
    sections: Vec<Section>,
}

impl Report {
    /// What the last run left beside the page; nothing if there is none.
    pub(super) fn read(page: Page, path: &Path) -> Result<Self> {
        let values = path.with_extension("json");
        let mut report = Self::default();
        if values.exists() {
            report = serde_json::from_slice(&std::fs::read(&values)?)
                .with_context(|| format!("{} is not of this tool: move it away", values.display()))?;
        }
        for section in report.sections.iter_mut().filter(|section| section.ratios.is_empty()) {
            section.ratios = Ratio::to_kafka(&section.columns);
        }
        Ok(Self { page, ..report })
    }

    /// Puts a part in the place of what was known of it.
    pub(super) fn put(&mut self, section: Section) {
        self.sections.retain(|known| known.part != section.part);
        self.sections.push(section);
        self.sections.sort_by_key(|section| section.part);
    }

    /// Writes the page and the values.
    pub(super) fn write(&self, path: &Path) -> Result<()> {
        let remarks = std::fs::read_to_string(path).ok().and_then(|text| {
            let at = text.find(REMARKS)?;
            Some(text[at..].to_owned())
        });
        let mut text = self.text();
        text.push_str(&remarks.unwrap_or_else(|| format!("{REMARKS}{REMARKS_ABOUT}")));
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(path, text)?;
        let mut values = serde_json::to_string_pretty(self)?;
        values.push('\n');
        std::fs::write(path.with_extension("json"), values)?;
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

    fn text(&self) -> String {
        let mut text = String::from(match self.page {
            Page::Broker => HEAD_OF_BROKER,
            Page::Client => HEAD_OF_CLIENT,
            Page::Cluster => HEAD_OF_CLUSTER,
            Page::Groups => HEAD_OF_GROUPS,
        });
        text.push_str("\n## Goals\n\n");
        text.push_str(&self.goals());
        text.push('\n');
        for section in &self.sections {
            text.push_str(&section_text(section));
        }
        text
    }
}

const HEAD_OF_BROKER: &str = "\
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

const HEAD_OF_CLIENT: &str = "\
# Speed and memory of the clients

Written by `cargo xtask bench client`; every value of every run is in the JSON file beside this page. Client and broker share this one
machine; what is compared takes turns run by run, in an order that turns around each time. Each cell is the median of the runs with the
least and the greatest in parentheses; a ratio is that of the medians, with the least and the greatest ratio of one run. Figures drift
from day to day with what else the machine does, so compare only within a part. *CPU of all else* is the noise that was seen: it holds
the kernel's writing back and whatever other programs ran.

*ours* is `vltava perf`, which uses the crate `vltava-client`; *librdkafka* is a program on the crate `rdkafka` (`xtask/load`), with the
calls of that crate, one for each record; *librdkafka's quickest* is librdkafka with its own calls, which take and give many records at
once; *Java* is Kafka's own tools. All send letters by chance and count every acknowledgement. Ours checks the checksum of all that it
reads; the others do not, by default.

Vltava has `flush.policy=os` (an acknowledged record is in the page cache, as it is in Kafka, which does not flush before it answers) if
a column does not say `flush.policy=ack` (it is on the medium). Commands name the folder of Apache Kafka's scripts `$KAFKA`; its broker
has the settings of its own `config/server.properties`.
";

const HEAD_OF_CLUSTER: &str = "\
# Speed of a cluster, and what a failure costs

Written by `cargo xtask bench cluster`; every value of every run is in the JSON file beside this page. Three brokers and their clients
share this one machine, so what is shown is what the work costs, not what three machines could do: each record is received, checked and
written three times on the same cores. What is compared takes turns run by run, in an order that turns around each time. Each cell is
the median of the runs with the least and the greatest in parentheses; a ratio is that of the medians, with the least and the greatest
ratio of one run. Figures drift from day to day with what else the machine does, so compare only within a part. *CPU of all else* is the
noise that was seen: it holds the kernel's writing back and whatever other programs ran.

Each side has its own clients: *ours on Vltava* is `vltava perf`, which uses the crate `vltava-client`, on three processes of `vltava
server`; *Java on Kafka* is Kafka's own tools on three of its brokers. Each has the defaults that its command line does not change:
batches of at most 128 KiB with ours (ADR 0012), of at most 16 KiB with Java's.
Vltava has `flush.policy=os` (an acknowledged record is in the page cache of as many nodes as acks asks for, as it is in Kafka, which
does not flush before it answers) if a column does not say `flush.policy=ack` (it is on the medium of those nodes). Commands name the
folder of Apache Kafka's scripts `$KAFKA`; its brokers have the settings of its own `config/server.properties`.
";

const HEAD_OF_GROUPS: &str = "\
# Speed of consumer groups

Written by `cargo xtask bench groups`; every value of every run is in the JSON file beside this page. Brokers and their clients share this
one machine and take turns run by run, in an order that turns around each time. Each cell is the median of the runs with the least and the
greatest in parentheses; a ratio is that of the medians, with the least and the greatest ratio of one run. Figures drift from day to day
with what else the machine does, so compare only within a part. *CPU of all else* is the noise that was seen: it holds the kernel's
writing back and whatever other programs ran.

Both sides are loaded by the same programs: `vltava-bench-load group` (`xtask/load`) on the members, consumers and admin of the crates
`vltava-client-core` and `vltava-client`, and where it says *Java*, Kafka's own consumer. Both brokers have their defaults. What that means
for durability is not the same: Vltava answers a commit, or a member that has joined, when what it wrote to `__consumer_offsets` is on
the medium of all in-sync replicas; Kafka answers when it is in their page cache, and does not flush. Topics with records have
`flush.policy=os` on Vltava, as Kafka has it. *Not served* is what a broker does not say it speaks. Commands name the folder of Apache
Kafka's scripts `$KAFKA`; its brokers have the settings of its own `config/server.properties`.
";

fn section_text(section: &Section) -> String {
    let stamp = &section.stamp;
    let mut text = format!("## {}\n\n{}\n\n", section.title, section.about);
    let runs = if stamp.runs == 1 { "1 run".to_owned() } else { format!("{} runs", stamp.runs) };
    text.push_str(&format!("| {runs} | {} |", section.columns.join(" | ")));
    for ratio in &section.ratios {
        text.push_str(&format!(" {} |", ratio.name));
    }
    text.push_str(&format!("\n|---|{}\n", "---|".repeat(section.columns.len() + section.ratios.len())));
    for measure in &section.measures {
        text.push_str(&row(section, measure));
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

fn row(section: &Section, measure: &Measure) -> String {
    let mut text = format!("| {}, {} |", measure.name, measure.unit);
    for column in &section.columns {
        let spread = measure.runs.get(column).and_then(|values| Spread::of(values));
        let lacking = || measure.lacking.get(column).cloned().unwrap_or("–".to_owned());
        text.push_str(&format!(" {} |", spread.map_or_else(lacking, |spread| spread.text(measure.digits))));
    }
    for Ratio { of, to, .. } in &section.ratios {
        let ratio = section.ratio(&measure.name, of, to).filter(|_| measure.compared);
        text.push_str(&format!(" {} |", ratio.map_or("–".to_owned(), |ratio| ratio.ratio_text())));
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::broker::{KAFKA, OS};
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
        let mut report = Report::read(Page::Broker, &page).unwrap();
        report.put(section(Part::Consume, 1.0));
        report.put(section(Part::Produce, 2.0));
        report.write(&page).unwrap();
        let text = std::fs::read_to_string(&page).unwrap();
        assert!(text.find("## produce").unwrap() < text.find("## consume").unwrap());
        std::fs::write(&page, format!("{text}\nIt was raining.\n")).unwrap();
        let mut report = Report::read(Page::Broker, &page).unwrap();
        report.put(section(Part::Produce, 3.0));
        report.write(&page).unwrap();
        let text = std::fs::read_to_string(&page).unwrap();
        assert!(text.ends_with("It was raining.\n"));
        assert!(
            text.contains("| cpu, s | 3.0 | 4.0 | 0.75 |") && text.contains("| cpu, s | 1.0 | 4.0 | 0.25 |")
        );
        assert_eq!(text.matches(REMARKS).count(), 1);
    }

    #[test]
    fn a_cell_without_a_value_says_why() {
        let dir = tempfile::tempdir().unwrap();
        let page = dir.path().join("page.md");
        let mut report = Report::read(Page::Groups, &page).unwrap();
        let rows = vec![Measure::new("cpu", "s", 1), Measure::new("rss", "MiB", 1)];
        let mut section = Section::new(Part::Join, ("Join", "How.".to_owned()), &[OS, KAFKA], rows);
        section.add(KAFKA, "cpu", 4.0);
        section.lack(OS, "cpu", "not served");
        report.put(section);
        report.write(&page).unwrap();
        let written = std::fs::read_to_string(&page).unwrap();
        assert!(written.contains("| cpu, s | not served | 4.0 | – |"));
        assert!(written.contains("| rss, MiB | – | – | – |"));
        Report::read(Page::Groups, &page).unwrap().write(&page).unwrap();
        assert_eq!(std::fs::read_to_string(&page).unwrap(), written);
    }

    #[test]
    fn a_part_says_what_is_divided_by_what() {
        let dir = tempfile::tempdir().unwrap();
        let page = dir.path().join("page.md");
        let mut report = Report::read(Page::Client, &page).unwrap();
        report.put(section(Part::Latency, 1.0).compared_by(&[("theirs ÷ ours", KAFKA, OS)]));
        report.write(&page).unwrap();
        let written = std::fs::read_to_string(&page).unwrap();
        assert!(written.starts_with("# Speed and memory of the clients"));
        assert!(written.contains("| theirs ÷ ours |") && written.contains("| cpu, s | 1.0 | 4.0 | 4.00 |"));
        Report::read(Page::Client, &page).unwrap().write(&page).unwrap();
        assert_eq!(std::fs::read_to_string(&page).unwrap(), written);
    }
}
