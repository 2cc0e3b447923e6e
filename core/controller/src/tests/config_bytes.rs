//! What all settings may take together.

use metadata::{ConfigChange, MetadataRecord};

use super::*;

fn of_group(name: &str) -> ConfigResource {
    ConfigResource::Group(name.into())
}

/// Groups have settings before they are there, so that a client may name ever new ones.
#[test]
fn settings_find_an_end_and_are_taken_back_behind_it() {
    const NAME: &str = "consumer.heartbeat.interval.ms";
    use ConfigOp::{Delete, Set};
    let mut cluster = Cluster::of(&[1]);
    cluster.alter(of_group("g"), &[(NAME, Set, Some("5000"))]).expect("there is room");
    let most = |i: usize| {
        let (name, value) = ("a".to_owned(), Some("v".repeat(32 << 20)));
        MetadataRecord::Config(ConfigChange { resource: of_group(&i.to_string()), name, value })
    };
    for i in 0..CONFIG_BYTES_MAX >> 25 {
        cluster.controller.replay_batch(&[most(i)], Offset(1_000));
    }
    let mut ask = |group, op, value: Option<&str>| {
        let entries = vec![(NAME.to_owned(), (op, value.map(str::to_owned)))];
        let resources = vec![ResourceConfigs { resource: of_group(group), entries }];
        let command =
            Command::IncrementalAlterConfigs(IncrementalAlterConfigs { resources, validate_only: false });
        let (reply, records) = cluster.controller.handle(NOW, &command).expect("it is decided");
        let Reply::IncrementalAlterConfigs(mut outcomes) = reply else { panic!("{reply:?}") };
        outcomes.pop().expect("one was asked for").map(|()| records.len())
    };
    for (group, value) in [("new", "5000"), ("g", "15000")] {
        let (code, words) = refusal(ask(group, Set, Some(value)));
        assert_eq!(code, ErrorCode::PolicyViolation);
        assert!(words.contains("take 2684"), "{words}");
    }
    let no_more = [ask("g", Set, Some("6000")), ask("g", Delete, None)];
    assert_eq!(no_more, [Ok(1), Ok(1)], "it takes no more than before");
    let refused = cluster.controller.handle(
        NOW,
        &Command::CreateTopics(CreateTopics {
            topics: vec![with_config(topic("a", 1, 1), "retention.ms", Some("5")), topic("b", 1, 1)],
            validate_only: false,
        }),
    );
    let Ok((Reply::CreateTopics(outcomes), _)) = refused else { panic!("{refused:?}") };
    assert!(matches!(outcomes[..], [Err(ControllerError::PolicyViolation(_)), Ok(_)]), "{outcomes:?}");
}
