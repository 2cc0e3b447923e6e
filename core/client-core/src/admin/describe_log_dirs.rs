//! DescribeLogDirs: asked of each broker about its own.

use base::{BrokerId, ErrorCode, PartitionIndex};
use wire::messages::describe_log_dirs::{
    DescribableLogDirTopic, DescribeLogDirsRequest, DescribeLogDirsResult,
};

use super::{Ask, Each, How, Name, Refusal, Response, Route};

/// A directory that a broker keeps logs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogDir {
    /// Its path on the broker.
    pub path: String,
    /// What is wrong with it, if something is.
    pub error: Option<ErrorCode>,
    /// The size of its volume in bytes; `None` from a broker that does not say.
    pub total_bytes: Option<u64>,
    /// How many bytes of the volume are free; `None` from a broker that does not say.
    pub usable_bytes: Option<u64>,
    /// Whether it takes no new partitions (KIP-1066).
    pub is_cordoned: bool,
    /// The replicas in it.
    pub replicas: Vec<ReplicaSize>,
}

/// A replica in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaSize {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: PartitionIndex,
    /// Its size in bytes.
    pub bytes: u64,
    /// How many records it lacks of what it follows.
    pub offset_lag: i64,
    /// Whether it is on its way to this directory from another.
    pub is_future: bool,
}

/// Says what brokers have on their disks.
#[derive(Debug, Default)]
pub struct DescribeLogDirs {
    /// Of these partitions, by topic; of all without.
    pub partitions: Option<Vec<(String, Vec<PartitionIndex>)>>,
}

impl Ask for DescribeLogDirs {
    type Item = BrokerId;
    /// By path.
    type Said = Vec<LogDir>;
    type Request<'a> = DescribeLogDirsRequest<'a>;

    fn is_change(&self) -> bool {
        false
    }

    fn name<'a>(&self, broker: &'a BrokerId) -> Name<'a> {
        Name::Broker(*broker)
    }

    fn route<'a>(&self, broker: &'a BrokerId) -> Route<'a> {
        Route::Broker(*broker)
    }

    fn request<'a>(&'a self, _: &[&'a BrokerId], _: &How<'_>) -> DescribeLogDirsRequest<'a> {
        let topic = |(topic, partitions): &'a (String, Vec<PartitionIndex>)| DescribableLogDirTopic {
            topic,
            partitions: partitions.iter().map(|partition| partition.0).collect(),
        };
        let topics = self.partitions.as_ref().map(|partitions| partitions.iter().map(topic).collect());
        DescribeLogDirsRequest { topics }
    }

    fn read<'f>(&self, said: &Response<'f, Self>, each: Each<'_, 'f, Self>) -> i32 {
        let dirs = Refusal::check(said.error_code, None).map(|()| {
            let mut dirs: Vec<LogDir> = said.results.iter().map(log_dir).collect();
            dirs.sort_by(|a, b| a.path.cmp(&b.path));
            dirs
        });
        each(Name::All, dirs);
        said.throttle_time_ms
    }
}

fn log_dir(said: &DescribeLogDirsResult<'_>) -> LogDir {
    let replicas = said.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|part| ReplicaSize {
            topic: topic.name.to_owned(),
            partition: PartitionIndex(part.partition_index),
            bytes: u64::try_from(part.partition_size).unwrap_or(0),
            offset_lag: part.offset_lag,
            is_future: part.is_future_key,
        })
    });
    let mut replicas: Vec<ReplicaSize> = replicas.collect();
    replicas.sort_by(|a, b| (&a.topic, a.partition).cmp(&(&b.topic, b.partition)));
    LogDir {
        path: said.log_dir.to_owned(),
        error: Refusal::check(said.error_code, None).err().map(|refusal| refusal.code),
        total_bytes: u64::try_from(said.total_bytes).ok(),
        usable_bytes: u64::try_from(said.usable_bytes).ok(),
        is_cordoned: said.is_cordoned,
        replicas,
    }
}
