//! What is not the same of two reports but their figures: who compares them has to know it, since that may be what
//! made the difference.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::driver::Driver;
use crate::report::PointReport;
use crate::workload::Workload;
use crate::yaml::Shown;

/// What a workload is called and what is told of it: nobody does anything else for it.
const SAID_OF_WORKLOADS: [&str; 4] = ["name", "about", "published", "quick"];
/// The same of a driver, and where its brokers are asked what they count.
const SAID_OF_DRIVERS: [&str; 2] = ["name", "metrics"];

/// What is to be said of points, each thing once.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// At all the points that both have.
    points: Vec<String>,
    /// Each, with the points that it is said of.
    said: Vec<(String, Vec<String>)>,
}

impl Notes {
    /// Adds what is said of a point, if anything is.
    pub(super) fn at(&mut self, point: &PointReport, said: Option<String>) {
        let label = point.label();
        if !self.points.contains(&label) {
            self.points.push(label.clone());
        }
        let Some(said) = said else { return };
        match self.said.iter_mut().find(|(other, _)| *other == said) {
            Some((_, points)) => points.push(label),
            None => self.said.push((said, vec![label])),
        }
    }

    /// One for each thing, with where it is so unless that is everywhere.
    pub(super) fn in_words(self) -> impl Iterator<Item = String> {
        let all = self.points.len();
        self.said.into_iter().map(move |(said, points)| match &points[..] {
            _ if points.len() == all => said,
            [point] => format!("{said} ({point})"),
            _ => format!("{said} (at {} of {all} points)", points.len()),
        })
    }
}

/// What was not done alike; nothing if all was.
pub(super) fn workloads(before: &Workload, after: &Workload) -> Option<String> {
    let changed = changed(before, after, &SAID_OF_WORKLOADS);
    (!changed.is_empty()).then(|| format!("the workloads differ: {}", changed.join(", ")))
}

/// What of a system was not set up alike; nothing if all was.
pub(super) fn drivers(system: &str, before: &Driver, after: &Driver) -> Option<String> {
    let changed = changed(before, after, &SAID_OF_DRIVERS);
    (!changed.is_empty()).then(|| format!("{system} is set up otherwise: {}", changed.join(", ")))
}

/// Each field that differs, with its values; but none of these.
fn changed<T: Serialize>(before: &T, after: &T, but: &[&str]) -> Vec<String> {
    let (before, after) = (flat(before, but), flat(after, but));
    let fields = before.keys().chain(after.keys().filter(|field| !before.contains_key(*field)));
    let shown =
        |value: Option<&Value>| value.map_or_else(|| "not set".to_owned(), |value| Shown(value).to_string());
    fields
        .filter(|field| before.get(*field) != after.get(*field))
        .map(|field| format!("{field} {} → {}", shown(before.get(field)), shown(after.get(field))))
        .collect()
}

/// All that is set, what is within a field as lists of a workload name it: `producer/linger.ms`.
fn flat<T: Serialize>(of: &T, but: &[&str]) -> Map<String, Value> {
    let mut flat = Map::new();
    let Ok(Value::Object(fields)) = serde_json::to_value(of) else { return flat };
    for (name, value) in fields.into_iter().filter(|(name, _)| !but.contains(&&**name)) {
        match value {
            Value::Null => {}
            Value::Object(within) => {
                flat.extend(within.into_iter().map(|(inner, value)| (format!("{name}/{inner}"), value)));
            }
            value => {
                flat.insert(name, value);
            }
        }
    }
    flat
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Goal;

    #[test]
    fn what_is_done_is_compared_and_what_is_said_of_it_is_not() {
        let before = Workload { name: "a".to_owned(), records: Some(5), ..Workload::default() };
        let renamed = Workload { name: "b".to_owned(), about: "More.".to_owned(), ..before.clone() };
        assert_eq!(workloads(&before, &renamed), None);
        let rate = serde_json::from_value("150%".into()).expect("it is a rate");
        let after = Workload { rate, records: None, search: Some(Goal::default()), ..before.clone() };
        let said = workloads(&before, &after).unwrap_or_default();
        for part in ["rate max → 150%", "records 5 → not set", "search/p99_ms not set → 1000"] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }

    #[test]
    fn where_brokers_count_is_no_difference_and_settings_are_one() {
        let before = Driver::default();
        let asked = Driver { metrics: vec!["http://a".to_owned()], ..Driver::default() };
        assert_eq!(drivers("a", &before, &asked), None);
        let after = Driver { replication_factor: Some(3), ..Driver::default() };
        let said = drivers("a", &before, &after);
        assert_eq!(said.as_deref(), Some("a is set up otherwise: replication_factor not set → 3"));
    }
}
