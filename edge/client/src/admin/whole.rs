//! The cluster: who is in it, and what is on its disks.

use std::collections::BTreeMap;

use base::{BrokerId, PartitionIndex, Uuid};
use client_core::admin::{
    AddVoters, DescribeCluster, DescribeLogDirs, DescribeQuorum, RemoveVoters, UnregisterBrokers,
    UpdateFeatures, VoterId,
};

use super::{
    Admin, AdminError, Call, ClusterDescription, FeatureChange, LogDir, NewVoter, QuorumDescription,
};

impl Admin {
    /// Who is in the cluster.
    pub fn describe_cluster(&self) -> Call<Result<ClusterDescription, AdminError>> {
        self.call(|admin| async move { admin.ask_one(DescribeCluster, (), admin.deadline()).await })
    }

    /// Who keeps the cluster's metadata, and how far everybody is.
    pub fn describe_quorum(&self) -> Call<Result<QuorumDescription, AdminError>> {
        self.call(|admin| async move { admin.ask_one(DescribeQuorum, (), admin.deadline()).await })
    }

    /// Lets a node vote that follows so far. It must be well on its way: it is answered once it votes.
    pub fn add_voter(&self, voter: NewVoter) -> Call<Result<(), AdminError>> {
        self.call(|admin| async move { admin.change_one(AddVoters, voter).await })
    }

    /// Takes the vote of a node, which has its metadata log in this directory.
    pub fn remove_voter(&self, id: BrokerId, directory: Uuid) -> Call<Result<(), AdminError>> {
        let voter = VoterId { id, directory };
        self.call(move |admin| async move { admin.change_one(RemoveVoters, voter).await })
    }

    /// Forgets a broker that will not come back. What it has replicas of is to be moved before.
    pub fn unregister_broker(&self, id: BrokerId) -> Call<Result<(), AdminError>> {
        self.call(move |admin| async move { admin.change_one(UnregisterBrokers, id).await })
    }

    /// Changes the levels of features: all of them, or none.
    pub fn update_features(
        &self,
        changes: impl IntoIterator<Item = FeatureChange>,
    ) -> Call<Result<(), AdminError>> {
        let changes = changes.into_iter().collect();
        let update = UpdateFeatures { is_dry_run: self.is_dry_run };
        self.call(|admin| async move { admin.ask_one(update, changes, admin.deadline()).await })
    }

    /// What these brokers have on their disks, each in its directories.
    pub fn describe_log_dirs(
        &self,
        brokers: impl IntoIterator<Item = BrokerId>,
    ) -> Call<Vec<Result<Vec<LogDir>, AdminError>>> {
        let brokers = brokers.into_iter().collect();
        self.call(
            |admin| async move { admin.ask(DescribeLogDirs::default(), brokers, admin.deadline()).await },
        )
    }

    /// What these brokers have of some partitions on their disks: topic, partition.
    pub fn describe_log_dirs_of<T: Into<String>>(
        &self,
        brokers: impl IntoIterator<Item = BrokerId>,
        partitions: impl IntoIterator<Item = (T, i32)>,
    ) -> Call<Vec<Result<Vec<LogDir>, AdminError>>> {
        let brokers = brokers.into_iter().collect();
        let mut by_topic: BTreeMap<String, Vec<PartitionIndex>> = BTreeMap::new();
        for (topic, partition) in partitions {
            by_topic.entry(topic.into()).or_default().push(PartitionIndex(partition));
        }
        let ask = DescribeLogDirs { partitions: Some(by_topic.into_iter().collect()) };
        self.call(|admin| async move { admin.ask(ask, brokers, admin.deadline()).await })
    }

    /// What all brokers that are up have on their disks, by broker.
    #[expect(clippy::type_complexity, reason = "the result of each broker, with its number")]
    pub fn describe_all_log_dirs(
        &self,
    ) -> Call<Result<Vec<(BrokerId, Result<Vec<LogDir>, AdminError>)>, AdminError>> {
        self.call(|admin| async move {
            let until = admin.deadline();
            let cluster = admin.ask_one(DescribeCluster, (), until).await?;
            let brokers: Vec<BrokerId> =
                cluster.brokers.iter().filter(|it| !it.is_fenced).map(|it| it.id).collect();
            let dirs = admin.ask(DescribeLogDirs::default(), brokers.clone(), until).await;
            Ok(brokers.into_iter().zip(dirs).collect())
        })
    }
}
