//! A classic group as it is shown to people.

use std::sync::Arc;

use super::member::Member;
use super::{ClassicGroup, State};
use crate::response::{DescribedGroup, DescribedMember};

impl ClassicGroup {
    /// Who is in it. What members want and have is shown once it is settled.
    pub(crate) fn describe(&self) -> DescribedGroup {
        let protocol = self.protocol.as_ref().filter(|_| self.state == State::Stable);
        let member = |(id, member): (&Arc<str>, &Member)| DescribedMember {
            member_id: id.clone(),
            instance: member.instance.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            metadata: protocol.and_then(|it| member.metadata(it)).cloned().unwrap_or_default(),
            assignment: protocol.map(|_| member.assignment.clone()).unwrap_or_default(),
        };
        DescribedGroup {
            group: self.id.clone(),
            state: self.state.name(),
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            protocol: protocol.cloned().unwrap_or_default(),
            members: self.members.iter().map(member).collect(),
            ..DescribedGroup::default()
        }
    }
}
