//! Topics in which the cluster keeps its books are compacted and flushed before anything counts, whoever makes them
//! and whatever is asked.

use metadata::{ConfigChange, MetadataRecord};

use super::*;

const BOOKS: [&str; 2] = ["__consumer_offsets", "__transaction_state"];
const ALWAYS: [(&str, &str); 2] = [("cleanup.policy", "compact"), ("flush.policy", "ack")];

/// A cluster whose nodes were told at start to do otherwise.
fn lax() -> Cluster {
    let settings = [("log.cleanup.policy", "delete"), ("flush.policy", "os")];
    let fixed = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    Cluster::new(ControllerSettings { fixed, ..ControllerSettings::default() }, &[1])
}

fn replace(cluster: &mut Cluster, topic: &str, entries: &[(&str, &str)]) -> Result<(), ControllerError> {
    let entries = entries.iter().map(|&(name, value)| (name.to_owned(), Some(value.to_owned())));
    let resources = vec![ResourceConfigs { resource: of_topic(topic), entries: entries.collect() }];
    let command = AlterConfigs { resources, validate_only: false };
    match cluster.run(Command::AlterConfigs(command)) {
        Ok((Reply::AlterConfigs(mut outcomes), _)) => outcomes.pop().expect("one was asked for"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn books_are_made_as_they_always_are() {
    let mut cluster = lax();
    for book in BOOKS {
        cluster.create_one(topic(book, 5, 1)).expect("anybody may make it");
        assert_eq!(cluster.configs(&of_topic(book)), ALWAYS, "{book}");
    }
    cluster.create_one(topic("orders", 5, 1)).expect("legal");
    assert_eq!(cluster.configs(&of_topic("orders")), [], "it is left alone");
}

#[test]
fn books_are_not_made_otherwise() {
    let mut cluster = lax();
    for (name, value) in [
        ("cleanup.policy", "delete"),
        ("cleanup.policy", "compact,delete"),
        ("cleanup.policy", ""),
        ("flush.policy", "os"),
        ("flush.policy", "interval"),
    ] {
        for book in BOOKS {
            let asked = with_config(topic(book, 5, 1), name, Some(value));
            let (code, words) = refusal(cluster.create_one(asked));
            assert_eq!(code, ErrorCode::InvalidConfig, "{name}={value}");
            assert!(words.starts_with(&format!("{name} of {book} is always ")), "{words}");
        }
        cluster.create_one(with_config(topic("orders", 5, 1), name, Some(value))).expect("others may be");
        cluster.delete(vec![by_name("orders")]);
    }
    let asked = with_config(topic(BOOKS[0], 5, 1), "segment.bytes", Some("2000000"));
    cluster.create_one(asked).expect("the rest is free");
    let own = cluster.configs(&of_topic(BOOKS[0]));
    assert_eq!(own, [ALWAYS[0], ALWAYS[1], ("segment.bytes", "2000000")]);
}

/// A data directory of Kafka's has no settings with it.
#[test]
fn books_found_on_a_disk_are_as_they_always_are() {
    let mut cluster = lax();
    for (book, id) in BOOKS.into_iter().zip([5, 6]) {
        let found = FoundPartition { last_epoch: LeaderEpoch(4), directory: Uuid([9; 16]) };
        let partitions = [(PartitionIndex(3), found)].into();
        let id = TopicId(Uuid([id; 16]));
        let adopt = AdoptTopic { name: name(book), id, partitions, broker: BrokerId(1) };
        cluster.run(Command::AdoptTopic(adopt)).expect("nobody has it");
        assert_eq!(cluster.configs(&of_topic(book)), ALWAYS, "{book}");
    }
}

#[test]
fn books_stay_as_they_are() {
    use ConfigOp::{Append, Delete, Set, Subtract};
    let mut cluster = lax();
    for book in BOOKS {
        cluster.create_one(topic(book, 5, 1)).expect("legal");
        for (name, op, value) in [
            ("flush.policy", Set, "os"),
            ("flush.policy", Set, "interval"),
            ("cleanup.policy", Set, "delete"),
            ("cleanup.policy", Append, "delete"),
            ("cleanup.policy", Subtract, "compact"),
        ] {
            let asked = [(name, op, Some(value)), ("retention.ms", Set, Some("5"))];
            let (code, words) = refusal(cluster.alter(of_topic(book), &asked));
            assert_eq!(code, ErrorCode::InvalidConfig, "{name} {op:?} {value}");
            assert!(words.starts_with(&format!("{name} of {book} is always ")), "{words}");
        }
        for asked in [("flush.policy", "os"), ("cleanup.policy", "compact,delete")] {
            let outcome = replace(&mut cluster, book, &[asked, ("retention.ms", "5")]);
            assert_eq!(refusal(outcome).0, ErrorCode::InvalidConfig);
        }
        let records = cluster.log.len();
        // Its default is what it always is.
        let back = [("flush.policy", Delete, None), ("cleanup.policy", Delete, None)];
        cluster.alter(of_topic(book), &back).expect("it stays");
        replace(&mut cluster, book, &[]).expect("it stays");
        replace(&mut cluster, book, &[("cleanup.policy", " compact ")]).expect("it is the same");
        assert_eq!((cluster.log.len(), &cluster.configs(&of_topic(book))[..]), (records, &ALWAYS[..]));

        cluster.alter(of_topic(book), &[("segment.bytes", Set, Some("2000000"))]).expect("the rest is free");
        assert_eq!(cluster.configs(&of_topic(book)).len(), 3);
    }
}

#[test]
fn a_book_that_was_made_otherwise_is_put_right_by_the_next_change() {
    let mut cluster = lax();
    let book = of_topic(BOOKS[0]);
    cluster.create_one(topic(BOOKS[0], 5, 1)).expect("legal");
    let changes = [("cleanup.policy", None), ("flush.policy", Some("os"))].map(|(name, value)| {
        let (name, value) = (name.to_owned(), value.map(str::to_owned));
        MetadataRecord::Config(ConfigChange { resource: book.clone(), name, value })
    });
    cluster.log.extend(changes.iter().cloned());
    let end = Offset(i64::try_from(cluster.log.len()).expect("few"));
    cluster.controller.replay_batch(&changes, end);
    assert_eq!(cluster.configs(&book), [("flush.policy", "os")], "as an earlier version left it");

    let asked = [("segment.bytes", ConfigOp::Set, Some("2000000"))];
    cluster.alter(book.clone(), &asked).expect("nothing wrong was asked for");
    assert_eq!(cluster.configs(&book)[..2], ALWAYS);
}
