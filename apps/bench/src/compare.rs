//! One report beside another: what became better, what became worse, and what only differs as runs do.

mod unlike; // what is not the same of the two but the figures

use serde_json::Value;

use self::unlike::Notes;
use crate::report::{FIGURES, Figure, Grid, PointReport, Report, SystemReport, factor_in_words, in_words};
use crate::statistics::{
    Better, Comparison, Judgement, RUNS_MIN, Spread, compare as compare_samples, from_nothing,
    p_max_of_several, runs_for_one_of,
};

/// Two reports, compared.
#[derive(Debug)]
pub struct Differences {
    /// A line for each figure that both have.
    pub lines: Vec<Line>,
    /// What is not the same of the two but the figures.
    pub unmatched: Vec<String>,
    /// Points, and systems that were what was measured there, that only the first has: nobody knows whether they became
    /// worse.
    pub missing: Vec<String>,
    /// What was wrong with the records of the second: no figure makes up for that.
    pub wrong: Vec<String>,
    /// Less than this share is no difference.
    matters: f64,
}

/// One figure of one system at one point.
#[derive(Debug)]
pub struct Line {
    /// The values of the point's lists.
    pub point: String,
    /// Of whom.
    pub system: String,
    /// What the first report calls it, and what the second.
    pub names: [String; 2],
    /// Which.
    pub figure: &'static Figure,
    /// In the first report.
    pub before: Spread,
    /// In the second.
    pub after: Spread,
    /// What it comes to.
    pub found: Comparison,
    /// Whether chance does not explain that, although so many figures were compared.
    is_sure: bool,
}

/// Compares two reports. Less than the share `matters` is no difference, however sure it is.
///
/// Systems are matched by name. Of reports that have one system each, those two, whatever their names.
pub fn compare(before: &Report, after: &Report, matters: f64) -> Differences {
    let mut found = Differences {
        lines: Vec::new(),
        unmatched: Vec::new(),
        missing: Vec::new(),
        wrong: after.wrong(),
        matters,
    };
    let mut notes = Notes::default();
    for point in &before.points {
        match after.points.iter().find(|other| other.at == point.at) {
            Some(other) => found.add(point, other, &mut notes),
            None => found.missing.push(format!("{} is only in the first", name(before, point))),
        }
    }
    let is_new = |point: &&PointReport| !before.points.iter().any(|other| other.at == point.at);
    let new = after.points.iter().filter(is_new).map(|point| name(after, point));
    found.unmatched.extend(new.map(|name| format!("{name} is only in the second")));
    if before.name != after.name {
        found.unmatched.push(format!("the first is {}, the second {}", before.name, after.name));
    }
    if before.is_quick != after.is_quick {
        found.unmatched.push("one of them is a short run, and the other is not".to_owned());
    }
    if machines(before) != machines(after) {
        found.unmatched.push("they were measured on different machines".to_owned());
    }
    found.unmatched.extend(notes.in_words());
    found.unmatched.extend(before.wrong().into_iter().map(|wrong| format!("already before, {wrong}")));
    found.weigh(Judgement::Better);
    found.weigh(Judgement::Worse);
    found
}

/// The machine of a report, and those of its load machines, wherever they were reached.
fn machines(report: &Report) -> Vec<Value> {
    let mut first = report.machine.clone();
    let workers = first.as_object_mut().and_then(|of| of.remove("workers"));
    let workers = workers.and_then(|of| of.as_object().map(|of| of.values().cloned().collect::<Vec<_>>()));
    [first].into_iter().chain(workers.unwrap_or_default()).collect()
}

fn name(report: &Report, point: &PointReport) -> String {
    format!("{} {}", report.name, point.label()).trim_end().to_owned()
}

impl Differences {
    fn add(&mut self, before: &PointReport, after: &PointReport, notes: &mut Notes) {
        notes.at(before, unlike::workloads(&before.workload, &after.workload));
        if let ([one], [other]) = (&before.systems[..], &after.systems[..]) {
            return self.add_system((before, one), (after, other), notes);
        }
        for (at, system) in before.systems.iter().enumerate() {
            let Some(other) = after.systems.iter().find(|other| other.name == system.name) else {
                let place = format!("{} {}", system.name, before.label());
                let said = format!("{} is only in the first", place.trim_end());
                // Those behind the first are what it was held against.
                if at == 0 {
                    self.missing.push(said)
                } else {
                    self.unmatched.push(said)
                }
                continue;
            };
            self.add_system((before, system), (after, other), notes);
        }
    }

    fn add_system(
        &mut self,
        (point, before): (&PointReport, &SystemReport),
        (new_point, after): (&PointReport, &SystemReport),
        notes: &mut Notes,
    ) {
        let system = match before.name == after.name {
            true => before.name.clone(),
            false => format!("{} → {}", before.name, after.name),
        };
        notes.at(point, unlike::drivers(&system, &before.driver, &after.driver));
        let names = [before.name.clone(), after.name.clone()];
        let mut only_in = [Vec::new(), Vec::new()];
        let says = |figure: &&Figure| {
            let says = match before.name == after.name {
                true => Figure::says_something,
                false => Figure::compares_systems,
            };
            says(figure, &point.workload) && says(figure, &new_point.workload)
        };
        for figure in FIGURES.iter().filter(says) {
            let (a, b) = (before.values(figure), after.values(figure));
            match (a.is_empty(), b.is_empty()) {
                (false, true) => only_in[0].push(figure.title),
                (true, false) => only_in[1].push(figure.title),
                _ => {}
            }
            let spreads = Spread::of(&a).zip(Spread::of(&b));
            let compared = compare_samples(&a, &b, figure.better, self.matters)
                .or_else(|| from_nothing(&a, &b, figure.better));
            let (Some((before, after)), Some(found)) = (spreads, compared) else { continue };
            let (point, system, names) = (point.label(), system.clone(), names.clone());
            self.lines.push(Line { point, system, names, figure, before, after, found, is_sure: false });
        }
        for (titles, report) in only_in.iter().zip(["first", "second"]) {
            let said = format!("of {system} only the {report} has: {}", titles.join("; "));
            notes.at(point, (!titles.is_empty()).then_some(said));
        }
    }

    /// Finds out which of the figures that differ this way do so beyond what chance makes of so many.
    fn weigh(&mut self, way: Judgement) {
        // What goes the other way is all the less probable to go this way by chance.
        let p = |line: &Line| match line.looks_worse() == (way == Judgement::Worse) {
            true => line.found.p / 2.0,
            false => 1.0 - line.found.p / 2.0,
        };
        let all: Vec<f64> = self.judged().map(p).collect();
        let Some(p_max) = p_max_of_several(&all) else { return };
        for line in self.lines.iter_mut().filter(|line| line.found.judgement == way) {
            line.is_sure = p(line) <= p_max;
        }
    }

    fn judged(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|line| line.found.judgement != Judgement::TooFewRuns)
    }

    /// How many runs of each it takes at least to tell one figure that differs from chance.
    fn runs_wanted(&self) -> usize {
        runs_for_one_of(self.lines.len())
    }

    /// Whether something became worse, beyond what chance makes of so many figures, or a run of the second failed.
    pub fn is_worse(&self) -> bool {
        !self.wrong.is_empty() || self.surely_worse().next().is_some()
    }

    /// What became worse, beyond what chance makes of so many figures.
    pub fn surely_worse(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|line| line.found.judgement == Judgement::Worse && line.is_sure)
    }

    /// What could not be judged for want of runs, in words: nothing if all could be.
    pub fn unjudged(&self) -> Option<String> {
        let few: Vec<&Line> =
            self.lines.iter().filter(|line| line.found.judgement == Judgement::TooFewRuns).collect();
        let runs = |of: fn(&Line) -> usize| few.iter().map(|line| of(line)).min();
        let (before, after) = (runs(|line| line.before.runs)?, runs(|line| line.after.runs)?);
        let what = if few.len() == self.lines.len() {
            "nothing could be judged".to_owned()
        } else {
            format!("{} of {} figures could not be judged", few.len(), self.lines.len())
        };
        Some(format!(
            "{what}: it takes {RUNS_MIN} runs of each, and there are {before} before and {after} behind; measure \
             again with --runs {}",
            self.runs_wanted()
        ))
    }

    /// Figures that are worse past what is called noise, with too few runs to tell whether that is chance: of each, or
    /// for so many figures.
    pub fn perhaps_worse(&self) -> Vec<&Line> {
        let runs_wanted = self.runs_wanted();
        let is = |line: &&Line| match line.found.judgement {
            Judgement::TooFewRuns => line.looks_worse() && (line.found.ratio - 1.0).abs() > self.matters,
            Judgement::Worse => !line.is_sure && line.before.runs.min(line.after.runs) < runs_wanted,
            Judgement::Better | Judgement::Same => false,
        };
        self.lines.iter().filter(is).collect()
    }

    /// How many figures look worse by themselves and may be chance among so many, in words: nothing if there are none.
    pub fn chance(&self) -> Option<String> {
        let is_unsure = |line: &&Line| line.found.judgement == Judgement::Worse && !line.is_sure;
        let unsure = self.lines.iter().filter(is_unsure).count();
        let is_for_want_of_runs = self.perhaps_worse().iter().any(is_unsure);
        let runs = if is_for_want_of_runs {
            format!("; to tell it takes --runs {} at least", self.runs_wanted())
        } else {
            String::new()
        };
        let of = self.lines.len();
        (unsure > 0).then(|| {
            format!(
                "{unsure} of {of} figures look worse, as some do by chance where so many are compared{runs}"
            )
        })
    }

    /// A row for each line.
    pub fn table(&self) -> Grid {
        let mut grid =
            Grid::new(["", "system", "figure", "before", "after", "ratio", "bootstrap interval", "verdict"]);
        for line in &self.lines {
            let shown = |spread: &Spread| match spread.runs {
                1 => line.figure.show(spread.median),
                _ => format!(
                    "{} ({}–{})",
                    line.figure.show(spread.median),
                    line.figure.show(spread.min),
                    line.figure.show(spread.max)
                ),
            };
            let interval = line.found.interval.map(|(low, high)| format!("{low:.2}–{high:.2}"));
            grid.row([
                line.point.clone(),
                line.system.clone(),
                line.figure.title.to_owned(),
                shown(&line.before),
                shown(&line.after),
                factor_in_words(&line.found),
                interval.unwrap_or_default(),
                line.verdict(),
            ]);
        }
        grid.compact()
    }
}

impl Line {
    /// Whether chance does not explain the difference, although so many figures were compared.
    pub const fn is_sure(&self) -> bool {
        self.is_sure
    }

    /// Whether the second is worse, by however much.
    fn looks_worse(&self) -> bool {
        (self.found.ratio < 1.0) == (self.figure.better == Better::Higher)
    }

    fn verdict(&self) -> String {
        let differs = matches!(self.found.judgement, Judgement::Better | Judgement::Worse);
        let doubt = if differs && !self.is_sure { ", perhaps by chance" } else { "" };
        format!("{}{doubt}", in_words(self.found.judgement))
    }

    /// Which figure of whom, and how many times what it was.
    pub fn in_words(&self) -> String {
        let place = format!("{} {}", self.system, self.point);
        format!("{}: {}, {}", place.trim_end(), self.figure.title, factor_in_words(&self.found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report;
    use crate::workload::Workload;

    const SLOW: &[f64] = &[100.0, 101.0, 102.0, 103.0];
    const FAST: &[f64] = &[120.0, 121.0, 122.0, 123.0];

    fn judged(before: &[f64], after: &[f64], matters: f64) -> Vec<Judgement> {
        let of = |rates| report(Workload::default(), &[("vltava", rates)]);
        let found = compare(&of(before), &of(after), matters);
        found.lines.iter().map(|line| line.found.judgement).collect()
    }

    #[test]
    fn worse_is_worse_and_noise_is_not() {
        // Records and bytes; at full speed latencies say nothing.
        assert_eq!(judged(SLOW, FAST, 0.03), [Judgement::Better; 2]);
        assert_eq!(judged(FAST, SLOW, 0.03), [Judgement::Worse; 2]);
        assert_eq!(judged(FAST, SLOW, 0.5), [Judgement::Same; 2]);
        assert_eq!(
            judged(&[100.0, 120.0, 110.0, 90.0], &[95.0, 118.0, 108.0, 91.0], 0.03),
            [Judgement::Same; 2]
        );
        assert_eq!(judged(&FAST[..3], &SLOW[..3], 0.03), [Judgement::TooFewRuns; 2]);
    }

    #[test]
    fn what_cannot_be_judged_is_told_with_how_many_runs_it_takes() {
        let of = |rates| report(Workload::default(), &[("vltava", rates)]);
        let found = |before, after| compare(&of(before), &of(after), 0.03);
        let worse = found(&FAST[..1], &SLOW[..3]);
        let said = worse.unjudged().expect("there are too few runs");
        assert!(said.starts_with("nothing could be judged: it takes 4 runs of each"), "{said}");
        assert!(said.contains("there are 1 before and 3 behind") && said.ends_with("--runs 4"), "{said}");
        let titles: Vec<&str> = worse.perhaps_worse().iter().map(|line| line.figure.title).collect();
        assert_eq!(titles, ["written, records/s", "written, MiB/s"]);
        assert!(!worse.is_worse(), "that is not known");
        for (before, after, is_unjudged) in [(&SLOW[..3], &FAST[..3], true), (FAST, SLOW, false)] {
            let found = found(before, after);
            assert_eq!((found.unjudged().is_some(), found.perhaps_worse().len()), (is_unjudged, 0));
        }
        let near = compare(&of(&[100.0]), &of(&[98.0]), 0.03);
        assert!(near.perhaps_worse().is_empty(), "less than the noise is no difference");
        // One of two systems has enough.
        let both = |of_kafka| report(Workload::default(), &[("vltava", SLOW), ("kafka", of_kafka)]);
        let said = compare(&both(SLOW), &both(&SLOW[..2]), 0.03).unjudged().unwrap_or_default();
        assert!(said.starts_with("2 of 4 figures could not be judged"), "{said}");
    }

    /// As many points as there are samples, of two figures each.
    fn points(rates: [&[f64]; 8]) -> Report {
        let of = |rates| report(Workload::default(), &[("vltava", rates)]).points.remove(0);
        let point = |(at, rates): (i32, _)| PointReport {
            at: [("acks".to_owned(), at.into())].into_iter().collect(),
            ..of(rates)
        };
        Report { points: (0..).zip(rates).map(point).collect(), ..report(Workload::default(), &[]) }
    }

    #[test]
    fn one_figure_of_many_that_is_worse_may_be_chance() {
        let slower: &[f64] = &[90.0, 91.0, 92.0, 93.0];
        let mut one = [SLOW; 8];
        one[3] = slower;
        let found = compare(&points([SLOW; 8]), &points(one), 0.03);
        let titles: Vec<&str> = found.perhaps_worse().iter().map(|line| line.figure.title).collect();
        assert!(!found.is_worse(), "two of 16, each with a probability of 1 to 70");
        assert_eq!(titles, ["written, records/s", "written, MiB/s"]);
        let said = found.chance().unwrap_or_default();
        assert!(
            said.starts_with("2 of 16 figures look worse") && said.ends_with("--runs 6 at least"),
            "{said}"
        );
        assert!(found.table().text().contains("worse, perhaps by chance"), "{}", found.table().text());
        // It is no surer where all the others became better.
        let mut but_one = [FAST; 8];
        but_one[3] = slower;
        assert!(!compare(&points([SLOW; 8]), &points(but_one), 0.03).is_worse());
        // One that is less probable is worse.
        let many: &[f64] = &[100.0, 101.0, 102.0, 103.0, 104.0, 105.0];
        let mut one = [many; 8];
        one[3] = &[90.0, 91.0, 92.0, 93.0, 94.0, 95.0];
        let found = compare(&points([many; 8]), &points(one), 0.03);
        assert!(found.is_worse() && found.chance().is_none());
        // With runs enough, what chance may have made is not held against it.
        one[3] = &[92.0, 93.0, 94.0, 95.0, 96.0, 102.5];
        let found = compare(&points([many; 8]), &points(one), 0.03);
        assert!(!found.is_worse() && found.perhaps_worse().is_empty() && found.chance().is_some());
    }

    #[test]
    fn a_run_that_lost_records_is_worse_however_fast_it_was() {
        let before = report(Workload::default(), &[("vltava", SLOW)]);
        let mut after = report(Workload::default(), &[("vltava", FAST)]);
        after.points[0].systems[0].runs[3].wrong = Some("records 1 lost".to_owned());
        assert!(compare(&before, &after, 0.03).is_worse());
        assert!(!compare(&after, &before, 0.5).is_worse(), "what was wrong before is no loss");
    }

    #[test]
    fn systems_are_matched_by_name_and_what_is_not_is_told() {
        let before = report(Workload::default(), &[("vltava", FAST), ("kafka", SLOW)]);
        let mut after = report(Workload::default(), &[("kafka", SLOW), ("other", SLOW)]);
        after.name = "b".to_owned();
        after.points[0].workload.partitions = 7;
        after.points[0].workload.producer.insert("linger.ms".to_owned(), "5".to_owned());
        let found = compare(&before, &after, 0.03);
        assert!(!found.is_worse() && found.lines.iter().all(|line| line.system == "kafka"));
        assert_eq!(found.missing, ["vltava is only in the first"]);
        let expected = [
            "the first is a, the second b",
            "the workloads differ: partitions 1 → 7, producer/linger.ms not set → 5",
        ];
        assert_eq!(found.unmatched, expected);
        let both = report(Workload::default(), &[("kafka", SLOW), ("other", SLOW)]);
        let found = compare(&both, &before, 0.03);
        assert_eq!(
            (found.missing.len(), &*found.unmatched[0]),
            (0, "other is only in the first"),
            "it was held against"
        );
        let one = compare(
            &report(Workload::default(), &[("vltava", FAST)]),
            &report(Workload::default(), &[("kafka", SLOW)]),
            0.03,
        );
        assert!(one.is_worse());
        assert!(one.table().text().contains("vltava → kafka"), "{}", one.table().text());
    }

    #[test]
    fn what_only_one_of_them_has_is_told() {
        let before = points([SLOW; 8]);
        let mut after = points([SLOW; 8]);
        let read = after.points[2].systems[0].runs[0].written.clone();
        after.points[2].systems[0].runs[0].read = read;
        for point in &mut after.points {
            point.systems[0].driver.settings.insert("flush.policy".to_owned(), "ack".to_owned());
        }
        let notes = |before, after| compare(before, after, 0.03).unmatched;
        let expected = [
            "vltava is set up otherwise: settings/flush.policy not set → ack",
            "of vltava only the second has: read, records/s; read, MiB/s (acks=2)",
        ];
        assert_eq!(notes(&before, &after), expected);
        let expected = [
            "vltava is set up otherwise: settings/flush.policy ack → not set",
            "of vltava only the first has: read, records/s; read, MiB/s (acks=2)",
        ];
        assert_eq!(notes(&after, &before), expected);
        assert_eq!(notes(&after, &after), [""; 0], "nothing is said of what is the same");
        after.points.remove(6);
        assert_eq!(compare(&before, &after, 0.03).missing, ["a acks=6 is only in the first"]);
        assert_eq!(compare(&after, &before, 0.03).missing, [""; 0], "what is new is no loss");
    }
}
