//! Values of several runs, what they come to, and whether that is what was wanted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::broker::KAFKA;
use super::machine::Stamp;
use super::options::Part;
use super::process::{OTHERS, STOLEN};

/// One part of the page.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Section {
    pub(super) part: Part,
    pub(super) title: String,
    /// How it was measured.
    pub(super) about: String,
    pub(super) stamp: Stamp,
    /// What is compared.
    pub(super) columns: Vec<String>,
    /// Which of them are divided by which.
    #[serde(default)]
    pub(super) ratios: Vec<Ratio>,
    pub(super) measures: Vec<Measure>,
    pub(super) goals: Vec<Goal>,
}

/// Two columns, one divided by the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Ratio {
    pub(super) name: String,
    pub(super) of: String,
    pub(super) to: String,
}

impl Ratio {
    /// One that stands in the page under this name.
    pub(super) fn new(name: &str, of: &str, to: &str) -> Self {
        Self { name: name.to_owned(), of: of.to_owned(), to: to.to_owned() }
    }

    /// Each column that is not Kafka by Kafka; none if there is nothing to compare.
    pub(super) fn to_kafka(columns: &[String]) -> Vec<Self> {
        if !columns.iter().any(|column| column == KAFKA) {
            return Vec::new();
        }
        let ours = columns.iter().filter(|column| *column != KAFKA);
        let ratio = |column: &String| {
            Self::new(&format!("{} ÷ Kafka", column.trim_start_matches("Vltava, ")), column, KAFKA)
        };
        ours.map(ratio).collect()
    }
}

/// One row: the values of every run, by column.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Measure {
    pub(super) name: String,
    pub(super) unit: String,
    /// Digits behind the point that mean something.
    pub(super) digits: usize,
    /// Whether one column of it is better than another, so that their ratio says something.
    pub(super) compared: bool,
    pub(super) runs: BTreeMap<String, Vec<f64>>,
    /// Why there are no values, by column.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) lacking: BTreeMap<String, String>,
}

impl Measure {
    /// Something that columns are compared by.
    pub(super) fn new(name: &str, unit: &str, digits: usize) -> Self {
        let (name, unit, compared) = (name.to_owned(), unit.to_owned(), true);
        Self { name, unit, digits, compared, runs: BTreeMap::new(), lacking: BTreeMap::new() }
    }

    /// Something that tells how far the others can be believed.
    pub(super) fn of_noise(name: &str, unit: &str, digits: usize) -> Self {
        Self { compared: false, ..Self::new(name, unit, digits) }
    }

    /// The rows of what else went on.
    pub(super) fn noise() -> [Self; 2] {
        [OTHERS, STOLEN].map(|name| Self::of_noise(name, "s", 2))
    }
}

/// What was wanted, and what came of it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Goal {
    pub(super) what: String,
    pub(super) wanted: String,
    pub(super) got: String,
    /// None if it could not be measured.
    pub(super) met: Option<bool>,
}

/// What a value should be.
#[derive(Debug, Clone, Copy)]
pub(super) enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Bound {
    fn holds(self, value: f64) -> bool {
        match self {
            Self::AtMost(bound) => value <= bound,
            Self::AtLeast(bound) => value >= bound,
        }
    }

    fn words(self) -> String {
        match self {
            Self::AtMost(bound) => format!("at most {bound}"),
            Self::AtLeast(bound) => format!("at least {bound}"),
        }
    }
}

/// Median, least and greatest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Spread {
    /// Of some values; none if there are none.
    pub(super) fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median =
            if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 };
        Some(Self { median, min, max })
    }

    /// As a ratio, which says little with fewer than two digits that count.
    pub(super) fn ratio_text(self) -> String {
        self.text(if self.median < 0.1 { 4 } else { 2 })
    }

    /// `1 526 000 (1 500 000 – 1 583 000)`.
    pub(super) fn text(self, digits: usize) -> String {
        let median = number(self.median, digits);
        let (min, max) = (number(self.min, digits), number(self.max, digits));
        if min == max { median } else { format!("{median} ({min} – {max})") }
    }
}

impl Section {
    /// A part without values.
    pub(super) fn new(part: Part, texts: (&str, String), columns: &[&str], measures: Vec<Measure>) -> Self {
        let columns: Vec<String> = columns.iter().map(|column| (*column).to_owned()).collect();
        Self {
            part,
            title: texts.0.to_owned(),
            about: texts.1,
            stamp: Stamp::default(),
            ratios: Ratio::to_kafka(&columns),
            columns,
            measures,
            goals: Vec::new(),
        }
    }

    /// The same with other columns divided by each other: name, of, to.
    pub(super) fn compared_by(mut self, ratios: &[(&str, &str, &str)]) -> Self {
        self.ratios = ratios.iter().map(|(name, of, to)| Ratio::new(name, of, to)).collect();
        self
    }

    /// Takes down the value of one run.
    pub(super) fn add(&mut self, column: &str, measure: &str, value: f64) {
        let found = self.measures.iter_mut().find(|known| known.name == measure);
        let found = found.expect("a measure of this section");
        found.runs.entry(column.to_owned()).or_default().push(value);
    }

    /// Says why a cell has no value.
    pub(super) fn lack(&mut self, column: &str, measure: &str, why: &str) {
        let found = self.measures.iter_mut().find(|known| known.name == measure);
        found.expect("a measure of this section").lacking.insert(column.to_owned(), why.to_owned());
    }

    fn values(&self, column: &str, measure: &str) -> &[f64] {
        let found = self.measures.iter().find(|known| known.name == measure);
        found.and_then(|measure| measure.runs.get(column)).map_or(&[], Vec::as_slice)
    }

    /// Wants a value of ours within a bound.
    pub(super) fn want(&mut self, column: &str, measure: &str, bound: Bound) {
        let Some(row) = self.measures.iter().find(|known| known.name == measure) else { return };
        let (unit, digits) = (row.unit.clone(), row.digits);
        let spread = Spread::of(self.values(column, measure));
        self.goals.push(Goal {
            what: format!("{}: {measure} ({column})", self.title),
            wanted: format!("{} {unit}", bound.words()),
            got: spread.map_or("not measured".to_owned(), |spread| format!("{} {unit}", spread.text(digits))),
            met: spread.map(|spread| bound.holds(spread.median)),
        });
    }

    /// Wants the ratio of two columns within a bound.
    pub(super) fn want_ratio(&mut self, measure: &str, (of, to): (&str, &str), bound: Bound) {
        let ratio = self.ratio(measure, of, to);
        self.goals.push(Goal {
            what: format!("{}: {measure}, {of} ÷ {to}", self.title),
            wanted: format!("{} ×", bound.words()),
            got: ratio.map_or("not measured".to_owned(), |ratio| format!("{} ×", ratio.ratio_text())),
            met: ratio.map(|ratio| bound.holds(ratio.median)),
        });
    }

    /// Median against median, and the least and greatest of those of one run.
    pub(super) fn ratio(&self, measure: &str, of: &str, to: &str) -> Option<Spread> {
        let (of, to) = (self.values(of, measure), self.values(to, measure));
        let base = Spread::of(to)?.median;
        if base == 0.0 {
            return None;
        }
        let median = Spread::of(of)?.median / base;
        let by_run: Vec<f64> =
            of.iter().zip(to).filter(|(_, to)| **to != 0.0).map(|(of, to)| of / to).collect();
        let range = if of.len() == to.len() { Spread::of(&by_run) } else { None };
        let (min, max) = range.map_or((median, median), |range| (range.min, range.max));
        Some(Spread { median, min, max })
    }
}

/// `1 526 000`, `5.12`.
pub(super) fn number(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    let (whole, rest) =
        text.split_once('.').map_or((text.as_str(), None), |(whole, rest)| (whole, Some(rest)));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        let left = whole.len() - at;
        if at > 0 && left.is_multiple_of(3) && !grouped.ends_with('-') {
            grouped.push('\u{a0}');
        }
        grouped.push(digit);
    }
    rest.map_or(grouped.clone(), |rest| format!("{grouped}.{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_found_among_any_number() {
        let spread =
            |values: &[f64]| Spread::of(values).map(|spread| (spread.median, spread.min, spread.max));
        assert_eq!(spread(&[3.0, 1.0, 2.0]), Some((2.0, 1.0, 3.0)));
        assert_eq!(spread(&[4.0, 1.0]), Some((2.5, 1.0, 4.0)));
        assert_eq!(spread(&[]), None);
    }

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(number(1_526_000.4, 0), "1\u{a0}526\u{a0}000");
        assert_eq!(number(5.123, 2), "5.12");
        assert_eq!(number(-100.0, 0), "-100");
    }

    #[test]
    fn a_goal_is_judged_by_medians() {
        let rows = vec![Measure::new("cpu", "s", 2)];
        let mut section = Section::new(Part::Produce, ("Produce", String::new()), &["a", "b"], rows);
        for (a, b) in [(1.0, 10.0), (3.0, 10.0), (9.0, 10.0)] {
            section.add("a", "cpu", a);
            section.add("b", "cpu", b);
        }
        section.want_ratio("cpu", ("a", "b"), Bound::AtMost(0.35));
        section.want("a", "cpu", Bound::AtMost(2.0));
        section.want("c", "cpu", Bound::AtMost(2.0));
        let met: Vec<Option<bool>> = section.goals.iter().map(|goal| goal.met).collect();
        assert_eq!(met, [Some(true), Some(false), None]);
        assert_eq!(section.goals[0].got, "0.30 (0.10 – 0.90) ×");
    }
}
