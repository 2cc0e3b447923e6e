//! What lasts of a classic group: a record of its generation and of what each member has.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use base::TimestampMs;

use super::member::{Member, Protocol, millis};
use super::{ClassicGroup, State};
use crate::group_record::{GroupRecord, Record};
use crate::outcome::{Cause, Outcome};
use crate::record::GroupMetadataValue;
use crate::record::group_metadata::MemberMetadata;
use crate::settings::Step;

impl ClassicGroup {
    /// Writes the group as it is.
    pub(super) fn write(&mut self, out: &mut Outcome) {
        self.write_due = None;
        out.records.push(self.to_record());
        out.of_group = Some(self.id.clone());
    }

    /// Writes the group as it was written last, with the new id of a static member; whether it was there.
    ///
    /// While a rebalance is on its way, what is here is of no generation that was assigned, and is not written. But the
    /// next coordinator must not take the member for the one that had its place before.
    pub(super) fn write_static_id(&mut self, instance: &str, id: &str, out: &mut Outcome) -> bool {
        let Some(mut value) = self.written.clone() else { return false };
        let found = value.members.iter_mut().find(|it| it.group_instance_id.as_deref() == Some(instance));
        let Some(member) = found else { return false };
        let before = std::mem::replace(&mut member.member_id, id.to_owned());
        if value.leader.as_ref() == Some(&before) {
            value.leader = Some(id.to_owned());
        }
        out.records.push(GroupRecord::GroupMetadata { group: &self.id, value: Some(*value) }.encode());
        out.of_group = Some(self.id.clone());
        true
    }

    /// The record of the group as it is.
    fn to_record(&self) -> Record {
        let protocol = self.protocol.as_deref().unwrap_or_default();
        let member = |(id, member): (&Arc<str>, &Member)| MemberMetadata {
            member_id: id.to_string(),
            group_instance_id: member.instance.as_deref().map(str::to_owned),
            client_id: member.client_id.to_string(),
            client_host: member.client_host.to_string(),
            rebalance_timeout: to_millis(member.rebalance_timeout),
            session_timeout: to_millis(member.session_timeout),
            subscription: member.metadata(protocol).map(|it| it.to_vec()).unwrap_or_default(),
            assignment: member.assignment.to_vec(),
        };
        let value = GroupMetadataValue {
            protocol_type: self.protocol_type.as_deref().unwrap_or_default().to_owned(),
            generation: self.generation,
            protocol: self.protocol.as_deref().map(str::to_owned),
            leader: self.leader.as_deref().map(str::to_owned),
            current_state_timestamp: self.state_since.0,
            members: self.members.iter().map(member).collect(),
        };
        GroupRecord::GroupMetadata { group: &self.id, value: Some(value) }.encode()
    }

    /// A record says what the group is. What no record has of members that are known stays as it is.
    pub(crate) fn replay(&mut self, value: GroupMetadataValue) {
        self.is_written = true;
        self.write_due = None;
        let is_static = |it: &MemberMetadata| it.group_instance_id.is_some();
        self.written = value.members.iter().any(is_static).then(|| Box::new(value.clone()));
        if self.state == State::PreparingRebalance {
            // What was so before the rebalance, under the new id of a static member.
            return;
        }
        self.generation = value.generation;
        self.protocol_type = Some(value.protocol_type).filter(|it| !it.is_empty()).map(Arc::from);
        self.protocol = value.protocol.map(Arc::from);
        self.state_since = TimestampMs(value.current_state_timestamp);
        let names: BTreeSet<&str> = value.members.iter().map(|it| it.member_id.as_str()).collect();
        self.members.retain(|id, _| names.contains(&**id));
        for said in value.members {
            match self.members.get_mut(said.member_id.as_str()) {
                Some(member) => member.learn(said, self.protocol.as_ref()),
                None => {
                    let id = Arc::from(said.member_id.as_str());
                    self.members.insert(id, loaded(said, self.protocol.as_ref()));
                }
            }
        }
        let statics = self.members.iter();
        let statics = statics.filter_map(|(id, member)| Some((member.instance.clone()?, id.clone())));
        self.statics = statics.collect();
        self.is_unled = value.leader.is_none() && !self.members.is_empty();
        let leader: Option<Arc<str>> = value.leader.map(Arc::from);
        let leader = leader.filter(|id| self.members.contains_key(id));
        self.leader = leader.or_else(|| self.members.keys().next().cloned());
        self.state = if self.members.is_empty() { State::Empty } else { State::Stable };
        self.subscribed = self.find_subscribed();
    }

    /// What its record says, unless a rebalance is on its way or it could not be written.
    #[cfg(test)]
    pub(crate) fn settled(&self) -> Option<String> {
        let is_settled = matches!(self.state, State::Empty | State::Stable) && self.write_due.is_none();
        is_settled.then(|| format!("{:?} {:?} {:?}", self.state, self.is_written, self.to_record()))
    }

    /// All that the log says of it was replayed. Its members are given a whole session each: what was heard of them
    /// before is not known here. Those that have no leader since their group came back from the new protocol are to
    /// choose one, whether or not they were told so by a coordinator before.
    pub(crate) fn on_loaded(&mut self, at: &Step<'_>, out: &mut Outcome) {
        self.members.values_mut().for_each(|member| member.touch(at.now.elapsed));
        if self.is_unled {
            self.rebalance(at, Cause::MemberLeft, out);
        }
    }
}

/// A member that nobody has heard here.
fn loaded(said: MemberMetadata, protocol: Option<&Arc<str>>) -> Member {
    let (rebalance_timeout, session_timeout) = timeouts(&said);
    let subscription: Arc<[u8]> = said.subscription.into();
    let protocols = protocol.map(|name| Protocol { name: name.clone(), metadata: subscription });
    Member {
        instance: said.group_instance_id.map(Arc::from),
        client_id: said.client_id.into(),
        client_host: said.client_host.into(),
        rebalance_timeout,
        session_timeout,
        protocols: protocols.into_iter().collect(),
        assignment: said.assignment.into(),
        session_due: Duration::ZERO,
        is_new: false,
        joining: None,
        syncing: None,
        has_synced: true,
        was_passed_over: false,
    }
}

/// How long a member may take to join, and be silent.
fn timeouts(said: &MemberMetadata) -> (Duration, Duration) {
    let session_timeout = millis(said.session_timeout);
    match said.rebalance_timeout {
        // Records of Kafka before 0.10.1 have none.
        ..0 => (session_timeout, session_timeout),
        timeout => (millis(timeout), session_timeout),
    }
}

impl Member {
    /// A later record says what it has, and how it described itself with the protocol that was chosen: what is known of
    /// it is what its last record says, whether or not those before are still in the log.
    fn learn(&mut self, said: MemberMetadata, protocol: Option<&Arc<str>>) {
        (self.rebalance_timeout, self.session_timeout) = timeouts(&said);
        for (known, said) in
            [(&mut self.client_id, said.client_id), (&mut self.client_host, said.client_host)]
        {
            if **known != *said {
                *known = said.into();
            }
        }
        if *self.assignment != *said.assignment {
            self.assignment = said.assignment.into();
        }
        let Some(name) = protocol else { return };
        match self.protocols.iter_mut().find(|it| it.name == *name) {
            Some(known) if *known.metadata == *said.subscription => {}
            Some(known) => known.metadata = said.subscription.into(),
            None => self.protocols.push(Protocol { name: name.clone(), metadata: said.subscription.into() }),
        }
    }
}

pub(super) fn to_millis(time: Duration) -> i32 {
    i32::try_from(time.as_millis()).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A static member came back with other times and from elsewhere, in a rebalance that its coordinator did not see
    /// the end of: under its new id there are two records.
    #[test]
    fn what_is_known_of_a_member_is_what_its_last_record_says() {
        let value = |session_timeout: i32, host: &str| GroupMetadataValue {
            protocol_type: "consumer".to_owned(),
            generation: 1,
            protocol: Some("range".to_owned()),
            leader: Some("a".to_owned()),
            current_state_timestamp: 7,
            members: vec![MemberMetadata {
                member_id: "a".to_owned(),
                client_id: host.to_owned(),
                client_host: host.to_owned(),
                session_timeout,
                ..MemberMetadata::default()
            }],
        };
        let loaded = |values: &[GroupMetadataValue]| {
            let mut group = ClassicGroup::new("g".into());
            values.iter().cloned().for_each(|value| group.replay(value));
            group.settled().expect("it is stable")
        };
        let (old, new) = (value(10_000, "there"), value(60_000, "here"));
        assert_eq!(loaded(&[old, new.clone()]), loaded(&[new]));
    }
}
