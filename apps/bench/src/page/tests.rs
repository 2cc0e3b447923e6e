//! What a page says, and that nothing in it is more than text.

use serde_json::json;

use super::*;
use crate::compare::compare;
use crate::histogram::{Quantiles, histogram};
use crate::load::Second;
use crate::meter::Counts;
use crate::report::Summary;
use crate::report::tests::report;
use crate::schedule::Rate;
use crate::workload::{Pace, Published, Workload};

const FAST: &[f64] = &[700.0, 720.0, 710.0, 730.0];
const SLOW: &[f64] = &[100.0, 101.0, 99.0, 102.0];
/// As many as it takes to tell a difference in one of sixteen figures.
const MANY: &[f64] = &[100.0, 101.0, 99.0, 102.0, 98.5, 99.5];

/// Two systems, with a second for each of five of them.
fn two() -> Report {
    let mut report = report(Workload::default(), &[("vltava", FAST), ("kafka", SLOW)]);
    for system in &mut report.points[0].systems {
        for (run, records) in system.runs.iter_mut().zip(1_u64..) {
            let second = |at: u64| Second {
                from: at as f64,
                to: at as f64 + 1.0,
                is_warmup: at == 0,
                written: Counts { records: 100 * records + at, bytes: 1 },
                ..Second::default()
            };
            run.seconds = (0..5).map(second).collect();
        }
    }
    report
}

/// The marks of a page are closed in the order in which they were opened.
fn assert_well_formed(page: &str) {
    const VOID: [&str; 3] = ["meta", "link", "br"];
    let mut open: Vec<&str> = Vec::new();
    for mark in page.split('<').skip(1) {
        let name = mark.split([' ', '>']).next().unwrap_or_default();
        match name.strip_prefix('/') {
            Some(closed) => assert_eq!(open.pop(), Some(closed)),
            None if name.starts_with('!') || VOID.contains(&name) => {}
            None => open.push(name),
        }
    }
    assert_eq!(open, [""; 0]);
}

#[test]
fn who_is_ahead_is_told_and_by_how_much() {
    let page = page(&two());
    assert_well_formed(&page);
    assert!(page.contains(">7.11 × as fast<"), "{page}");
    assert!(page.contains("vltava, beside kafka") && page.contains("a clear difference"), "{page}");
    assert!(page.contains("class=\"line s0\"") && page.contains("class=\"run s1\""), "{page}");
    assert!(page.contains(">warm-up<"), "{page}");
    // Whoever is ahead is named first, whatever the order was.
    let mut turned = two();
    turned.points[0].systems.reverse();
    assert!(super::page(&turned).contains("vltava, beside kafka"));
}

#[test]
fn what_makes_figures_less_comes_first() {
    let mut report = two();
    report.notes.push("the load fell behind".to_owned());
    report.points[0].systems[1].runs.truncate(3);
    report.points[0].systems[1].runs[0].wrong = Some("records 1 lost".to_owned());
    report.published =
        Some(Published { result: "a lot".to_owned(), records_per_sec: Some(9e5), ..Published::default() });
    let page = page(&report);
    let caveats = page.split("class=\"answers\"").next().unwrap_or_default();
    for said in ["records 1 lost", "Short form", "With 3 runs of each", "the load fell behind", "a lot"] {
        assert!(caveats.contains(said), "{said}: {caveats}");
    }
    assert!(
        page.contains("published: 900 k") && page.contains("no verdict: a run of kafka failed"),
        "{page}"
    );
    report.points[0].systems[1].runs[0].wrong = None;
    assert!(super::page(&report).contains("too few runs to be sure"));
}

#[test]
fn what_was_published_of_a_latency_is_beside_its_course() {
    let (mut report, mut took) = (two(), histogram());
    took.saturating_record(2_000_000);
    for run in report.points[0].systems.iter_mut().flat_map(|system| &mut system.runs) {
        run.seconds.iter_mut().for_each(|second| second.end_to_end_ns = Quantiles::of(&took));
        run.read = run.written.clone();
        run.read.iter_mut().for_each(|read| read.response_ns = Quantiles::of(&took));
    }
    report.published = Some(Published { p99_ms: Some(3.0), ..Published::default() });
    let page = page(&report);
    let chart = |title: &str| {
        let chart = page.split("<figure").find(|chart| chart.contains(title));
        chart.expect(title)
    };
    assert!(chart("Until read, p99 of each second").contains(">published: 3 ms<"));
    assert!(!chart("Until read, median of each second").contains("published"));
    // Both were measured at a rate, and theirs was another.
    let published = Published { p99_ms: Some(3.0), records_per_sec: Some(2e5), ..Published::default() };
    report.published = Some(published);
    report.points[0].workload.rate = Pace::Rate(Rate::constant(2e4));
    let page = super::page(&report);
    assert!(page.contains(">published, at 200 k records/s: 3 ms<"));
    assert!(page.contains(">published p99, at 200 k records/s: 3 ms<") && !page.contains("published p50"));
}

#[test]
fn a_sweep_is_a_curve_of_numbers_and_bars_of_anything_else() {
    let at = |field: &str, values: [serde_json::Value; 3]| {
        let mut swept = two();
        let point = swept.points.remove(0);
        swept.points = values
            .into_iter()
            .map(|value| PointReport {
                at: [(field.to_owned(), value)].into_iter().collect(),
                ..point.clone()
            })
            .collect();
        page(&swept)
    };
    let numbers = at("record_bytes", [json!(10), json!(100), json!(1000)]);
    assert_well_formed(&numbers);
    assert!(numbers.contains("bytes of a record") && numbers.contains("class=\"band s0\""), "{numbers}");
    assert!(numbers.contains("ahead at 3 of 3 points, clearly at 3"), "{numbers}");
    let within = at("producer/batch.size", [json!(16_384), json!(65_536), json!(1_048_576)]);
    assert!(within.contains("bytes of a batch"), "{within}");
    let shares = at("rate", [json!("90%"), json!("150%"), json!("300%")]);
    assert_well_formed(&shares);
    assert!(shares.contains("class=\"band s0\"") && shares.contains(">300 %<"), "{shares}");
    assert!(shares.contains("of what is taken at full speed"), "{shares}");
    let words = at("acks", [json!("0"), json!("1"), json!("all")]);
    assert_well_formed(&words);
    assert!(words.contains(">acks=all<") && words.contains("class=\"bar s1\""), "{words}");
}

#[test]
fn two_reports_make_one_page() {
    let (mut before, after) = (two(), two());
    before.machine = json!({ "cores": 2 });
    before.points[0].systems.truncate(1);
    let page = compared(&before, &after, &compare(&before, &after, 0.03));
    assert_well_formed(&page);
    for said in ["vltava, after", "vltava, before", "machine, before", "measured on different machines"] {
        assert!(page.contains(said), "{said}: {page}");
    }
    assert!(page.contains("about the same"), "{page}");
}

/// What is in the cards of a page.
fn cards(page: &str) -> &str {
    let cards = page.split("class=\"answers\"").nth(1).and_then(|rest| rest.split("</section>").next());
    cards.expect("it has cards")
}

#[test]
fn a_page_of_two_reports_says_what_the_comparison_says() {
    let of = |rates: &[f64]| report(Workload::default(), &[("vltava", rates), ("kafka", rates)]);
    let page = |rates: &[f64], noise| {
        let slower = rates.iter().map(|rate| rate * 0.9).collect::<Vec<_>>();
        let (before, after) = (of(rates), of(&slower));
        let found = compare(&before, &after, noise);
        let page = compared(&before, &after, &found);
        assert_well_formed(&page);
        (found.table().text(), page)
    };
    let (said, quiet) = page(SLOW, 0.2);
    assert!(said.contains("the same") && !said.contains("worse"), "{said}");
    assert!(cards(&quiet).contains("about the same") && !quiet.contains("a clear difference"), "{quiet}");
    assert!(!quiet.contains(">worse<") && !quiet.contains(">better<"), "{quiet}");
    // Each system is beside itself, and beside no other.
    let (_, loud) = page(MANY, 0.03);
    for said in ["vltava, before, beside vltava, after", "kafka, before, beside kafka, after"] {
        assert!(cards(&loud).contains(said), "{said}: {loud}");
    }
    assert!(cards(&loud).contains("a clear difference") && loud.contains(">worse<"), "{loud}");
    assert!(!cards(&loud).contains("after, beside vltava") && loud.contains(">kafka<"), "{loud}");
}

#[test]
fn what_may_be_chance_among_so_many_is_no_clear_difference_on_a_page() {
    let swept = |rates: [&[f64]; 8]| {
        let point = |(at, rates): (i32, &[f64])| PointReport {
            at: [("acks".to_owned(), at.into())].into_iter().collect(),
            ..report(Workload::default(), &[("vltava", rates)]).points.remove(0)
        };
        Report { points: (0..).zip(rates).map(point).collect(), ..report(Workload::default(), &[]) }
    };
    let mut one = [SLOW; 8];
    one[3] = &[90.0, 91.0, 92.0, 93.0];
    let (before, after) = (swept([SLOW; 8]), swept(one));
    let page = compared(&before, &after, &compare(&before, &after, 0.03));
    assert_well_formed(&page);
    assert!(!cards(&page).contains("clearly behind"), "{page}");
    assert!(page.contains("worse, perhaps by chance") && !page.contains(">worse<"), "{page}");
    assert!(page.contains("2 of 16 figures look worse"), "{page}");
    let (before, after) = (swept([MANY; 8]), swept([&[50.0, 51.0, 52.0, 53.0, 54.0, 55.0]; 8]));
    let page = compared(&before, &after, &compare(&before, &after, 0.03));
    assert!(cards(&page).contains("ahead at 0 of 8 points, clearly at 0; clearly behind at 8"), "{page}");
}

#[test]
fn what_is_nothing_on_one_side_has_a_card_without_a_factor() {
    let mut report = two();
    for run in &mut report.points[0].systems[1].runs {
        run.written.as_mut().expect("it was written").records_per_sec = 0.0;
    }
    for turned in [false, true] {
        let said = page(&report);
        assert_well_formed(&said);
        let both = if turned { ">0, and 715<" } else { ">715, and 0<" };
        assert!(cards(&said).contains(both) && !cards(&said).contains("inf"), "{said}");
        assert!(cards(&said).contains("a clear difference"), "{said}");
        report.points[0].systems.reverse();
    }
    let point =
        PointReport { at: [("acks".to_owned(), 1.into())].into_iter().collect(), ..report.points[0].clone() };
    report.points.push(point);
    let said = page(&report);
    assert!(cards(&said).contains("one of the two is 0 at 2 of 2 points"), "{said}");
    assert!(!cards(&said).contains("inf"), "{said}");
}

#[test]
fn what_was_checked_of_records_is_told_and_no_more() {
    let said = |change: &dyn Fn(usize, &mut crate::report::RunReport)| {
        let mut report = two();
        let runs = report.points[0].systems.iter_mut().flat_map(|system| &mut system.runs);
        runs.enumerate().for_each(|(at, run)| {
            run.verified = json!({ "records": 9, "unmarked": 0 });
            change(at, run);
        });
        page(&report)
    };
    let checked = said(&|_, _| {});
    assert!(checked.contains("all 8 runs: every record was read back, and none is missing"), "{checked}");
    let counted = said(&|at, run| {
        if at < 3 {
            run.verified = json!({ "records": 0, "unmarked": 9 });
        }
    });
    assert!(counted.contains("in 3 of them they were only counted"), "{counted}");
    let failed = said(&|at, run| match at {
        0 => run.wrong = Some("verification failed: records 1 lost".to_owned()),
        1 => *run = crate::report::RunReport { wrong: Some("it fell".to_owned()), ..Default::default() },
        _ => {}
    });
    assert!(failed.contains("in 1 of 8 runs records were not what was sent"), "{failed}");
    assert!(failed.contains("1 of 8 runs did not get through"), "{failed}");
}

/// A family of a rate with a published figure, a latency, and one that failed.
fn summary(name: &str) -> Summary {
    let mut summary = Summary::of(name, "What they measured.");
    let mut rate = two();
    rate.name = format!("{name}-rate");
    rate.published = Some(Published {
        result: "200 a second".to_owned(),
        records_per_sec: Some(200.0),
        ..Published::default()
    });
    rate.notes =
        vec!["acks=1 scaled: the disk has room for 1 of 2 records".to_owned(), "of that alone".to_owned()];
    summary.add(&rate);
    let mut latency = two();
    latency.name = format!("{name}-latency");
    latency.points[0].workload.one_at_a_time = true;
    summary.add(&latency);
    summary.add_failure(&format!("{name}-broken"), "it fell");
    summary
}

#[test]
fn a_family_has_a_chart_for_each_unit_and_ways_to_its_pages() {
    let page = family(&summary("quick"));
    assert_well_formed(&page);
    let charts: Vec<&str> = page.split("role=\"img\" aria-label=\"").skip(1).collect();
    let titles: Vec<&str> = charts.iter().filter_map(|chart| chart.split('"').next()).collect();
    let expected = [
        "Records a second: vltava beside the others",
        "Records a second: beside what was published",
        "Latency: vltava beside the others",
    ];
    assert_eq!(titles, expected, "one for each unit, and what was published where it was");
    let bars: Vec<usize> = charts.iter().map(|chart| chart.matches("<g class=\"bar").count()).collect();
    assert_eq!(bars, [1, 2, 1]);
    // Medians of 715 and 100.5, and 200 that were published; of latencies less is better.
    assert!(charts[0].contains(">7.11 ×<") && charts[0].contains(">the same<"), "{}", charts[0]);
    assert!(charts[1].contains(">3.58 × (715)<") && charts[1].contains(">0.50 × (100)<"), "{}", charts[1]);
    assert!(charts[1].contains(">published<"), "{}", charts[1]);
    assert!(charts[2].contains("quick-latency: until acknowledged, p50"), "{}", charts[2]);
    assert!(charts[2].contains(">7.1"), "{}", charts[2]);
    for said in
        ["href=\"./quick-rate.html\"", "href=\"./quick-latency.html\"", "quick-broken failed: it fell"]
    {
        assert!(page.contains(said), "{said}: {page}");
    }
    let of_tables = summary("quick");
    for (name, said) in [("page", &page), ("text", &of_tables.text()), ("markdown", &of_tables.markdown())] {
        let scaled = "quick-rate: acks=1 scaled: the disk has room for 1 of 2 records";
        assert!(said.contains(scaled) && !said.contains("of that alone"), "{name}: {said}");
    }
    assert!(page.contains("Short forms") && !page.contains("there is no verdict"), "{page}");
    assert!(!page.contains("<script") && !page.contains("http:") && !page.contains("https:"), "{page}");
    assert_well_formed(&family(&Summary::of("nothing", "")));
    let hostile = family(&summary("</style><script>\"'&"));
    assert_well_formed(&hostile);
    assert!(!hostile.contains("<script") && hostile.matches("</style").count() == 1, "{hostile}");
}

/// Names, notes and settings come from files and clusters.
#[test]
fn what_a_report_says_is_text() {
    const HOSTILE: &str = "</style></svg><script>alert(1)</script><img src=x onerror=\"alert(2)\">'&";
    let mut value = serde_json::to_value(two()).expect("it is JSON");
    spoil(&mut value, HOSTILE);
    let report: Report = serde_json::from_value(value).expect("it is a report still");
    let page = page(&report);
    assert_well_formed(&page);
    assert!(!page.contains("<script") && !page.contains("<img") && page.contains("&lt;script&gt;"), "{page}");
    // The one style is ours.
    assert_eq!(page.matches("</style").count(), 1);
}

/// Puts something into every text that may be anything.
fn spoil(value: &mut serde_json::Value, hostile: &str) {
    const FREE: [&str; 12] = [
        "name",
        "about",
        "version",
        "command",
        "notes",
        "machine",
        "wrong",
        "first_failure",
        "payload",
        "result",
        "source",
        "settings",
    ];
    match value {
        serde_json::Value::Object(fields) => {
            for (name, field) in fields.iter_mut() {
                match field {
                    serde_json::Value::Object(_) | serde_json::Value::Array(_) => spoil(field, hostile),
                    _ if FREE.contains(&&**name) => *field = hostile.into(),
                    _ => {}
                }
            }
            if fields.contains_key("at") {
                fields.insert("at".to_owned(), json!({ hostile: hostile }));
            }
            if fields.contains_key("machine") {
                fields.insert("machine".to_owned(), json!({ hostile: [hostile] }));
                fields.insert("notes".to_owned(), json!([hostile]));
            }
        }
        serde_json::Value::Array(all) => all.iter_mut().for_each(|one| spoil(one, hostile)),
        _ => {}
    }
}

/// A file of a program before this one has less in it.
#[test]
fn what_is_not_in_a_file_is_not_drawn() {
    let text = r#"{ "schema": "vltava-bench/1", "name": "old", "points": [ { "systems": [ { "name": "a", "runs": [ {
        "written": { "records": 9, "records_per_sec": 4.5 }, "seconds": [ { "to": 1.0 } ] } ] } ] } ] }"#;
    let report: Report = serde_json::from_str(text).expect("it is one");
    let page = page(&report);
    assert_well_formed(&page);
    assert!(page.contains(">4.5<"), "{page}");
    assert_well_formed(&super::page(&Report::default()));
}
