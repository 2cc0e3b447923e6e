//! Topics that are made because somebody asks for what is in them.

use base::TopicName;
use controller::{Command, CreateTopics, NewTopic};

use crate::call::Context;
use crate::groups::OFFSETS_TOPIC;

/// The command that makes a topic on demand: with the broker's defaults, but that of committed offsets as whoever
/// looks for a coordinator makes it.
pub(super) fn topic(context: &Context<'_>, name: &TopicName) -> Command {
    if name.as_str() == OFFSETS_TOPIC {
        return offsets_topic(context);
    }
    let topic = NewTopic {
        name: name.to_string(),
        partitions: -1,
        replication_factor: -1,
        assignments: Vec::new(),
        configs: Vec::new(),
        random: context.host.random(),
    };
    Command::CreateTopics(CreateTopics { topics: vec![topic], validate_only: false })
}

/// The command that makes the topic of committed offsets. The controller sees to it that it is compacted, never deleted
/// by age, and flushed before anything counts.
pub(super) fn offsets_topic(context: &Context<'_>) -> Command {
    let settings = &context.settings.group;
    let config = |name: &str, value: String| (name.to_owned(), Some(value));
    let topic = NewTopic {
        name: OFFSETS_TOPIC.to_owned(),
        partitions: settings.topic_partitions,
        replication_factor: settings.topic_replication_factor.unwrap_or(-1),
        assignments: Vec::new(),
        configs: vec![
            config("compression.type", "producer".to_owned()),
            config("segment.bytes", settings.topic_segment_bytes.to_string()),
        ],
        random: context.host.random(),
    };
    Command::CreateTopics(CreateTopics { topics: vec![topic], validate_only: false })
}
