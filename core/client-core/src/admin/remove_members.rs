//! LeaveGroup for others (KIP-345): asked of the group's coordinator.

use wire::messages::leave_group::{LeaveGroupRequest, MemberIdentity};

use super::{Ask, Each, How, Name, Refusal, Response, Route};

/// From here on LeaveGroup names several members; the reason can be said from 5 on.
const VERSION_BATCHED_MIN: i16 = 3;
const VERSION_REASON_MIN: i16 = 5;

/// Who is to be removed from a group: static members by their instance ids, others by their member ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberRef {
    /// What the coordinator calls it.
    Member(String),
    /// `group.instance.id`.
    Instance(String),
}

/// Removes members from a group. They come back unless they were stopped.
#[derive(Debug)]
pub struct RemoveMembers {
    /// `group.id`.
    pub group_id: String,
}

impl Ask for RemoveMembers {
    type Item = MemberRef;
    type Said = ();
    type Request<'a> = LeaveGroupRequest<'a>;

    fn is_change(&self) -> bool {
        true
    }

    fn name<'a>(&self, member: &'a MemberRef) -> Name<'a> {
        match member {
            MemberRef::Member(id) => Name::Member(id),
            MemberRef::Instance(id) => Name::Instance(id),
        }
    }

    fn route<'a>(&'a self, _: &'a MemberRef) -> Route<'a> {
        Route::Coordinator(&self.group_id)
    }

    fn version_min(&self, _: &MemberRef) -> i16 {
        VERSION_BATCHED_MIN
    }

    fn request<'a>(&'a self, members: &[&'a MemberRef], how: &How<'_>) -> LeaveGroupRequest<'a> {
        let members = members.iter().map(|member| {
            let (member_id, group_instance_id) = match member {
                MemberRef::Member(id) => (id.as_str(), None),
                MemberRef::Instance(id) => ("", Some(id.as_str())),
            };
            let reason = (how.version >= VERSION_REASON_MIN).then_some("removed by an administrator");
            MemberIdentity { member_id, group_instance_id, reason }
        });
        LeaveGroupRequest { group_id: &self.group_id, member_id: "", members: members.collect() }
    }

    fn read<'f>(&self, said: &Response<'f, Self>, each: Each<'_, 'f, Self>) -> i32 {
        if let Err(refusal) = Refusal::check(said.error_code, None) {
            each(Name::All, Err(refusal));
        }
        for member in &said.members {
            let gone = Refusal::check(member.error_code, None);
            // It was asked for by one of them.
            if let Some(id) = member.group_instance_id {
                each(Name::Instance(id), gone.clone());
            }
            each(Name::Member(member.member_id), gone);
        }
        said.throttle_time_ms
    }
}
