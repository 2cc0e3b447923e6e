//! DeleteTopics: asked of the controller.

use base::TopicId;
use wire::messages::delete_topics::{DeleteTopicState, DeleteTopicsRequest};

use super::{Ask, Each, How, Name, Refusal, Response, Route, TopicRef};

/// The first version that knows ids, and whose topics are structs.
const IDS_VERSION: i16 = 6;

/// Deletes topics with all that is in them.
#[derive(Debug)]
pub struct DeleteTopics;

impl Ask for DeleteTopics {
    type Item = TopicRef;
    type Said = ();
    type Request<'a> = DeleteTopicsRequest<'a>;

    fn is_change(&self) -> bool {
        true
    }

    fn name<'a>(&self, topic: &'a TopicRef) -> Name<'a> {
        topic.as_name()
    }

    fn route<'a>(&self, _: &'a TopicRef) -> Route<'a> {
        Route::Controller
    }

    fn version_min(&self, topic: &TopicRef) -> i16 {
        match topic {
            TopicRef::Name(_) => 0,
            TopicRef::Id(_) => IDS_VERSION,
        }
    }

    fn request<'a>(&'a self, topics: &[&'a TopicRef], how: &How<'_>) -> DeleteTopicsRequest<'a> {
        let mut request = DeleteTopicsRequest { timeout_ms: how.timeout_ms, ..Default::default() };
        for topic in topics {
            match topic {
                TopicRef::Name(name) if how.version < IDS_VERSION => request.topic_names.push(name),
                TopicRef::Name(name) => {
                    request.topics.push(DeleteTopicState { name: Some(name), ..Default::default() });
                }
                TopicRef::Id(id) => request.topics.push(DeleteTopicState { name: None, topic_id: id.0 }),
            }
        }
        request
    }

    fn read<'f>(&self, said: &Response<'f, Self>, each: Each<'_, 'f, Self>) -> i32 {
        for topic in &said.responses {
            let gone = Refusal::check(topic.error_code, topic.error_message);
            // It was asked for by one of them.
            if let Some(name) = topic.name {
                each(Name::Topic(name), gone.clone());
            }
            each(Name::TopicId(TopicId(topic.topic_id)), gone);
        }
        said.throttle_time_ms
    }
}
