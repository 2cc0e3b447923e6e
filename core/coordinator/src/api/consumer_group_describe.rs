//! ConsumerGroupDescribe · key 69 · v0..=v1, one group of it (KIP-848)
//! v1 which protocol a member speaks

use base::ErrorCode;
use metadata::Image;

use crate::group::{GroupKind, Groups};
use crate::response::DescribedConsumerGroup;

pub(crate) fn handle(groups: &Groups, id: &str, image: &Image) -> DescribedConsumerGroup {
    let missing = |words: String| DescribedConsumerGroup {
        error_message: Some(words),
        ..DescribedConsumerGroup::refused(ErrorCode::GroupIdNotFound, id)
    };
    let name = || base::excerpt(id, 255);
    match groups.get(id).map(|group| &group.kind) {
        _ if id.is_empty() => DescribedConsumerGroup::refused(ErrorCode::InvalidGroupId, id),
        None => missing(format!("Group {} not found.", name())),
        Some(GroupKind::Classic(_)) => missing(format!("Group {} is not a consumer group.", name())),
        Some(GroupKind::Consumer(consumers)) => DescribedConsumerGroup {
            error: ErrorCode::None,
            error_message: None,
            group: id.into(),
            described: Some(consumers.group.describe(image, &consumers.settings)),
        },
    }
}
