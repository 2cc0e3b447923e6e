//! Topics in which the cluster keeps its own books, and what they are set to whoever makes them: what groups committed
//! must survive a power cut, and must not go by age.

use std::borrow::Cow;

use super::find_topic;
use super::setting::SettingError;
use crate::parts::ConfigMap;

/// The topic that keeps what groups are and what they commit.
pub const OFFSETS_TOPIC: &str = "__consumer_offsets";

/// The topic that keeps what transactions are.
pub const TRANSACTIONS_TOPIC: &str = "__transaction_state";

/// The topic in which Kafka keeps how far share groups came. Nothing here makes it.
const SHARE_TOPIC: &str = "__share_group_state";

const ALWAYS: &[(&str, &str)] = &[("cleanup.policy", "compact"), ("flush.policy", "ack")];

/// Whether the cluster keeps books in a topic: what is there is found by an id, of as many partitions as there are.
pub fn is_book(topic: &str) -> bool {
    matches!(topic, OFFSETS_TOPIC | TRANSACTIONS_TOPIC)
}

/// Whether a topic is the cluster's own and no user's: a book, here or with Kafka.
pub fn is_internal(topic: &str) -> bool {
    is_book(topic) || topic == SHARE_TOPIC
}

/// A topic's own settings, with what a book is always set to in the place of anything else: it may have been made
/// before that was looked after.
pub fn with_kept<'a>(topic: &str, own: &'a ConfigMap) -> Cow<'a, ConfigMap> {
    let mut settings = Cow::Borrowed(own);
    for (name, value) in
        kept(topic).iter().filter(|(name, value)| own.get(*name).is_none_or(|own| own != value))
    {
        settings.to_mut().insert((*name).to_owned(), (*value).to_owned());
    }
    settings
}

/// Puts in what a topic is always set to, and refuses what somebody set in its place.
pub fn keep(topic: &str, settings: &mut ConfigMap) -> Result<(), SettingError> {
    for &(name, value) in kept(topic) {
        let is_other =
            |set: &String| find_topic(name).is_none_or(|it| it.parse(set).ok() != it.parse(value).ok());
        if settings.get(name).is_some_and(is_other) {
            let (topic, name, value) = (topic.to_owned(), name.to_owned(), value.to_owned());
            return Err(SettingError::Kept { topic, name, value });
        }
        settings.insert(name.to_owned(), value.to_owned());
    }
    Ok(())
}

fn kept(topic: &str) -> &'static [(&'static str, &'static str)] {
    if is_book(topic) { ALWAYS } else { &[] }
}
