//! What there is to read on the stage.

use base::{BrokerId, LeaderEpoch, PartitionIndex, TopicId, TopicName, Uuid};
use metadata::{Delta, Image, MetadataRecord, NewPartition, NewTopic, Partition};

pub(in crate::stories) fn image(topics: &[(&str, i32)]) -> Image {
    let mut image = Image::default();
    for (name, partitions) in topics {
        add_topic(&mut image, name, *partitions, name.as_bytes()[0]);
    }
    image
}

pub(in crate::stories) fn add_topic(image: &mut Image, name: &str, partitions: i32, id: u8) {
    let id = TopicId(Uuid([id; 16]));
    let name = TopicName::new(name).expect("it is legal");
    let mut delta = Delta::default();
    image.replay(&MetadataRecord::Topic(NewTopic { name, id }), &mut delta);
    for index in 0..partitions {
        let partition = Partition {
            index: PartitionIndex(index),
            leader: BrokerId(1),
            leader_epoch: LeaderEpoch(1),
            partition_epoch: 0,
            recovering: false,
            unclean_epoch: LeaderEpoch::NONE,
            replicas: [BrokerId(1)].into(),
            isr: [BrokerId(1)].into(),
            directories: [Uuid::ZERO].into(),
            unsettled: None,
        };
        image.replay(&MetadataRecord::Partition(NewPartition { topic: id, partition }), &mut delta);
    }
}
