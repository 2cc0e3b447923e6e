//! ConsumerGroupDescribe · key 69 · v0..=v1 (KIP-848)
//!
//! v0 flexible · v1 which protocol each member speaks (KIP-1099).

use coordinator::{DescribedConsumerGroup, Request, Response};
use wire::messages::consumer_group_describe::{ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse};
use wire::{ApiKey, Decoder};

use super::groups::{self, Say};
use super::{Api, operations, read};
use crate::call::{Call, CloseReason, Outcome};

/// See the module.
pub const API: Api = Api::new(ApiKey::ConsumerGroupDescribe, 0..=1, handle);

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let request: ConsumerGroupDescribeRequest<'_> = read(call, body)?;
    super::check_entries(request.group_ids.len())?;
    let asked = request.group_ids.iter().map(|group| (*group, Request::ConsumerGroupDescribe(group)));
    let parts = groups::ask_each(call, asked);
    let tells_operations = request.include_authorized_operations;
    let say: Say = Box::new(move |reply, said| {
        let described: Vec<DescribedConsumerGroup> = said.into_iter().filter_map(described).collect();
        let mut groups: Vec<_> = described.iter().map(DescribedConsumerGroup::to_wire).collect();
        for group in groups.iter_mut().filter(|group| tells_operations && group.error_code == 0) {
            group.authorized_operations = operations::OF_GROUP;
        }
        reply.answer(&ConsumerGroupDescribeResponse { groups, ..ConsumerGroupDescribeResponse::default() })
    });
    Ok(groups::wait_for(call, parts, say))
}

fn described(said: Response) -> Option<DescribedConsumerGroup> {
    match said {
        Response::ConsumerGroupDescribe(described) => Some(described),
        _ => None,
    }
}
