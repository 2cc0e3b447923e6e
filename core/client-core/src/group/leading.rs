//! The member that assigns, in a classic group.

use std::collections::BTreeMap;

use base::{Now, TopicName};

use super::blobs::encode_assignment;
use super::classic::{Stage, count};
use super::{Assignor, GroupError, Life, Membership};

impl Membership {
    /// Assigns, as soon as it is known how many partitions there are.
    pub(super) fn lead(&mut self, now: Now) {
        let Life::Classic(classic) = &mut self.life else { return };
        let Stage::Leading(leading) = &classic.stage else { return };
        let topics = leading.topics();
        let is_known = leading.is_told || topics.iter().all(|topic| count(&self.cluster, topic) > 0);
        if !is_known {
            self.topics.inquiry.is_wanted = true;
            return;
        }
        let counts: BTreeMap<TopicName, i32> =
            topics.into_iter().map(|topic| (topic.clone(), count(&self.cluster, &topic))).collect();
        let assigned = match Assignor::named(&classic.protocol) {
            _ if leading.only_watches => Ok(Vec::new()),
            Some(assignor) => {
                let there = counts.iter().filter(|(_, count)| **count > 0);
                let there = there.map(|(topic, count)| (topic.clone(), *count)).collect();
                let assigned = assignor.assign(&leading.members, &there);
                let encoded = assigned.into_iter().map(|(id, parts)| Ok((id, encode_assignment(&parts)?)));
                encoded.collect::<Result<_, wire::EncodeError>>().map_err(|_| GroupError::Unsayable)
            }
            // The coordinator chose what this member did not offer.
            None => Err(GroupError::Refused(base::ErrorCode::InconsistentGroupProtocol)),
        };
        match assigned {
            Ok(assigned) => {
                classic.led = Some(counts);
                classic.stage = Stage::Assigned(assigned);
                // From now on somebody has to notice when there are more.
                self.topics.inquiry.keep_fresh(now, self.settings.metadata_age_max);
            }
            Err(error) => self.fail(error),
        }
    }
}
