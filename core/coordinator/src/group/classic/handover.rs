//! A classic group that becomes one of the new protocol, and the other way (KIP-848): in plain values, which both know.

use std::sync::Arc;

use base::TimestampMs;

use super::lasting::to_millis;
use super::member::{Member, Protocol};
use super::{CONSUMER, ClassicGroup};
use crate::consumer;
use crate::group_record::{GroupRecord, Record};
use crate::record::GroupMetadataValue;
use crate::record::group_metadata::MemberMetadata;

impl ClassicGroup {
    /// The group as it goes on under the new protocol. Who only has an id is not in it.
    pub(crate) fn to_plain(&self) -> consumer::ClassicGroup {
        let protocol = |it: &Protocol| (it.name.to_string(), it.metadata.to_vec());
        let member = |(id, member): (&Arc<str>, &Member)| consumer::ClassicMember {
            id: id.to_string(),
            instance_id: member.instance.as_deref().map(str::to_owned),
            client_id: member.client_id.to_string(),
            client_host: member.client_host.to_string(),
            rebalance_timeout_ms: to_millis(member.rebalance_timeout),
            session_timeout_ms: to_millis(member.session_timeout),
            protocols: member.protocols.iter().map(protocol).collect(),
            assignment: member.assignment.to_vec(),
        };
        consumer::ClassicGroup {
            generation: self.generation,
            protocol: self.protocol.as_deref().unwrap_or_default().to_owned(),
            members: self.members.iter().map(member).collect(),
        }
    }
}

/// The record of a group that comes back from the new protocol with nobody in it, and had nobody since then: what it
/// has committed grows old from there on (ADR 0031).
pub(crate) fn empty_record_of(id: &str, generation: i32, since: TimestampMs) -> Record {
    let value = GroupMetadataValue {
        protocol_type: CONSUMER.to_owned(),
        generation,
        protocol: None,
        leader: None,
        current_state_timestamp: since.0,
        members: Vec::new(),
    };
    GroupRecord::GroupMetadata { group: id, value: Some(value) }.encode()
}

/// The record of a group that comes back from the new protocol. Nobody leads it: whoever loads it has its members
/// choose a leader, which assigns what is no longer assigned for them. In all other records of groups with members
/// somebody does.
pub(crate) fn record_of(id: &str, group: &consumer::ClassicGroup, now: TimestampMs) -> Record {
    let subscription = |member: &consumer::ClassicMember| {
        let found = member.protocols.iter().find(|(name, _)| *name == group.protocol);
        found.map(|(_, metadata)| metadata.clone()).unwrap_or_default()
    };
    let member = |member: &consumer::ClassicMember| MemberMetadata {
        member_id: member.id.clone(),
        group_instance_id: member.instance_id.clone(),
        client_id: member.client_id.clone(),
        client_host: member.client_host.clone(),
        rebalance_timeout: member.rebalance_timeout_ms,
        session_timeout: member.session_timeout_ms,
        subscription: subscription(member),
        assignment: member.assignment.clone(),
    };
    let value = GroupMetadataValue {
        protocol_type: CONSUMER.to_owned(),
        generation: group.generation,
        protocol: Some(group.protocol.clone()),
        leader: None,
        current_state_timestamp: now.0,
        members: group.members.iter().map(member).collect(),
    };
    GroupRecord::GroupMetadata { group: id, value: Some(value) }.encode()
}
