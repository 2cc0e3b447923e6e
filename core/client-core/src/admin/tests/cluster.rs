//! Leaders, moves, the quorum, and who is in it.

use base::Uuid;
use wire::Request;
use wire::messages::add_raft_voter::{AddRaftVoterRequest, AddRaftVoterResponse};
use wire::messages::alter_partition_reassignments::{
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse, ReassignablePartitionResponse,
    ReassignableTopicResponse,
};
use wire::messages::describe_cluster::{
    DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse,
};
use wire::messages::describe_quorum::{
    DescribeQuorumRequest, DescribeQuorumResponse, DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData, Listener, Node, ReplicaState,
};
use wire::messages::elect_leaders::{
    ElectLeadersRequest, ElectLeadersResponse, PartitionResult, ReplicaElectionResult,
};
use wire::messages::list_partition_reassignments::{
    ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse, OngoingPartitionReassignment,
    OngoingTopicReassignment,
};
use wire::messages::update_features::{UpdateFeaturesRequest, UpdateFeaturesResponse};

use super::*;

impl Brokers {
    /// Answers the oldest request; who was asked, and what `look` saw.
    pub(super) fn reply<'m, 'a, R: Request<'m>, T>(
        &mut self,
        frame: &'m mut Vec<u8>,
        look: impl FnOnce(&R) -> T,
        said: &impl Message<'a>,
    ) -> (String, T) {
        let bytes = self.asked.first().expect("somebody was asked").2.clone();
        let (connection, by, request) = self.asked::<R>(R::KEY, frame);
        let seen = look(&request);
        self.answer(connection, &bytes, said);
        self.settle();
        (by, seen)
    }
}

fn part(topic: &str, partition: i32) -> PartitionOf {
    PartitionOf { topic: topic.to_owned(), partition: PartitionIndex(partition) }
}

#[test]
fn an_election_that_need_not_or_cannot_be_is_no_error() {
    let mut brokers = Brokers::new();
    let elect = ElectLeaders { is_unclean: false };
    let call = brokers.begin(elect, vec![part("a", 0), part("a", 1), part("b", 0), part("b", 7)]);
    let result = |partition_id, code: ErrorCode| PartitionResult {
        partition_id,
        error_code: code.code(),
        ..PartitionResult::default()
    };
    let a = vec![result(0, ErrorCode::None), result(1, ErrorCode::ElectionNotNeeded)];
    let unknown = ErrorCode::UnknownTopicOrPartition;
    let b = vec![result(0, ErrorCode::PreferredLeaderNotAvailable), result(7, unknown)];
    let said = ElectLeadersResponse {
        replica_election_results: vec![
            ReplicaElectionResult { topic: "a", partition_result: a },
            ReplicaElectionResult { topic: "b", partition_result: b },
        ],
        ..ElectLeadersResponse::default()
    };
    let asked = |request: &ElectLeadersRequest<'_>| {
        let topics = request.topic_partitions.iter().flatten();
        topics.map(|topic| (topic.topic.to_owned(), topic.partitions.clone())).collect::<Vec<_>>()
    };
    let (by, asked) = brokers.reply(&mut Vec::new(), asked, &said);
    assert_eq!(by, "two", "the controller");
    assert_eq!(asked, [("a".to_owned(), vec![0, 1]), ("b".to_owned(), vec![0, 7])]);
    let results = brokers.take(&call);
    assert_eq!(results[0], Ok(Election::Changed));
    assert_eq!(results[1], Ok(Election::NotNeeded));
    assert_eq!(results[2], Ok(Election::NotPossible(ErrorCode::PreferredLeaderNotAvailable)));
    assert_eq!(results[3].as_ref().err().and_then(AdminError::code), Some(unknown));
}

#[test]
fn each_move_has_its_own_end() {
    let mut brokers = Brokers::new();
    let to = |topic: &str, partition, replicas: Option<&[i32]>| Reassignment {
        topic: topic.to_owned(),
        partition: PartitionIndex(partition),
        replicas: replicas.map(|ids| ids.iter().copied().map(BrokerId).collect()),
    };
    let call = brokers.begin(AlterReassignments, vec![to("a", 0, Some(&[2, 1])), to("a", 1, None)]);
    let result = |partition_index, code: ErrorCode| ReassignablePartitionResponse {
        partition_index,
        error_code: code.code(),
        error_message: None,
    };
    let parts = vec![result(0, ErrorCode::None), result(1, ErrorCode::NoReassignmentInProgress)];
    let said = AlterPartitionReassignmentsResponse {
        responses: vec![ReassignableTopicResponse { name: "a", partitions: parts }],
        ..AlterPartitionReassignmentsResponse::default()
    };
    let asked = |request: &AlterPartitionReassignmentsRequest<'_>| {
        let [topic] = request.topics.as_slice() else { panic!("{request:?}") };
        topic.partitions.iter().map(|it| it.replicas.clone()).collect::<Vec<_>>()
    };
    let (_, asked) = brokers.reply(&mut Vec::new(), asked, &said);
    assert_eq!(asked, [Some(vec![2, 1]), None]);
    let results = brokers.take(&call);
    assert_eq!(results[0], Ok(()));
    let code = results[1].as_ref().err().and_then(AdminError::code);
    assert_eq!(code, Some(ErrorCode::NoReassignmentInProgress));
}

#[test]
fn what_is_on_its_way_is_listed_in_order() {
    let mut brokers = Brokers::new();
    let call = brokers.begin(ListReassignments, vec![()]);
    let of = |name, partition_index| OngoingTopicReassignment {
        name,
        partitions: vec![OngoingPartitionReassignment {
            partition_index,
            replicas: vec![3, 1, 2],
            adding_replicas: vec![3],
            removing_replicas: vec![2],
        }],
    };
    let said =
        ListPartitionReassignmentsResponse { topics: vec![of("b", 1), of("a", 4)], ..Default::default() };
    brokers.reply(&mut Vec::new(), |_: &ListPartitionReassignmentsRequest<'_>| (), &said);
    let listed = brokers.take(&call).remove(0).expect("it was told");
    let names: Vec<_> = listed.iter().map(|it| (it.topic.as_str(), it.partition.0)).collect();
    assert_eq!(names, [("a", 4), ("b", 1)]);
    assert_eq!((&listed[0].adding, &listed[0].removing), (&vec![BrokerId(3)], &vec![BrokerId(2)]));
}

#[test]
fn a_quorum_is_described_with_where_its_members_are() {
    let mut brokers = Brokers::new();
    let call = brokers.begin(DescribeQuorum, vec![()]);
    let state = |replica_id| ReplicaState {
        replica_id,
        replica_directory_id: Uuid([7; 16]),
        log_end_offset: 9,
        ..ReplicaState::default()
    };
    let partition = DescribeQuorumResponsePartitionData {
        leader_id: 2,
        leader_epoch: 5,
        high_watermark: 8,
        current_voters: vec![state(2), state(1)],
        observers: vec![state(4)],
        ..DescribeQuorumResponsePartitionData::default()
    };
    let topic =
        DescribeQuorumResponseTopicData { topic_name: "__cluster_metadata", partitions: vec![partition] };
    let listener = Listener { name: "CONTROLLER", host: "one", port: 9 };
    let nodes = vec![Node { node_id: 1, listeners: vec![listener] }];
    let said = DescribeQuorumResponse { topics: vec![topic], nodes, ..DescribeQuorumResponse::default() };
    brokers.reply(&mut Vec::new(), |_: &DescribeQuorumRequest<'_>| (), &said);
    let quorum = brokers.take(&call).remove(0).expect("it was told");
    assert_eq!((quorum.leader, quorum.high_watermark), (BrokerId(2), Offset(8)));
    let ids: Vec<i32> = quorum.voters.iter().map(|it| it.id.0).collect();
    assert_eq!(ids, [1, 2]);
    assert_eq!(quorum.voters[0].endpoint, Some(("CONTROLLER".to_owned(), "one".to_owned(), 9)));
    assert_eq!(quorum.observers[0].endpoint, None);
    assert_eq!(quorum.observers[0].fetched_at, None);
}

#[test]
fn one_request_adds_one_voter() {
    let mut brokers = Brokers::new();
    let voter = |id| NewVoter {
        id: BrokerId(id),
        directory: Uuid([7; 16]),
        endpoint: ("CLUSTER".to_owned(), format!("h{id}"), 9),
    };
    let call = brokers.begin(AddVoters, vec![voter(4), voter(5)]);
    let asked = |request: &AddRaftVoterRequest<'_>| {
        assert!(request.ack_when_committed && request.cluster_id.is_none());
        (request.voter_id, request.listeners[0].host.to_owned())
    };
    let said = AddRaftVoterResponse::default();
    assert_eq!(brokers.reply(&mut Vec::new(), asked, &said).1, (4, "h4".to_owned()));
    let duplicate = AddRaftVoterResponse { error_code: ErrorCode::DuplicateVoter.code(), ..said };
    assert_eq!(brokers.reply(&mut Vec::new(), asked, &duplicate).1, (5, "h5".to_owned()));
    let results = brokers.take(&call);
    assert_eq!(results[0], Ok(()));
    assert_eq!(results[1].as_ref().err().and_then(AdminError::code), Some(ErrorCode::DuplicateVoter));
}

#[test]
fn features_change_all_or_none() {
    let mut brokers = Brokers::new();
    let change = |name: &str, way| FeatureChange { name: name.to_owned(), level: 3, way };
    let changes = vec![change("a", FeatureWay::Up), change("b", FeatureWay::DownUnsafely)];
    let call = brokers.begin(UpdateFeatures { is_dry_run: true }, vec![changes]);
    let asked = |request: &UpdateFeaturesRequest<'_>| {
        assert!(request.validate_only);
        request.feature_updates.iter().map(|it| it.upgrade_type).collect::<Vec<_>>()
    };
    let refused = UpdateFeaturesResponse { error_code: 95, error_message: Some("no"), ..Default::default() };
    assert_eq!(brokers.reply(&mut Vec::new(), asked, &refused).1, [1, 3]);
    let said = brokers.take(&call).remove(0).expect_err("it was refused").to_string();
    assert!(said.starts_with("the features: INVALID_UPDATE_VERSION: no"), "{said}");
}

#[test]
fn brokers_that_are_down_are_told_of() {
    let mut brokers = Brokers::new();
    let call = brokers.begin(DescribeCluster, vec![()]);
    let broker = |broker_id, is_fenced| DescribeClusterBroker { broker_id, is_fenced, ..Default::default() };
    let said = DescribeClusterResponse {
        brokers: vec![broker(2, true), broker(1, false)],
        ..DescribeClusterResponse::default()
    };
    let asked = |request: &DescribeClusterRequest| request.include_fenced_brokers;
    assert!(brokers.reply(&mut Vec::new(), asked, &said).1);
    let cluster = brokers.take(&call).remove(0).expect("it was told");
    let fenced: Vec<_> = cluster.brokers.iter().map(|it| (it.id.0, it.is_fenced)).collect();
    assert_eq!(fenced, [(1, false), (2, true)]);
}
