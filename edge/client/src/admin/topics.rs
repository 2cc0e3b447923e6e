//! Topics: created, listed, described, grown, deleted.

use base::TopicId;
use client_core::admin::{
    CreatePartitions, CreateTopics, DeleteTopics, DescribeTopics, ListTopics, TopicRef,
};

use super::{Admin, AdminError, Call, CreatedTopic, MorePartitions, NewTopic, Topic};

impl Admin {
    /// All topics with their partitions, by name; those too that the cluster keeps for itself.
    pub fn list_topics(&self) -> Call<Result<Vec<Topic>, AdminError>> {
        self.call(|admin| async move { admin.ask_one(ListTopics, (), admin.deadline()).await })
    }

    /// What these topics are made of. A topic that the broker has not heard of is an error at once.
    pub fn describe_topics<N: Into<String>>(
        &self,
        names: impl IntoIterator<Item = N>,
    ) -> Call<Vec<Result<Topic, AdminError>>> {
        let names = names.into_iter().map(|name| TopicRef::Name(name.into())).collect();
        self.call(|admin| async move { admin.ask(DescribeTopics, names, admin.deadline()).await })
    }

    /// [`Admin::describe_topics`] of topics whose ids are known.
    pub fn describe_topics_by_id(
        &self,
        ids: impl IntoIterator<Item = TopicId>,
    ) -> Call<Vec<Result<Topic, AdminError>>> {
        let ids = ids.into_iter().map(TopicRef::Id).collect();
        self.call(|admin| async move { admin.ask(DescribeTopics, ids, admin.deadline()).await })
    }

    /// What a topic is made of.
    pub fn describe_topic(&self, name: impl Into<String>) -> Call<Result<Topic, AdminError>> {
        let name = TopicRef::Name(name.into());
        self.call(|admin| async move { admin.ask_one(DescribeTopics, name, admin.deadline()).await })
    }

    /// Creates topics.
    ///
    /// `TOPIC_ALREADY_EXISTS` of an error that [may have been done](AdminError::may_have_been_done) can be
    /// about what an earlier try of the same call made.
    pub fn create_topics(
        &self,
        topics: impl IntoIterator<Item = NewTopic>,
    ) -> Call<Vec<Result<CreatedTopic, AdminError>>> {
        let topics = topics.into_iter().collect();
        let create = CreateTopics { is_dry_run: self.is_dry_run };
        self.call(|admin| async move { admin.ask(create, topics, admin.deadline()).await })
    }

    /// Creates a topic.
    pub fn create_topic(&self, topic: NewTopic) -> Call<Result<CreatedTopic, AdminError>> {
        let create = CreateTopics { is_dry_run: self.is_dry_run };
        self.call(|admin| async move { admin.ask_one(create, topic, admin.deadline()).await })
    }

    /// Deletes topics with all that is in them. Brokers may know of them for a moment longer.
    pub fn delete_topics<N: Into<String>>(
        &self,
        names: impl IntoIterator<Item = N>,
    ) -> Call<Vec<Result<(), AdminError>>> {
        let names = names.into_iter().map(|name| TopicRef::Name(name.into())).collect();
        self.call(|admin| async move { admin.change(DeleteTopics, names).await })
    }

    /// [`Admin::delete_topics`] by id: not those that were made again under the same names.
    pub fn delete_topics_by_id(
        &self,
        ids: impl IntoIterator<Item = TopicId>,
    ) -> Call<Vec<Result<(), AdminError>>> {
        let ids = ids.into_iter().map(TopicRef::Id).collect();
        self.call(|admin| async move { admin.change(DeleteTopics, ids).await })
    }

    /// Deletes a topic with all that is in it.
    pub fn delete_topic(&self, name: impl Into<String>) -> Call<Result<(), AdminError>> {
        let name = TopicRef::Name(name.into());
        self.call(|admin| async move {
            let gone = admin.change(DeleteTopics, vec![name]).await;
            gone.into_iter().next().unwrap_or(Err(AdminError::Closed))
        })
    }

    /// Gives topics more partitions.
    pub fn create_partitions(
        &self,
        topics: impl IntoIterator<Item = MorePartitions>,
    ) -> Call<Vec<Result<(), AdminError>>> {
        let topics = topics.into_iter().collect();
        let create = CreatePartitions { is_dry_run: self.is_dry_run };
        self.call(|admin| async move { admin.ask(create, topics, admin.deadline()).await })
    }

    /// Gives a topic more partitions: `count` in all.
    pub fn grow_topic(&self, topic: impl Into<String>, count: i32) -> Call<Result<(), AdminError>> {
        let more = MorePartitions { topic: topic.into(), count, assignments: Vec::new() };
        let create = CreatePartitions { is_dry_run: self.is_dry_run };
        self.call(|admin| async move { admin.ask_one(create, more, admin.deadline()).await })
    }
}
