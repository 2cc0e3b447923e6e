//! The cluster: who is in it, and what is on its disks.

use base::BrokerId;
use client_core::admin::{DescribeCluster, DescribeLogDirs};

use super::{Admin, AdminError, Call, ClusterDescription, LogDir};

impl Admin {
    /// Who is in the cluster.
    pub fn describe_cluster(&self) -> Call<Result<ClusterDescription, AdminError>> {
        self.call(|admin| async move { admin.ask_one(DescribeCluster, (), admin.deadline()).await })
    }

    /// What these brokers have on their disks, each in its directories.
    pub fn describe_log_dirs(
        &self,
        brokers: impl IntoIterator<Item = BrokerId>,
    ) -> Call<Vec<Result<Vec<LogDir>, AdminError>>> {
        let brokers = brokers.into_iter().collect();
        self.call(|admin| async move { admin.ask(DescribeLogDirs, brokers, admin.deadline()).await })
    }

    /// What all brokers that are up have on their disks, by broker.
    #[expect(clippy::type_complexity, reason = "the result of each broker, with its number")]
    pub fn describe_all_log_dirs(
        &self,
    ) -> Call<Result<Vec<(BrokerId, Result<Vec<LogDir>, AdminError>)>, AdminError>> {
        self.call(|admin| async move {
            let until = admin.deadline();
            let cluster = admin.ask_one(DescribeCluster, (), until).await?;
            let brokers: Vec<BrokerId> = cluster.brokers.iter().map(|broker| broker.id).collect();
            let dirs = admin.ask(DescribeLogDirs, brokers.clone(), until).await;
            Ok(brokers.into_iter().zip(dirs).collect())
        })
    }
}
