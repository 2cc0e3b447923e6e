//! A broker that does not keep what it acknowledged is found out, and the first such record is named.

use vltava_bench::report::RunReport;

use crate::bench::{measure, run, workload};
use crate::broker::{Broker, Manner};
use crate::log::Lie;

#[test]
fn what_a_broker_does_to_records_is_told() {
    let cases = [
        (Lie::Lose, "lost", "did not come"),
        (Lie::Duplicate, "duplicated", "came again"),
        (Lie::Reorder, "reordered", "came behind record"),
        (Lie::Corrupt, "corrupt", " is not what was sent"),
    ];
    // All at once: where records are missing, the harness waits for them for a while.
    std::thread::scope(|scope| {
        for (lie, word, first) in cases {
            // Read meanwhile, and read back behind the run.
            for consumers in [1, 0] {
                scope.spawn(move || is_found_out(lie, consumers, word, first));
            }
        }
    });
}

fn is_found_out(lie: Lie, consumers: u16, word: &str, first: &str) {
    // Without idempotence, the broker's word is all there is.
    let broker = Broker::start(Manner { lie: Some((300, lie)), ..Manner::default() });
    let settings = "producer: {enable.idempotence: false, batch.size: 1024}";
    let text = format!("records: 1000\nrate: 4000\nwarmup_seconds: 0\nconsumers: {consumers}\n{settings}");
    let run = RunReport::of(run(&broker, &text), Vec::new(), &workload(&text));
    let about = broker.acknowledged().into_iter().find(|batch| batch.lie.is_some());
    let about = about.expect("it lied").records;
    let wrong = run.wrong.expect("the run fails");
    let place = format!("{word} with {consumers} consumers: {wrong}");
    for other in ["lost", "duplicated", "reordered", "corrupt"] {
        // What was sent did not come where another came in its place.
        let is_told = other == word || (lie, other) == (Lie::Corrupt, "lost");
        assert_eq!(run.verified[other] != 0, is_told, "{place}");
    }
    // Of a corrupt record nobody knows which it was, but where it is; all before it are there, in order.
    let (count, named) = match lie {
        Lie::Corrupt => (1, format!(": what is at offset {} of bench-", about[about.len() - 1].number)),
        Lie::Lose | Lie::Duplicate | Lie::Reorder => {
            (about.len(), format!(": record {} of sender 0 of run ", about[0].number))
        }
    };
    assert_eq!(run.verified[word], count, "{place}");
    assert!(wrong.contains(&format!(" {count} {word}: ")) && wrong.contains(first), "{place}");
    assert!(wrong.contains(&named), "{place}");
}

#[test]
fn what_is_lost_while_a_rate_is_sought_is_lost() {
    // Its first lie is at full speed, which is tried first; the run that counts is clean.
    let broker = Broker::start(Manner { lie: Some((300, Lie::Duplicate)), ..Manner::default() });
    let settings = "producer: {enable.idempotence: false, batch.size: 1024, buffer.memory: 32768}";
    let report = measure(&broker, &format!("rate: 10%\nwarmup_seconds: 0\nseconds: 0.5\n{settings}"));
    let run = &report.points[0].systems[0].runs[0];
    assert_eq!(run.verified["duplicated"], 0, "{}", run.verified);
    let wrong = run.wrong.as_deref().unwrap_or_default();
    assert!(
        wrong.starts_with("full speed, which was tried first: ") && wrong.contains("came again"),
        "{wrong}"
    );
}

#[test]
fn an_honest_broker_is_believed() {
    let broker = Broker::start(Manner::default());
    for more in ["consumers: 2\nsubscriptions: 2", "consumers: 0", "consumers: 1\nstored: true", "acks: 0"] {
        let found = run(&broker, &format!("partitions: 4\nrecords: 1000\nwarmup_seconds: 0\n{more}"));
        assert!(found.verdict.is_clean(), "{more}: {}", found.verdict.in_words());
        assert_eq!((found.verdict.checked(), found.failed), (1_000, 0), "{more}");
    }
}

#[test]
fn a_leader_that_does_not_know_yet_is_waited_for() {
    // What comes before it knows is dropped, and acks=0 does not hear of it.
    let broker = Broker::start(Manner { leads_after: 3, ..Manner::default() });
    let found = run(&broker, "partitions: 4\nrecords: 1000\nwarmup_seconds: 0\nacks: 0");
    assert!(found.verdict.is_clean(), "{}", found.verdict.in_words());
    assert_eq!(found.verdict.checked(), 1_000);
}

#[test]
fn topics_that_are_made_and_deleted_twice_are_those_of_the_run() {
    let broker = Broker::start(Manner { does_twice: true, ..Manner::default() });
    let found = run(&broker, "records: 1000\nwarmup_seconds: 0");
    assert_eq!((found.verdict.checked(), found.verdict.is_clean()), (1_000, true));
}
