//! Whom a consumer is sent to: a replica in its own rack, if the leader is in another (KIP-392).

use base::{BrokerId, Offset};
use replica::Partition;

use crate::call::Context;

/// Of the replicas that have what is at `from` as far as the leader knows, the one in this rack that has most.
/// `None` if that is the leader, or if there is none.
pub(super) fn nearest(
    context: &Context<'_>,
    partition: &Partition,
    rack: &str,
    from: Offset,
) -> Option<BrokerId> {
    let is_near = |id: BrokerId| {
        let broker = context.image.broker(id).filter(|broker| !broker.fenced);
        broker.is_some_and(|broker| broker.rack.as_deref() == Some(rack))
    };
    if is_near(context.node) {
        return None;
    }
    let near = partition.replicas_with(from).filter(|(id, _)| is_near(*id));
    near.max_by_key(|(id, end)| (*end, *id)).map(|(id, _)| id)
}
