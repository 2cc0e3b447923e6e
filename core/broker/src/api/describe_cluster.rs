//! DescribeCluster · key 60 · v0..=v2
//!
//! v1 brokers or controllers (KIP-919) · v2 fenced brokers too.

use base::ErrorCode;
use wire::messages::describe_cluster::{
    DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse,
};
use wire::{ApiKey, DecodeError, Decoder};

use super::{Api, read};
use crate::call::{Call, Outcome};

/// See the module.
pub const API: Api = Api::new(ApiKey::DescribeCluster, 0..=2, handle);

const BROKERS: i8 = 1;

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, DecodeError> {
    let request: DescribeClusterRequest = read(call, body)?;
    if request.endpoint_type != BROKERS {
        return Ok(call.reply.answer(&DescribeClusterResponse {
            error_code: ErrorCode::MismatchedEndpointType.code(),
            error_message: Some("this is a broker's listener: endpoint type 1 is served here"),
            endpoint_type: BROKERS,
            ..DescribeClusterResponse::default()
        }));
    }
    let context = &call.context;
    let brokers = context
        .image
        .brokers()
        .filter(|broker| request.include_fenced_brokers || !broker.fenced)
        .filter_map(|broker| {
            let endpoint = broker.endpoints.first()?;
            Some(DescribeClusterBroker {
                broker_id: broker.id.0,
                host: &endpoint.host,
                port: endpoint.port.into(),
                rack: broker.rack.as_deref(),
                is_fenced: broker.fenced,
            })
        })
        .collect();
    Ok(call.reply.answer(&DescribeClusterResponse {
        endpoint_type: BROKERS,
        cluster_id: context.cluster_id,
        controller_id: context.node.0,
        brokers,
        ..DescribeClusterResponse::default()
    }))
}
