//! Latencies: how long it takes a broker that knows how long it took.

use std::time::Duration;

use crate::bench::{Truth, longer_than, run};
use crate::broker::{Acknowledged, Broker, Manner};

const SECOND: Duration = Duration::from_secs(1);
const HALF: Duration = Duration::from_millis(500);

/// From when each record was due until its answer was written, and the same from when it came.
fn truth(acknowledged: &[Acknowledged]) -> (Truth, Truth) {
    let of = |from: fn(&Acknowledged, u64) -> Duration| {
        let times = acknowledged.iter().flat_map(move |batch| {
            batch.records.iter().map(move |sent| batch.answered.saturating_sub(from(batch, sent.due_ns)))
        });
        Truth::of(times)
    };
    (of(|_, due_ns| Duration::from_nanos(due_ns)), of(|batch, _| batch.came))
}

/// From when each record was due until the request after the next came, where there is one at a time: a client sends that
/// once it has the next one's answer, and has told of this one's before. Behind the last two there is `end`.
fn at_most(acknowledged: &[Acknowledged], end: Duration) -> Truth {
    let later = acknowledged.iter().skip(2).map(|batch| batch.came).chain([end; 2]);
    Truth::of(acknowledged.iter().zip(later).flat_map(|(batch, later)| {
        batch.records.iter().map(move |sent| later.saturating_sub(Duration::from_nanos(sent.due_ns)))
    }))
}

#[test]
fn percentiles_are_those_of_the_broker() {
    for payload in ["letters", "'template:line {{int 0 9}} of a log'"] {
        for in_flight in [1, 5] {
            percentiles_with(payload, in_flight);
        }
    }
}

fn percentiles_with(payload: &str, in_flight: usize) {
    // Answers take 5 ms, but of 200 records one is in a request that takes 50 ms.
    let delay: fn(u64) -> Duration = |first| Duration::from_millis(if first % 200 == 0 { 50 } else { 5 });
    let broker = Broker::start(Manner { delay: Some(delay), ..Manner::default() });
    let producer = format!("producer: {{max.in.flight.requests.per.connection: {in_flight}}}");
    let workload = format!("rate: 1000\nrecords: 2000\nwarmup_seconds: 0\nconsumers: 1\npayload: {payload}");
    let found = run(&broker, &format!("{producer}\n{workload}"));
    let end = broker.now();
    let acknowledged = broker.acknowledged();
    let written = found.written.expect("records were written").measured;
    let read = found.read.expect("records were read").measured;
    let (from_due, from_coming) = truth(&acknowledged);
    from_due.is_least_of(&written.response, "until acknowledged");
    if in_flight == 1 {
        at_most(&acknowledged, end).is_most_of(&written.response, "until acknowledged");
    }
    from_coming.is_least_of(&written.wire, "on the wire");
    assert!(from_coming.at(0.5) >= 5e6, "it answers as late as it was told to");
    // Due, taken, left, answered: in this order, and so are their times.
    for quantile in [0.1, 0.5, 0.9, 0.99] {
        let at = |found: &hdrhistogram::Histogram<u64>| found.value_at_quantile(quantile) as f64;
        let (response, service, wire) = (at(&written.response), at(&written.service), at(&written.wire));
        // The time of taking is read once for records that are sent within a microsecond or two.
        assert!(response * 1.001 + 4e3 >= service && service * 1.001 + 4e3 >= wire, "{quantile}");
        // Whatever the machine has to do meanwhile, a median is not a tenth of a second off.
        if quantile == 0.5 {
            assert!(response <= from_due.at(0.5) + 1e8, "{response}: the broker took {}", from_due.at(0.5));
        }
    }
    let from_due = Truth::of(broker.read());
    from_due.is_least_of(&read.response, "until read");
    let (told, truth) = (read.response.value_at_quantile(0.5) as f64, from_due.at(0.5));
    assert!(told <= truth + 1e8, "{told}: when the broker let it be read it was {truth} old");
    let first = [written.first, read.first].map(|first| first.unwrap_or_default());
    assert!(
        first.iter().all(|first| *first >= Duration::from_millis(5) && *first < SECOND * 60),
        "{first:?}"
    );
    assert_eq!((written.delay.len(), read.delay.len()), (2_000, 0), "each is taken once");
    assert!(written.delay.max() <= written.response.max(), "what was taken late was acknowledged later");
    assert!(found.verdict.is_clean(), "{}", found.verdict.in_words());
}

#[test]
fn a_broker_that_stalls_is_charged_for_all_that_waited() {
    // One request at a time: what comes during the stall waits in the client, and not on the wire. With room
    // for a few records only, it is the caller who waits.
    for (room, callers_wait) in [(32 << 20, false), (8 << 10, true)] {
        let broker = Broker::start(Manner { stall: Some((1_000, SECOND)), ..Manner::default() });
        let settings = format!(
            "producer: {{max.in.flight.requests.per.connection: 1, batch.size: 2048, buffer.memory: {room}}}"
        );
        let found = run(&broker, &format!("rate: 1000\nrecords: 3000\nwarmup_seconds: 0\n{settings}"));
        let written = found.written.expect("records were written").measured;
        let (end, acknowledged) = (broker.now(), broker.acknowledged());
        let (from_due, from_coming) = truth(&acknowledged);
        from_due.is_least_of(&written.response, "until acknowledged");
        at_most(&acknowledged, end).is_most_of(&written.response, "until acknowledged");
        from_coming.is_least_of(&written.wire, "on the wire");
        // A thousand were due during the stall and waited for a second, for nearly none, and for what lies
        // between: a triangle.
        let waited = longer_than(HALF, &written.response);
        assert!(waited >= 490, "{waited} records waited for half a second or more");
        assert!(written.response.max() >= 999_000_000, "{}", written.response.max());
        let mean = written.response.mean();
        assert!(mean >= 0.98 * 1e9 * 0.5 / 3.0, "{mean}: a sixth of a second is the triangle's share");
        // Times that begin later leave most of that out.
        let on_the_wire = longer_than(HALF, &written.wire);
        assert!(on_the_wire < waited / 2, "{on_the_wire} of {waited}: one request was under way");
        if callers_wait {
            let in_service = longer_than(HALF, &written.service);
            assert!(in_service < waited / 2, "{in_service} of {waited}: there is no room for more");
            assert!(longer_than(HALF, &written.delay) > 0, "it was before they were taken");
            let late = found.punctuality.warning().unwrap_or_default();
            assert!(late.contains("the load fell behind"), "{late}");
        }
    }
}

#[test]
fn what_is_stored_is_read_from_when_readers_begin() {
    let broker = Broker::start(Manner { ends_delay: Some(SECOND), ..Manner::default() });
    let found = run(&broker, "records: 1000\nstored: true\nconsumers: 1");
    let read = found.read.expect("records were read");
    assert_eq!(read.measured.counts.records, 1_000);
    // To be told where everything ends took longer than that, and is no reading.
    assert!(read.seconds < 0.9, "{}", read.seconds);
}

#[test]
fn what_is_sent_in_turn_has_the_size_and_the_settings_that_are_told() {
    let broker = Broker::start(Manner::default());
    let turns =
        "one_at_a_time: true\nconsumers: 1\nrecords: 50\nwarmup_seconds: 0\nproducer: {linger.ms: 20}";
    let found = run(&broker, &format!("{turns}\npayload: 'template:{{{{text 940}}}}'"));
    for flow in [&found.written, &found.read] {
        let counts = flow.as_ref().expect("both are measured").measured.counts;
        assert_eq!((counts.records, counts.bytes), (50, 50 * 940));
    }
    let linger = found.settings.iter().find(|(name, _)| *name == "linger.ms");
    assert_eq!(linger.map(|(_, value)| &**value), Some("0"), "it is sent at once, whatever the file says");
    let stamped = found.stamp.client_settings.get("linger.ms");
    assert!(stamped.is_none_or(|linger| linger == "0"), "{stamped:?}");
}
