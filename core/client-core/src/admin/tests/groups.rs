//! Groups, and the brokers that keep them.

use wire::messages::delete_groups::{DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse};
use wire::messages::find_coordinator::{Coordinator, FindCoordinatorRequest, FindCoordinatorResponse};
use wire::messages::leave_group::{LeaveGroupRequest, LeaveGroupResponse, MemberResponse};
use wire::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitResponse, OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};

use super::*;

/// Which broker keeps a group, or why that is not said.
pub(super) type Kept = (&'static str, Result<i32, ErrorCode>);

impl Brokers {
    /// Says who keeps which groups; which were asked for.
    pub(super) fn say_coordinators(&mut self, kept: &[Kept]) -> Vec<String> {
        let mut frame = Vec::new();
        let bytes = self.asked.first().expect("somebody was asked").2.clone();
        let (connection, _, request) =
            self.asked::<FindCoordinatorRequest<'_>>(ApiKey::FindCoordinator, &mut frame);
        let asked: Vec<String> = request.coordinator_keys.iter().map(|&key| key.to_owned()).collect();
        let found = kept.iter().map(|&(key, who)| Coordinator {
            key,
            node_id: who.unwrap_or(-1),
            host: ["", "one", "two"][who.unwrap_or(0) as usize],
            port: 1,
            error_code: who.err().unwrap_or(ErrorCode::None).code(),
            error_message: None,
        });
        let said = FindCoordinatorResponse { coordinators: found.collect(), ..Default::default() };
        self.answer(connection, &bytes, &said);
        self.settle();
        asked
    }
}

fn deleted<'a>(group_id: &'a str, code: ErrorCode) -> DeleteGroupsResponse<'a> {
    let results = vec![DeletableGroupResult { group_id, error_code: code.code(), error_message: None }];
    DeleteGroupsResponse { results, ..Default::default() }
}

fn groups_of(request: &DeleteGroupsRequest<'_>) -> Vec<String> {
    request.groups_names.iter().map(|&group| group.to_owned()).collect()
}

#[test]
fn each_group_is_asked_for_where_it_is_kept() {
    let mut brokers = Brokers::new();
    let call = brokers.begin(DeleteGroups, ["a", "b", "c"].map(str::to_owned).to_vec());
    let refused = ErrorCode::GroupAuthorizationFailed;
    let asked = brokers.say_coordinators(&[("a", Ok(2)), ("b", Ok(1)), ("c", Err(refused))]);
    assert_eq!(asked, ["a", "b", "c"], "in one request");
    let none = ErrorCode::None;
    let first = brokers.reply(&mut Vec::new(), groups_of, &deleted("b", none));
    let second = brokers.reply(&mut Vec::new(), groups_of, &deleted("a", ErrorCode::NonEmptyGroup));
    assert_eq!(first, ("one".to_owned(), vec!["b".to_owned()]));
    assert_eq!(second, ("two".to_owned(), vec!["a".to_owned()]));
    let codes = brokers.take(&call).into_iter().map(|result| result.err().and_then(|error| error.code()));
    assert_eq!(codes.collect::<Vec<_>>(), [Some(ErrorCode::NonEmptyGroup), None, Some(refused)]);
}

#[test]
fn a_group_that_moved_is_looked_for_again() {
    let mut brokers = Brokers::new();
    let call = brokers.begin(DeleteGroups, vec!["a".to_owned()]);
    brokers.say_coordinators(&[("a", Err(ErrorCode::CoordinatorNotAvailable))]);
    brokers.pass(MINUTE / 60);
    brokers.say_coordinators(&[("a", Ok(2))]);
    let moved = deleted("a", ErrorCode::NotCoordinator);
    assert_eq!(brokers.reply(&mut Vec::new(), groups_of, &moved).0, "two");
    brokers.pass(MINUTE / 60);
    brokers.say_coordinators(&[("a", Ok(1))]);
    let gone = deleted("a", ErrorCode::None);
    assert_eq!(brokers.reply(&mut Vec::new(), groups_of, &gone).0, "one");
    assert_eq!(brokers.take(&call), [Ok(())]);
}

#[test]
fn offsets_are_set_where_nobody_reads() {
    use crate::group::OffsetAndMetadata;
    let mut brokers = Brokers::new();
    let to = |partition, offset| OffsetTo {
        topic: "orders".to_owned(),
        partition: PartitionIndex(partition),
        to: OffsetAndMetadata::at(Offset(offset)),
    };
    let ask = AlterGroupOffsets { group_id: "a".to_owned() };
    let call = brokers.begin(ask, vec![to(0, 7), to(1, 8)]);
    brokers.say_coordinators(&[("a", Ok(1))]);
    let part = |partition_index, code: ErrorCode| OffsetCommitResponsePartition {
        partition_index,
        error_code: code.code(),
    };
    let partitions = vec![part(0, ErrorCode::None), part(1, ErrorCode::UnknownMemberId)];
    let topics = vec![OffsetCommitResponseTopic { name: "orders", partitions, ..Default::default() }];
    let said = OffsetCommitResponse { topics, ..Default::default() };
    let look = |request: &OffsetCommitRequest<'_>| {
        assert_eq!((request.group_id, request.member_id), ("a", ""));
        assert_eq!(request.generation_id_or_member_epoch, -1);
        request.topics[0].partitions.iter().map(|part| part.committed_offset).collect::<Vec<_>>()
    };
    assert_eq!(brokers.reply(&mut Vec::new(), look, &said).1, [7, 8]);
    let results = brokers.take(&call);
    assert_eq!(results[0], Ok(()));
    assert_eq!(results[1].as_ref().err().and_then(AdminError::code), Some(ErrorCode::UnknownMemberId));
}

#[test]
fn members_are_removed_by_either_name() {
    let mut brokers = Brokers::new();
    let members = vec![MemberRef::Instance("x".to_owned()), MemberRef::Member("m-2".to_owned())];
    let call = brokers.begin(RemoveMembers { group_id: "a".to_owned() }, members);
    brokers.say_coordinators(&[("a", Ok(1))]);
    let member = |member_id, group_instance_id, code: ErrorCode| MemberResponse {
        member_id,
        group_instance_id,
        error_code: code.code(),
    };
    let gone = member("m-1", Some("x"), ErrorCode::None);
    let unknown = member("m-2", None, ErrorCode::UnknownMemberId);
    let said = LeaveGroupResponse { members: vec![unknown, gone], ..Default::default() };
    let look = |request: &LeaveGroupRequest<'_>| request.members.len();
    assert_eq!(brokers.reply(&mut Vec::new(), look, &said).1, 2);
    let results = brokers.take(&call);
    assert_eq!(results[0], Ok(()));
    assert_eq!(results[1].as_ref().err().and_then(AdminError::code), Some(ErrorCode::UnknownMemberId));
}

#[test]
fn whoever_keeps_groups_is_told() {
    let mut brokers = Brokers::new();
    let call = brokers.begin(FindCoordinators, ["a", "b"].map(str::to_owned).to_vec());
    let refused = ErrorCode::GroupAuthorizationFailed;
    assert_eq!(brokers.say_coordinators(&[("b", Err(refused)), ("a", Ok(2))]), ["a", "b"]);
    let results = brokers.take(&call);
    let kept = results[0].as_ref().map(|it| (it.id, it.host.as_str(), it.port));
    assert_eq!(kept, Ok((BrokerId(2), "two", 1)));
    assert_eq!(results[1].as_ref().err().and_then(AdminError::code), Some(refused));
}

#[test]
fn times_are_asked_of_each_leader_once() {
    use wire::messages::fetch::{FetchRequest, FetchResponse, FetchableTopicResponse, PartitionData};
    let mut brokers = Brokers::new();
    brokers.leaders = vec![1, 2, 1];
    let place = |partition, offset| Place {
        topic: "orders".to_owned(),
        partition: PartitionIndex(partition),
        offset: Offset(offset),
    };
    let places = vec![place(0, 7), place(1, 8), place(2, 9)];
    let call = brokers.begin(RecordTimes { batch_bytes_max: 100 }, places);
    let look = |request: &FetchRequest<'_>| {
        let parts = request.topics.iter().flat_map(|topic| &topic.partitions);
        parts.map(|part| (part.partition, part.fetch_offset, part.partition_max_bytes)).collect::<Vec<_>>()
    };
    let part = |partition_index, code: ErrorCode| PartitionData {
        partition_index,
        error_code: code.code(),
        ..PartitionData::default()
    };
    let said = |partitions| FetchResponse {
        responses: vec![FetchableTopicResponse { topic: "orders", partitions, ..Default::default() }],
        ..FetchResponse::default()
    };
    let first = said(vec![part(0, ErrorCode::None), part(2, ErrorCode::OffsetOutOfRange)]);
    let asked = brokers.reply(&mut Vec::new(), look, &first);
    assert_eq!(asked, ("one".to_owned(), vec![(0, 7, 100), (2, 9, 100)]));
    let asked = brokers.reply(&mut Vec::new(), look, &said(vec![part(1, ErrorCode::None)]));
    assert_eq!(asked, ("two".to_owned(), vec![(1, 8, 100)]));
    let results = brokers.take(&call);
    assert_eq!((&results[0], &results[1]), (&Ok(None), &Ok(None)), "no batch is there");
    assert_eq!(results[2].as_ref().err().and_then(AdminError::code), Some(ErrorCode::OffsetOutOfRange));
}
