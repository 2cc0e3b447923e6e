//! The codec against the kafka-protocol crate, in the versions which that knows.
//!
//! It gets valid bytes only: it allocates what a count says.

use bytes::{Bytes, BytesMut};
use kafka_protocol::protocol::{Decodable, Encodable, Message};

use crate::common::{self, Fill, Random};

const ROUNDS: u64 = 12;

macro_rules! oracles {
    ($($name:ident)*) => {
        &[$((stringify!($name), again::<kafka_protocol::messages::$name>)),*]
    };
}

/// Reads and writes, unless the version is unknown.
type Again = fn(i16, &[u8]) -> Option<Vec<u8>>;

/// Not LeaderChangeMessage and VotersRecord, which that crate cannot read in any version.
const ORACLES: &[(&str, Again)] = oracles![
    AddOffsetsToTxnRequest AddOffsetsToTxnResponse AddPartitionsToTxnRequest AddPartitionsToTxnResponse
    AddRaftVoterRequest AddRaftVoterResponse AllocateProducerIdsRequest AllocateProducerIdsResponse
    AlterClientQuotasRequest AlterClientQuotasResponse AlterConfigsRequest AlterConfigsResponse
    AlterPartitionReassignmentsRequest AlterPartitionReassignmentsResponse AlterPartitionRequest
    AlterPartitionResponse AlterReplicaLogDirsRequest AlterReplicaLogDirsResponse
    AlterShareGroupOffsetsRequest AlterShareGroupOffsetsResponse AlterUserScramCredentialsRequest
    AlterUserScramCredentialsResponse ApiVersionsRequest ApiVersionsResponse AssignReplicasToDirsRequest
    AssignReplicasToDirsResponse BeginQuorumEpochRequest BeginQuorumEpochResponse BrokerHeartbeatRequest
    BrokerHeartbeatResponse BrokerRegistrationRequest BrokerRegistrationResponse
    ConsumerGroupDescribeRequest ConsumerGroupDescribeResponse ConsumerGroupHeartbeatRequest
    ConsumerGroupHeartbeatResponse ConsumerProtocolAssignment ConsumerProtocolSubscription
    ControllerRegistrationRequest ControllerRegistrationResponse CreateAclsRequest CreateAclsResponse
    CreateDelegationTokenRequest CreateDelegationTokenResponse CreatePartitionsRequest
    CreatePartitionsResponse CreateTopicsRequest CreateTopicsResponse DefaultPrincipalData
    DeleteAclsRequest DeleteAclsResponse DeleteGroupsRequest DeleteGroupsResponse DeleteRecordsRequest
    DeleteRecordsResponse DeleteShareGroupOffsetsRequest DeleteShareGroupOffsetsResponse
    DeleteShareGroupStateRequest DeleteShareGroupStateResponse DeleteTopicsRequest DeleteTopicsResponse
    DescribeAclsRequest DescribeAclsResponse DescribeClientQuotasRequest DescribeClientQuotasResponse
    DescribeClusterRequest DescribeClusterResponse DescribeConfigsRequest DescribeConfigsResponse
    DescribeDelegationTokenRequest DescribeDelegationTokenResponse DescribeGroupsRequest
    DescribeGroupsResponse DescribeLogDirsRequest DescribeLogDirsResponse DescribeProducersRequest
    DescribeProducersResponse DescribeQuorumRequest DescribeQuorumResponse
    DescribeShareGroupOffsetsRequest DescribeShareGroupOffsetsResponse DescribeTopicPartitionsRequest
    DescribeTopicPartitionsResponse DescribeTransactionsRequest DescribeTransactionsResponse
    DescribeUserScramCredentialsRequest DescribeUserScramCredentialsResponse ElectLeadersRequest
    ElectLeadersResponse EndQuorumEpochRequest EndQuorumEpochResponse EndTxnMarker EndTxnRequest
    EndTxnResponse EnvelopeRequest EnvelopeResponse ExpireDelegationTokenRequest
    ExpireDelegationTokenResponse FetchRequest FetchResponse FetchSnapshotRequest FetchSnapshotResponse
    FindCoordinatorRequest FindCoordinatorResponse GetTelemetrySubscriptionsRequest
    GetTelemetrySubscriptionsResponse HeartbeatRequest HeartbeatResponse IncrementalAlterConfigsRequest
    IncrementalAlterConfigsResponse InitProducerIdRequest InitProducerIdResponse
    InitializeShareGroupStateRequest InitializeShareGroupStateResponse JoinGroupRequest JoinGroupResponse
    KRaftVersionRecord LeaveGroupRequest LeaveGroupResponse
    ListConfigResourcesRequest ListConfigResourcesResponse ListGroupsRequest ListGroupsResponse
    ListOffsetsRequest ListOffsetsResponse ListPartitionReassignmentsRequest
    ListPartitionReassignmentsResponse ListTransactionsRequest ListTransactionsResponse MetadataRequest
    MetadataResponse OffsetCommitRequest OffsetCommitResponse OffsetDeleteRequest OffsetDeleteResponse
    OffsetFetchRequest OffsetFetchResponse OffsetForLeaderEpochRequest OffsetForLeaderEpochResponse
    ProduceRequest ProduceResponse PushTelemetryRequest PushTelemetryResponse ReadShareGroupStateRequest
    ReadShareGroupStateResponse ReadShareGroupStateSummaryRequest ReadShareGroupStateSummaryResponse
    RemoveRaftVoterRequest RemoveRaftVoterResponse RenewDelegationTokenRequest
    RenewDelegationTokenResponse SaslAuthenticateRequest SaslAuthenticateResponse SaslHandshakeRequest
    SaslHandshakeResponse ShareAcknowledgeRequest ShareAcknowledgeResponse ShareFetchRequest
    ShareFetchResponse ShareGroupDescribeRequest ShareGroupDescribeResponse ShareGroupHeartbeatRequest
    ShareGroupHeartbeatResponse SnapshotFooterRecord SnapshotHeaderRecord SyncGroupRequest
    SyncGroupResponse TxnOffsetCommitRequest TxnOffsetCommitResponse UnregisterBrokerRequest
    UnregisterBrokerResponse UpdateFeaturesRequest UpdateFeaturesResponse UpdateRaftVoterRequest
    UpdateRaftVoterResponse VoteRequest VoteResponse WriteShareGroupStateRequest
    WriteShareGroupStateResponse WriteTxnMarkersRequest WriteTxnMarkersResponse
];

fn again<M: Message + Decodable + Encodable>(version: i16, bytes: &[u8]) -> Option<Vec<u8>> {
    if !(M::VERSIONS.min..=M::VERSIONS.max).contains(&version) {
        return None;
    }
    let mut rest = Bytes::copy_from_slice(bytes);
    let message = M::decode(&mut rest, version).expect("the oracle reads it");
    assert!(rest.is_empty(), "the oracle leaves {} bytes", rest.len());
    let mut written = BytesMut::new();
    message.encode(&mut written, version).expect("the oracle writes it");
    Some(written.to_vec())
}

#[test]
fn another_codec_reads_and_writes_the_same() {
    let schema = common::schema();
    let checks = crate::checks();
    let mut versions = 0;
    for (name, again) in ORACLES {
        let message = common::find(&schema, name);
        for version in message.versions.low..=message.versions.high {
            for round in 0..ROUNDS {
                let mut random = Random(round << 32 | version as u64);
                let bytes = common::bytes(message, version, Fill::Random, &mut random);
                let Some(written) = again(version, &bytes) else { break };
                assert!(
                    written == bytes,
                    "{name} v{version}\nread    {}\nwritten {}",
                    common::hex(&bytes),
                    common::hex(&written)
                );
                (checks[name].again)(name, version, &written);
                versions += usize::from(round == 0);
            }
        }
    }
    assert!(versions > 400, "only {versions} versions were compared");
}
