//! DescribeQuorum: asked of anyone.

use base::{BrokerId, ErrorCode, LeaderEpoch, Offset, TimestampMs, Uuid};
use wire::messages::describe_quorum::{
    DescribeQuorumRequest, DescribeQuorumRequestPartitionData, DescribeQuorumRequestTopicData, Node,
    ReplicaState,
};

use super::{Ask, Each, How, Name, Refusal, Response, Route};

const METADATA_TOPIC: &str = "__cluster_metadata";

/// Who keeps the cluster's metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuorumDescription {
    /// Who leads: the active controller.
    pub leader: BrokerId,
    /// The number of that leadership.
    pub leader_epoch: LeaderEpoch,
    /// The offset behind the last record that is committed.
    pub high_watermark: Offset,
    /// Who votes, by number.
    pub voters: Vec<QuorumMember>,
    /// Who only follows, by number.
    pub observers: Vec<QuorumMember>,
}

/// One who has the metadata log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuorumMember {
    /// Its number.
    pub id: BrokerId,
    /// The directory that has its log; the zero id where it is not said.
    pub directory: Uuid,
    /// Where its log ends.
    pub log_end: Offset,
    /// When it asked for more last.
    pub fetched_at: Option<TimestampMs>,
    /// When it had last all that there was.
    pub caught_up_at: Option<TimestampMs>,
    /// Where other nodes reach it: the name of the listener, host, port; if that is said.
    pub endpoint: Option<(String, String, u16)>,
}

/// Says who keeps the cluster's metadata.
#[derive(Debug)]
pub struct DescribeQuorum;

impl Ask for DescribeQuorum {
    type Item = ();
    type Said = QuorumDescription;
    type Request<'a> = DescribeQuorumRequest<'a>;

    fn is_change(&self) -> bool {
        false
    }

    fn name<'a>(&self, (): &'a ()) -> Name<'a> {
        Name::Whole("the quorum")
    }

    fn route<'a>(&self, (): &'a ()) -> Route<'a> {
        Route::Any
    }

    fn request<'a>(&'a self, _: &[&'a ()], _: &How<'_>) -> DescribeQuorumRequest<'a> {
        let partitions = vec![DescribeQuorumRequestPartitionData { partition_index: 0 }];
        let topic = DescribeQuorumRequestTopicData { topic_name: METADATA_TOPIC, partitions };
        DescribeQuorumRequest { topics: vec![topic] }
    }

    fn read<'f>(&self, said: &Response<'f, Self>, each: Each<'_, 'f, Self>) -> i32 {
        let quorum = Refusal::check(said.error_code, said.error_message).and_then(|()| {
            let partition = said.topics.first().and_then(|topic| topic.partitions.first());
            let none = Refusal { code: ErrorCode::UnknownServerError, message: None };
            let partition = partition.ok_or(none)?;
            Refusal::check(partition.error_code, partition.error_message)?;
            let members = |them: &[ReplicaState]| {
                let mut members: Vec<QuorumMember> = them.iter().map(|it| member(it, &said.nodes)).collect();
                members.sort_by_key(|member| member.id);
                members
            };
            Ok(QuorumDescription {
                leader: BrokerId(partition.leader_id),
                leader_epoch: LeaderEpoch(partition.leader_epoch),
                high_watermark: Offset(partition.high_watermark),
                voters: members(&partition.current_voters),
                observers: members(&partition.observers),
            })
        });
        each(Name::All, quorum);
        0
    }
}

fn member(said: &ReplicaState, nodes: &[Node<'_>]) -> QuorumMember {
    let node = nodes.iter().find(|node| node.node_id == said.replica_id);
    let listener = node.and_then(|node| node.listeners.first());
    let time = |ms: i64| (ms >= 0).then_some(TimestampMs(ms));
    QuorumMember {
        id: BrokerId(said.replica_id),
        directory: said.replica_directory_id,
        log_end: Offset(said.log_end_offset),
        fetched_at: time(said.last_fetch_timestamp),
        caught_up_at: time(said.last_caught_up_timestamp),
        endpoint: listener.map(|it| (it.name.to_owned(), it.host.to_owned(), it.port)),
    }
}
