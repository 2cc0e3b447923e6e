//! DescribeCluster · key 60 · v0..=v2
//!
//! v1 brokers or controllers (KIP-919) · v2 fenced brokers too.

use base::ErrorCode;
use wire::messages::describe_cluster::{
    DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse,
};
use wire::{ApiKey, Decoder};

use super::{Api, operations, read};
use crate::call::{Call, CloseReason, Outcome};

/// See the module.
pub const API: Api = Api::new(ApiKey::DescribeCluster, 0..=2, handle);

const BROKERS: i8 = 1;
const CONTROLLERS: i8 = 2;

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let request: DescribeClusterRequest = read(call, body)?;
    if request.endpoint_type != BROKERS {
        let (code, message) = match request.endpoint_type {
            CONTROLLERS => (
                ErrorCode::MismatchedEndpointType,
                "this is a broker's listener: endpoint type 1 is served here",
            ),
            _ => (
                ErrorCode::UnsupportedEndpointType,
                "there are endpoint types 1, brokers, and 2, controllers",
            ),
        };
        return Ok(call.reply.answer(&DescribeClusterResponse {
            error_code: code.code(),
            error_message: Some(message),
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
        cluster_authorized_operations: match request.include_cluster_authorized_operations {
            true => operations::OF_CLUSTER,
            false => operations::UNTOLD,
        },
        ..DescribeClusterResponse::default()
    }))
}
