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

/// What Kafka says on a listener for clients: who asks there for controllers would go on to speak with them as
/// with brokers, and nodes speak with each other in their own way.
const MISMATCHED: &str =
    "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER";

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let request: DescribeClusterRequest = read(call, body)?;
    if request.endpoint_type != BROKERS {
        let (code, message) = match request.endpoint_type {
            CONTROLLERS => (ErrorCode::MismatchedEndpointType, MISMATCHED.to_owned()),
            other => (ErrorCode::UnsupportedEndpointType, format!("Unsupported endpoint type {other}")),
        };
        return Ok(call.reply.answer(&DescribeClusterResponse {
            error_code: code.code(),
            error_message: Some(&message),
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
            let endpoint = broker.client_endpoints().next()?;
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
        controller_id: super::controller(context).0,
        brokers,
        cluster_authorized_operations: match request.include_cluster_authorized_operations {
            true => operations::OF_CLUSTER,
            false => operations::UNTOLD,
        },
        ..DescribeClusterResponse::default()
    }))
}
