//! Records of groups and of what they committed, as `__consumer_offsets` has them.

use base::TimestampMs;
use coordinator::record::{GroupMetadataValue, OffsetCommitValue};
use coordinator::{GroupRecord, ShownRecord};
use serde_json::{Value, json};

use super::line::{shown, time};

/// The name of the topic, and of its directories but for the partition's number.
const TOPIC: &str = "__consumer_offsets";

/// Whether a directory has a partition of that topic.
pub(super) fn is_theirs(dir: &str) -> bool {
    let partition = dir.strip_prefix(TOPIC).and_then(|rest| rest.strip_prefix('-'));
    partition.is_some_and(|number| number.parse::<u32>().is_ok())
}

/// The key and the value of a record; `None` if it is none of a kind that is known.
pub(super) fn read(key: Option<&[u8]>, value: Option<&[u8]>) -> Option<(Value, Value)> {
    let key = key?;
    let record = GroupRecord::decode(key, value).ok()?;
    if let Some(GroupRecord::OffsetCommit { group, topic, partition, value }) = &record {
        let key = json!({ "type": "OffsetCommit", "group": group, "topic": topic, "partition": partition });
        return Some((key, value.as_ref().map_or(Value::Null, offset)));
    }
    if let Some(GroupRecord::GroupMetadata { group, value }) = &record {
        let key = json!({ "type": "GroupMetadata", "group": group });
        return Some((key, value.as_ref().map_or(Value::Null, members)));
    }
    let ShownRecord { key, value } = ShownRecord::read(key, value).ok()??;
    Some((json!(key), value.map_or(Value::Null, |value| json!(value))))
}

fn offset(value: &OffsetCommitValue) -> Value {
    json!({
        "offset": value.offset,
        "leader_epoch": value.leader_epoch,
        "metadata": value.metadata,
        "committed": time(TimestampMs(value.commit_timestamp)),
        "expires": time(TimestampMs(value.expire_timestamp)),
        "topic_id": if value.topic_id.is_zero() { Value::Null } else { json!(value.topic_id.to_string()) },
    })
}

fn members(value: &GroupMetadataValue) -> Value {
    let members = value.members.iter().map(|member| {
        json!({
            "member": member.member_id,
            "instance": member.group_instance_id,
            "client": member.client_id,
            "host": member.client_host,
            "rebalance_timeout_ms": member.rebalance_timeout,
            "session_timeout_ms": member.session_timeout,
            "subscription": shown(Some(&member.subscription)),
            "assignment": shown(Some(&member.assignment)),
        })
    });
    json!({
        "protocol_type": value.protocol_type,
        "generation": value.generation,
        "protocol": value.protocol,
        "leader": value.leader,
        "since": time(TimestampMs(value.current_state_timestamp)),
        "members": members.collect::<Vec<_>>(),
    })
}
