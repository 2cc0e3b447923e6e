//! What every client asks: who leads which topics.

use base::{Effects, Now};
use wire::ApiKey;
use wire::messages::metadata::{MetadataRequest, MetadataRequestTopic};

use super::{Asking, Links, NetEffect, Peer};
use crate::link::LinkError;

/// From here on a question can say that topics are not to be created.
const VERSION_CREATION_MIN: i16 = 4;

impl<T> Links<T> {
    /// Asks whoever can be asked about topics, and rather not who was asked in vain. To whom the question is on its
    /// way; an error if one of the names cannot be said.
    pub(crate) fn ask_about_topics<'a>(
        &mut self,
        names: impl Iterator<Item = &'a str>,
        may_create: bool,
        in_vain: &[(Peer, u32)],
        (about, now): (T, Now),
        effects: &mut Effects<NetEffect>,
    ) -> Result<Option<Peer>, LinkError> {
        let Some(peer) = self.want_any(in_vain, now, effects) else { return Ok(None) };
        let Ok(version) = self.version(peer, ApiKey::Metadata) else { return Ok(None) };
        let topics = names.map(|name| MetadataRequestTopic { name: Some(name), ..Default::default() });
        let request = MetadataRequest {
            topics: Some(topics.collect()),
            // The broker decides whether it does; one that is asked in an older version is not told otherwise.
            allow_auto_topic_creation: may_create || version < VERSION_CREATION_MIN,
            ..MetadataRequest::default()
        };
        let asking = Asking { version, about, fills: Vec::new(), is_answered: true };
        self.send((peer, now), &request, asking, effects).map(|()| Some(peer))
    }
}
