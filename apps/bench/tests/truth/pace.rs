//! Rates: those that are kept, and the highest that can be.

use std::time::Duration;

use vltava_bench::driver::Warmup;

use crate::bench::{measure, measure_warm, run};
use crate::broker::{Broker, Manner};

#[test]
fn a_rate_is_what_it_is_said_to_be() {
    let broker = Broker::start(Manner::default());
    let found = run(&broker, "rate: 1000\nproducers: 2\nwarmup_seconds: 0.5\nseconds: 2");
    let acknowledged = broker.acknowledged();
    let mut dues = Vec::new();
    for batch in &acknowledged {
        for sent in &batch.records {
            assert!(batch.came >= Duration::from_nanos(sent.due_ns), "nothing is sent before it is due");
            dues.push(sent.due_ns);
        }
    }
    // Two and a half seconds of a thousand, however late they were: the schedule waits for nobody.
    assert!(dues.len().abs_diff(2_500) <= 2, "{}", dues.len());
    dues.sort_unstable();
    let gaps = dues.windows(2).map(|pair| pair[1] - pair[0]);
    for gap in gaps {
        assert!(gap.abs_diff(1_000_000) <= 2, "{gap} ns between records of two senders");
    }
    let written = found.written.expect("records were written");
    assert!(written.measured.counts.records.abs_diff(2_000) <= 2, "the warm-up does not count");
    let rate = written.measured.counts.records as f64 / written.seconds;
    // They are divided by the time up to the last acknowledgement, which may be late and not early.
    assert!(rate <= 1_001.5, "{rate}");
}

/// Half a second of records waits in the client when the steady state begins, or all that was due and not taken.
#[test]
fn what_waits_in_line_does_not_make_throughput_less() {
    for rate in ["max", "4000"] {
        let broker = Broker::start(Manner { capacity: Some(2_000.0), ..Manner::default() });
        let producer = "producer: {batch.size: 2048, buffer.memory: 131072}";
        let found = run(&broker, &format!("{producer}\nrate: {rate}\nwarmup_seconds: 1\nseconds: 1.5"));
        let acknowledged = broker.acknowledged();
        let records = acknowledged.iter().map(|batch| batch.records.len()).sum::<usize>();
        let answered = acknowledged.iter().map(|batch| batch.answered);
        let took = answered.clone().max().zip(answered.min()).map(|(last, first)| last - first);
        let true_rate = records as f64 / took.expect("records were acknowledged").as_secs_f64();
        let found = found.written.expect("records were written").records_per_sec();
        assert!((found / true_rate - 1.0).abs() < 0.1, "{rate}: {found} where the broker took {true_rate}");
    }
}

#[test]
fn what_is_due_and_not_sent_when_the_time_is_up_is_told() {
    let broker = Broker::start(Manner { capacity: Some(2_000.0), ..Manner::default() });
    let text = "\
rate: 6000
stop_on_time: true
producers: 2
producer: {batch.size: 2048, buffer.memory: 32768}
warmup_seconds: 0.3
seconds: 1
";
    let found = run(&broker, text).punctuality.json();
    let (sent, unsent) = (found["due"].as_u64(), found["unsent"].as_u64());
    let (sent, unsent) = sent.zip(unsent).expect("both are told");
    assert!((sent + unsent).abs_diff(6_000) <= 2, "{sent} were sent, {unsent} were not");
    // What it takes in a second, with what waits in the clients; a busy machine sends less.
    assert!(sent <= 3_000, "{sent} were sent to a broker that takes 2000");
}

#[test]
fn no_more_is_sent_than_there_is_room_for() {
    let broker = Broker::start(Manner::default());
    let found = run(&broker, "records_max: 501\nproducers: 2\nwarmup_seconds: 0\nseconds: 600");
    let written = found.written.expect("records were written").measured;
    assert_eq!((written.counts.records, found.verdict.checked()), (501, 501));
    assert!(
        found.befell.iter().any(|note| note.starts_with("scaled: it ended with 501")),
        "{:?}",
        found.befell
    );
}

#[test]
fn the_highest_rate_that_is_kept_up_with_is_found() {
    const KNEE: f64 = 2_000.0;
    let broker = Broker::start(Manner { capacity: Some(KNEE), ..Manner::default() });
    // Little room in the clients: what waits there at full speed has to go through the knee, too.
    let text = "\
search: {seconds: 3, within: 0.1, p99_ms: 200}
producer: {batch.size: 2048, buffer.memory: 32768}
consumers: 1
warmup_seconds: 0.2
seconds: 1
";
    let report = measure(&broker, text);
    let run = &report.points[0].systems[0].runs[0];
    assert_eq!(run.wrong, None);
    let goal = report.points[0].workload.search.expect("it searches");
    let tried: Vec<(f64, bool)> = run.probes.iter().map(|probe| (probe.rate, probe.is_kept(&goal))).collect();
    let kept = tried.iter().filter(|(_, is_kept)| *is_kept).map(|(rate, _)| *rate).fold(0.0, f64::max);
    let found = run.written.as_ref().expect("records were written").records_per_sec;
    // A busy machine keeps up with less, even with much less, and never with more, but for the line that may grow
    // in three seconds to what the latency allows. That the knee itself is found is told on a clock that is stepped.
    assert!(kept <= KNEE * 1.08 && found <= kept * 1.02, "{found} of {KNEE}; tried {tried:?}");
    assert!(kept >= KNEE * 0.1, "{found} of {KNEE}; tried {tried:?}");
    assert!(tried.iter().any(|(_, is_kept)| !is_kept), "there is an end to it: {tried:?}");
}

#[test]
fn who_becomes_faster_is_measured_when_that_is_over() {
    const WARM: f64 = 4_000.0;
    let cold = || Manner { capacity: Some(WARM), cold_until: 2_500, ..Manner::default() };
    let text = "producer: {batch.size: 2048, buffer.memory: 32768}\nwarmup_seconds: 0\nseconds: 1";
    let of = |warmup| {
        let report = measure_warm(&Broker::start(cold()), text, warmup);
        let run = &report.points[0].systems[0].runs[0];
        assert_eq!(run.wrong, None);
        (
            run.written.as_ref().expect("records were written").records_per_sec,
            run.warmup_tries,
            report.remarks(),
        )
    };
    let (found, tries, _) = of(None);
    assert!(tries == 0 && found < WARM * 0.3, "{found} while it is cold");
    let (found, tries, said) = of(Some(Warmup { tries_max: 20, seconds: 1.0 }));
    // Three tries are over before it is warm, and two bring nothing more.
    assert!(tries >= 5 && found > WARM * 0.6, "{found} behind {tries} tries");
    assert!(said.iter().any(|said| said.contains(&format!("was warmed up by {tries} tries"))), "{said:?}");
}

#[test]
fn brokers_that_are_warm_are_kept_for_the_next_point() {
    let broker = Broker::start(Manner { capacity: Some(4_000.0), ..Manner::default() });
    let text = "producer: {batch.size: 2048, buffer.memory: 32768}\nwarmup_seconds: 0\nseconds: 0.5\n\
                record_bytes: [100, 200]";
    let report = measure_warm(&broker, text, Some(Warmup { tries_max: 6, seconds: 0.5 }));
    let runs: Vec<_> = report.points.iter().map(|point| &point.systems[0].runs[0]).collect();
    assert_eq!(runs.iter().map(|run| run.are_brokers_kept).collect::<Vec<_>>(), [false, true]);
    assert!(runs[0].warmup_tries >= 3, "two in vain behind the first");
    assert_eq!(
        (runs[1].warmup_tries, runs[1].warmup_speeds.len()),
        (1, 1),
        "it does something else than before"
    );
    assert!(runs.iter().all(|run| run.wrong.is_none()));
}
