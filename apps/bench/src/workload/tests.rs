//! Files that are read, and files that are refused.

use super::*;

fn read(text: &str) -> Result<Experiment> {
    Experiment::read("w.yaml", text, false)
}

fn refusal(text: &str) -> String {
    match read(text) {
        Ok(_) => format!("{text} was taken"),
        Err(error) => format!("{error:#}"),
    }
}

#[test]
fn a_list_is_a_point_for_each_value() {
    let experiment = read(
        "name: two\npartitions: 6\nacks: [1, all]\nproducer:\n  linger.ms: [0, 5, 10]\n  batch.size: 16384\nrate: max\n",
    )
    .expect("it is right");
    let axes: Vec<_> = experiment.axes.iter().map(|axis| (&*axis.field, axis.values.len())).collect();
    assert_eq!(axes, [("acks", 2), ("producer/linger.ms", 3)]);
    let points: Vec<_> = experiment
        .points
        .iter()
        .map(|point| (&*point.workload.acks, &*point.workload.producer["linger.ms"]))
        .collect();
    assert_eq!(points, [("1", "0"), ("1", "5"), ("1", "10"), ("all", "0"), ("all", "5"), ("all", "10")]);
    let last = &experiment.points[5];
    assert_eq!(last.at, [("acks".to_owned(), "all".into()), ("producer/linger.ms".to_owned(), 10.into())]);
    assert_eq!(last.workload.producer["batch.size"], "16384");
    assert_eq!((last.workload.partitions, last.workload.record_bytes), (6, 100));
}

#[test]
fn a_short_run_is_another_one_and_says_so() {
    let text = "name: a\nrecords: 50000000\nquick:\n  records: 1000\n  record_bytes: [10, 100]\n";
    let full = read(text).expect("it is right");
    assert_eq!(
        (full.is_quick, full.points.len(), full.points[0].workload.records),
        (false, 1, Some(50_000_000))
    );
    let quick = Experiment::read("w.yaml", text, true).expect("it is right");
    assert_eq!(
        (quick.is_quick, quick.points.len(), quick.points[1].workload.records),
        (true, 2, Some(1_000))
    );
    assert_eq!(
        quick.notes,
        ["short form: records 1000 instead of 50000000, record_bytes [10,100] instead of 100"]
    );
    let error =
        Experiment::read("w.yaml", "name: a\n", true).expect_err("there is no short form").to_string();
    assert_eq!(error, "w.yaml has no `quick:`: it says nothing of a short run");
}

#[test]
fn rates_are_numbers_ramps_or_max() {
    let rate =
        |text: &str| read(&format!("name: a\nrate: {text}\n")).map(|read| read.points[0].workload.rate);
    assert_eq!(rate("max").expect("it is right"), Pace::Max);
    for text in ["5000", "0.5", "1000:50000:60", "150%", "12.5%"] {
        let pace = rate(text).expect("it is right");
        assert_eq!(pace.to_string(), text);
        let again: Pace = serde_json::from_value(pace.into()).expect("it is written as it is read");
        assert_eq!(again, pace);
    }
    for text in ["0", "-1", "fast", "1:2", "0%", "x%"] {
        assert!(
            refusal(&format!("name: a\nrate: {text}")).starts_with("w.yaml:2: rate: expected records"),
            "{text}"
        );
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let cases = [
        ("partition: 6", "w.yaml:2: unknown field `partition`: did you mean `partitions`?"),
        ("quick: {record: 1}", "w.yaml: unknown field `record`: did you mean `records`?"),
        ("partitions: []", "w.yaml: partitions: the list is empty"),
        ("partitions: [[1]]", "w.yaml: partitions: a list of lists"),
        ("partitions: 0", "w.yaml: partitions: 0 is not between 1 and 100000"),
        ("replication_factor: 3", "w.yaml: replication_factor: 3 is not between 1 and 1"),
        ("acks: most", "w.yaml: acks: most is neither 0, 1 nor all"),
        ("keys: some", "w.yaml: keys: expected none, round-robin:N"),
        ("stored: true", "w.yaml: stored: nobody reads what is stored"),
        ("one_at_a_time: true", "w.yaml: one_at_a_time: it takes one producer and one consumer"),
        (
            "stored: true\nconsumers: 1\nrecords: 5\nrate: 500",
            "w.yaml: stored: what is stored is written and read",
        ),
        (
            "stored: true\nconsumers: 1\nrecords: 5\nrate: 50%",
            "w.yaml: stored: what is stored is written and read",
        ),
        ("arrivals: poisson", "w.yaml: arrivals: poisson is of records that are due at a rate"),
        (
            "one_at_a_time: true\nconsumers: 1\ntopics: 2",
            "w.yaml: one_at_a_time: all records go to one topic, and none to the others of 2",
        ),
        (
            "one_at_a_time: true\nconsumers: 1\nrecords_max: 5",
            "w.yaml: one_at_a_time: records_max would not end it",
        ),
        (
            "one_at_a_time: true\nconsumers: 1\nmay_give_up: true",
            "w.yaml: one_at_a_time: may_give_up would change nothing",
        ),
        ("search: {p99_ms: 0}", "w.yaml: search: p99_ms: not above 0"),
        ("search: {within: 0.01}\nrate: 5", "w.yaml: search: it finds the rate"),
        ("search: {p99: 1}", "w.yaml:2: search: unknown field `p99`"),
        ("seconds: 0", "w.yaml: seconds: nothing is measured in no time"),
        ("stop_on_time: true\nrecords: 5", "w.yaml: stop_on_time: how long it sends"),
        ("ceiling: {disk_bytes: 0}", "w.yaml: ceiling: nothing is measured with no bytes"),
        (
            "ceiling: {disk_bytes: [5, 6]}",
            "w.yaml: ceiling: the machine is measured once, and ceiling/disk_bytes has 2 values",
        ),
        (
            "ceiling: {disk_bytes: 5}\nproducers: [1, 2, 3]",
            "w.yaml: ceiling: the machine is measured once, and producers has 3 values",
        ),
        ("topic: {retention.ms: {}}", "w.yaml:2: topic: retention.ms: expected a text or a number"),
    ];
    for (line, expected) in cases {
        let said = refusal(&format!("name: a\n{line}\n"));
        assert!(said.starts_with(expected), "{line}: {said}");
    }
    let many =
        "name: a\npartitions: [1,2,3,4,5,6,7,8]\nrecord_bytes: [1,2,3,4,5,6,7,8]\nproducers: [1,2,3,4,5]\n";
    assert!(refusal(many).contains("its lists make 320 points"), "{}", refusal(many));
}

#[test]
fn chance_has_its_say_wherever_records_are_due() {
    for rate in ["rate: 500", "rate: 1:500:10", "rate: 50%", "search: {}"] {
        let experiment = read(&format!("name: a\narrivals: poisson\n{rate}\n")).expect(rate);
        assert_eq!(experiment.points[0].workload.arrivals, "poisson", "{rate}");
    }
}

#[test]
fn a_workload_of_the_openmessaging_benchmark_is_read() {
    let text = "\
name: 2 topics / 16 partitions / 1kb
topics: 2
partitionsPerTopic: 16
keyDistributor: \"KEY_ROUND_ROBIN\"
messageSize: 1024
useRandomizedPayloads: true
randomBytesRatio: 0.5
randomizedPayloadPoolSize: 1000
subscriptionsPerTopic: 1
consumerPerSubscription: 4
producersPerTopic: 4
producerRate: 50000
consumerBacklogSizeGB: 0
testDurationMinutes: 15
";
    let experiment = read(text).expect("it is right");
    let Workload { topics, partitions, record_bytes, payload, keys, producers, consumers, .. } =
        experiment.points[0].workload.clone();
    assert_eq!((topics, partitions, record_bytes, producers, consumers), (2, 16, 1024, 8, 8));
    assert_eq!((&*payload, &*keys), ("share:0.5", "round-robin:10000"));
    let Workload { rate, seconds, warmup_seconds, .. } = &experiment.points[0].workload;
    assert_eq!((rate.to_string(), *seconds, *warmup_seconds), ("50000".to_owned(), 900.0, 60.0));
    let searching =
        read(&text.replace("50000", "0").replace("useRandomizedPayloads: true", "payloadFile: p.data"));
    let searching = searching.expect("it is right");
    assert_eq!((searching.notes.len(), searching.points[0].workload.search), (4, Some(Goal::default())));
    let draining = read(&text.replace("SizeGB: 0", "SizeGB: 10")).expect("it is right");
    let Workload { stored, records, .. } = draining.points[0].workload;
    assert_eq!((stored, records, draining.notes.len()), (true, Some(10 << 20), 5));
    let of_time = "testDurationMinutes 15: it ends once the backlog is read, however long that takes";
    assert!(draining.notes.iter().any(|note| note == of_time), "{:?}", draining.notes);
    let cases = [
        ("messageSize", "mesageSize", "w.yaml:5: unknown field `mesageSize`: did you mean `messageSize`?"),
        ("KEY_ROUND_ROBIN", "KEYS", "w.yaml: keyDistributor: KEYS is neither"),
    ];
    for (from, to, expected) in cases {
        let said = refusal(&text.replace(from, to));
        assert!(said.starts_with(expected), "{to}: {said}");
    }
}

#[test]
fn a_payload_file_is_found_from_the_folder_that_has_that_of_the_workload_in_it() {
    let folder = tempfile::tempdir().expect("there is a place for files");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("it has a folder")).expect("it can be made");
        std::fs::write(&path, text).expect("it can be written");
        path
    };
    write("payload/payload-40b.data", &"abcd".repeat(10));
    let text = "name: w\nmessageSize: 100\nproducerRate: 10\npayloadFile: payload/payload-40b.data\n";
    let found = Experiment::open(&write("workloads/w.yaml", text), false).expect("it is right");
    let workload = &found.points[0].workload;
    assert!(workload.payload.starts_with("file:") && workload.is_filled(), "{}", workload.payload);
    assert_eq!((workload.record_bytes, found.notes.len()), (40, 3), "{:?}", found.notes);
    let elsewhere =
        Experiment::open(&write("w.yaml", &text.replace("40b", "1kb")), false).expect("it is right");
    assert_eq!((&*elsewhere.points[0].workload.payload, elsewhere.notes.len()), ("letters", 3));
}

/// The one file of theirs that says how records get their keys; the others leave it at that.
const SAYS_KEYS: &str = "1-topic-1-partition-1kb";

/// A file of theirs with what a line of the table says.
fn file_of(line: &str) -> Option<String> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let &[
        topics,
        partitions,
        bytes,
        payload,
        subscriptions,
        producers,
        consumers,
        rate,
        backlog,
        minutes,
        name,
    ] = &fields[..]
    else {
        return None;
    };
    let payload = match payload {
        "random" => "useRandomizedPayloads: true\nrandomBytesRatio: 0.5\nrandomizedPayloadPoolSize: 1000",
        _ => "payloadFile: \"payload/payload-1Kb.data\"",
    };
    let keys = if name == SAYS_KEYS { "keyDistributor: \"NO_KEY\"\n" } else { "" };
    Some(format!(
        "name: {name}\n\ntopics: {topics}\npartitionsPerTopic: {partitions}\n{keys}messageSize: {bytes}\n{payload}\n\
         subscriptionsPerTopic: {subscriptions}\nproducersPerTopic: {producers}\n\
         consumerPerSubscription: {consumers}\nproducerRate: {rate}\nconsumerBacklogSizeGB: {backlog}\n\
         testDurationMinutes: {minutes}\n"
    ))
}

#[test]
fn all_published_workloads_of_the_openmessaging_benchmark_are_read() {
    let table = include_str!("../../testdata/openmessaging.txt");
    let lines: Vec<&str> = table.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(lines.len() >= 130, "{}", lines.len());
    for line in lines {
        let text = file_of(line).unwrap_or_else(|| panic!("{line}"));
        let experiment = read(&text).unwrap_or_else(|error| panic!("{line}: {error:#}"));
        let Workload { topics, partitions, rate, search, stored, producers, .. } =
            experiment.points[0].workload.clone();
        for (distributor, expected) in
            [("NO_KEY", "none"), ("KEY_ROUND_ROBIN", "round-robin:10000"), ("RANDOM_NANO", "uniform:10000")]
        {
            let keyed = text.replace("keyDistributor: \"NO_KEY\"\n", "")
                + "keyDistributor: \""
                + distributor
                + "\"\n";
            let keyed = read(&keyed).unwrap_or_else(|error| panic!("{line}, {distributor}: {error:#}"));
            let Workload { keys, .. } = &keyed.points[0].workload;
            assert_eq!(keys, expected, "{line}");
        }
        assert_eq!(experiment.points[0].workload.keys, "none", "{line}");
        let said = |at: usize| line.split(' ').nth(at).and_then(|field| field.parse::<f64>().ok());
        assert_eq!((Some(f64::from(topics)), Some(f64::from(partitions))), (said(0), said(1)), "{line}");
        // Each is at a rate, or searches for one, or drains what was stored.
        assert_eq!(stored, said(8) != Some(0.0), "{line}");
        assert_eq!(search.is_some(), !stored && said(7) == Some(0.0), "{line}");
        assert_eq!(rate == Pace::Max, stored || search.is_some(), "{line}");
        let is_capped =
            said(0).zip(said(5)).is_some_and(|(topics, each)| topics * each > f64::from(producers));
        assert_eq!(experiment.notes.iter().any(|note| note.starts_with("producers: ")), is_capped, "{line}");
    }
}
