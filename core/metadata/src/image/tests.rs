//! Records in, an image out.

use base::{BrokerEpoch, LeaderEpoch, Uuid};

use super::*;
use crate::{
    BrokerChange, ConfigChange, Delta, FeatureLevel, MetadataRecord, NewPartition, NewTopic, PartitionChange,
    ProducerIds,
};

fn id(number: u128) -> TopicId {
    TopicId(Uuid(number.to_be_bytes()))
}

fn topic(name: &str, number: u128) -> MetadataRecord {
    MetadataRecord::Topic(NewTopic { name: TopicName::new(name).expect("legal"), id: id(number) })
}

fn partition(number: u128, index: i32) -> MetadataRecord {
    let replicas = vec![BrokerId(1)];
    MetadataRecord::Partition(NewPartition::first(
        id(number),
        PartitionIndex(index),
        replicas.clone(),
        replicas,
    ))
}

fn config(name: &str, setting: &str, value: Option<&str>) -> MetadataRecord {
    MetadataRecord::Config(ConfigChange {
        resource: ConfigResource::Topic(TopicName::new(name).expect("legal")),
        name: setting.into(),
        value: value.map(Into::into),
    })
}

fn broker(number: i32) -> Broker {
    Broker {
        id: BrokerId(number),
        epoch: BrokerEpoch(1),
        incarnation: Uuid::ZERO,
        endpoints: Vec::new(),
        features: Vec::new(),
        rack: None,
        fenced: false,
        in_controlled_shutdown: false,
        log_dirs: Vec::new(),
    }
}

fn replay(records: &[MetadataRecord]) -> (Image, Delta) {
    let end = Offset(i64::try_from(records.len()).expect("few"));
    Image::default().after(records, end)
}

#[test]
fn a_topic_comes_with_its_partitions_and_goes_with_all_it_had() {
    let (image, delta) = replay(&[
        topic("a", 1),
        partition(1, 0),
        partition(1, 1),
        config("a", "retention.ms", Some("5")),
        topic("b", 2),
        partition(2, 0),
    ]);
    assert_eq!((image.topic_count(), image.partition_count(), image.end()), (2, 3, Offset(6)));
    assert_eq!(delta.topics_created, [id(1), id(2)].into());
    assert!(delta.partitions_added.is_empty(), "they come with their topics");
    let a = image.topic("a").expect("it was made");
    assert_eq!((a.id, a.partitions().len()), (id(1), 2));
    assert_eq!(a.partition(PartitionIndex(1)).map(|p| p.leader), Some(BrokerId(1)));
    assert_eq!(a.partition(PartitionIndex(2)), None);
    assert_eq!(a.partition(PartitionIndex(-1)), None);
    let resource = ConfigResource::Topic(a.name.clone());
    assert_eq!(image.configs(&resource).get("retention.ms").map(String::as_str), Some("5"));

    let (after, delta) = image.after(&[MetadataRecord::RemoveTopic(id(1))], Offset(7));
    assert_eq!((after.topic_count(), after.partition_count()), (1, 1));
    assert!(after.topic("a").is_none() && after.topic_by_id(id(1)).is_none());
    assert!(after.configs(&resource).is_empty());
    assert_eq!(delta.topics_deleted.keys().collect::<Vec<_>>(), [&id(1)]);
    assert_eq!(delta.topics_deleted[&id(1)].partitions().len(), 2, "the topic comes along");
    assert_eq!(image.topic_count(), 2, "the image before did not change");
}

#[test]
fn what_is_made_and_deleted_at_once_never_was() {
    let (image, delta) = replay(&[
        topic("a", 1),
        partition(1, 0),
        config("a", "retention.ms", Some("5")),
        MetadataRecord::RemoveTopic(id(1)),
    ]);
    assert!(delta.is_empty(), "{delta:?}");
    assert_eq!((image.topic_count(), image.partition_count()), (0, 0));
}

#[test]
fn a_topic_made_again_under_its_name_is_another() {
    let (image, _) = replay(&[topic("a", 1), partition(1, 0)]);
    let records = [MetadataRecord::RemoveTopic(id(1)), topic("a", 2), partition(2, 0)];
    let (image, delta) = image.after(&records, Offset(5));
    assert_eq!(image.topic("a").map(|topic| topic.id), Some(id(2)));
    assert_eq!((delta.topics_created.len(), delta.topics_deleted.len()), (1, 1));
}

#[test]
fn partitions_are_added_and_change() {
    let (image, _) = replay(&[topic("a", 1), partition(1, 0)]);
    let (image, delta) = image.after(&[partition(1, 1)], Offset(3));
    assert_eq!(delta.partitions_added, [(id(1), PartitionIndex(1))].into());
    assert_eq!(image.partition_count(), 2);

    let change = PartitionChange {
        leader: Some(BrokerId(2)),
        isr: Some(vec![BrokerId(2)]),
        adding: Some(vec![BrokerId(2)]),
        ..PartitionChange::of(id(1), PartitionIndex(0))
    };
    let (changed, delta) = image.after(&[MetadataRecord::PartitionChange(change)], Offset(4));
    assert_eq!(delta.partitions_changed, [(id(1), PartitionIndex(0))].into());
    let partition = changed.partition(id(1), PartitionIndex(0)).expect("it is there");
    assert_eq!((partition.leader, partition.leader_epoch.0, partition.partition_epoch), (BrokerId(2), 1, 1));
    assert_eq!((&partition.isr[..], partition.adding()), (&[BrokerId(2)][..], &[BrokerId(2)][..]));
    let untouched =
        [&image, &changed].map(|image| image.partition(id(1), PartitionIndex(1)).expect("it is there"));
    assert!(Arc::ptr_eq(untouched[0], untouched[1]), "what did not change is shared");

    let settled = PartitionChange { adding: Some(vec![]), ..PartitionChange::of(id(1), PartitionIndex(0)) };
    let (settled, _) = changed.after(&[MetadataRecord::PartitionChange(settled)], Offset(5));
    let partition = settled.partition(id(1), PartitionIndex(0)).expect("it is there");
    assert_eq!((partition.leader_epoch.0, partition.partition_epoch), (1, 2), "the leader stayed");
    assert_eq!(partition.unsettled, None);
}

#[test]
fn configs_are_set_and_taken_back() {
    let (image, delta) = replay(&[config("a", "x", Some("1")), config("a", "y", Some("2"))]);
    assert_eq!(delta.configs_changed.len(), 1);
    assert_eq!(image.configured().count(), 1);
    let (image, _) = image.after(&[config("a", "x", None), config("a", "y", None)], Offset(4));
    assert_eq!(image.configured().count(), 0, "nothing is left of it");
}

#[test]
fn what_settings_take_is_counted_as_long_as_they_are_there() {
    let (none, _) = replay(&[topic("a", 1)]);
    let after = |image: &Image, records: &[MetadataRecord]| image.after(records, Offset(9)).0;
    let one = after(&none, &[config("a", "x", Some("1"))]);
    let longer = after(&one, &[config("a", "x", Some("1234"))]);
    assert_eq!((none.config_bytes(), longer.config_bytes() - one.config_bytes()), (0, 3));
    let two = after(&longer, &[config("a", "y", Some("2"))]);
    let (again, _) = replay(&two.to_records().collect::<Vec<_>>());
    assert!(two.config_bytes() > longer.config_bytes() && again.config_bytes() == two.config_bytes());
    assert_eq!(
        after(&two, &[config("a", "y", None), config("a", "z", None)]).config_bytes(),
        longer.config_bytes()
    );
    assert_eq!(after(&two, &[MetadataRecord::RemoveTopic(id(1))]).config_bytes(), 0);
}

#[test]
fn brokers_come_change_and_leave() {
    let (image, delta) = replay(&[MetadataRecord::RegisterBroker(broker(1))]);
    assert_eq!((image.brokers_alive().count(), delta.brokers_changed.len()), (1, 1));
    let fence = BrokerChange {
        broker: BrokerId(1),
        epoch: BrokerEpoch(1),
        fenced: Some(true),
        in_controlled_shutdown: true,
        log_dirs: Some(vec![Uuid([1; 16])]),
    };
    let (image, _) = image.after(&[MetadataRecord::BrokerChange(fence)], Offset(2));
    let known = image.broker(BrokerId(1)).expect("it is registered");
    assert!(known.fenced && known.in_controlled_shutdown && known.log_dirs.len() == 1);
    assert_eq!(image.brokers_alive().count(), 0);
    let gone = MetadataRecord::UnregisterBroker(BrokerId(1), BrokerEpoch(1));
    assert_eq!(image.after(&[gone], Offset(3)).0.brokers().count(), 0);
}

#[test]
fn features_and_producer_ids_follow_their_records() {
    let feature =
        |level| MetadataRecord::FeatureLevel(FeatureLevel { name: "metadata.version".into(), level });
    let ids = ProducerIds { broker: BrokerId(1), broker_epoch: BrokerEpoch(1), next: ProducerId(1000) };
    let (image, delta) = replay(&[feature(33), MetadataRecord::ProducerIds(ids)]);
    assert_eq!((image.features().get("metadata.version"), image.producer_id_next().0), (Some(&33), 1000));
    assert!(delta.features_changed);
    assert!(image.after(&[feature(0)], Offset(3)).0.features().is_empty());
}

#[test]
fn records_about_what_is_not_there_are_passed_over() {
    let change = PartitionChange::of(id(9), PartitionIndex(0));
    let (image, delta) = replay(&[
        partition(9, 0),
        MetadataRecord::PartitionChange(change),
        MetadataRecord::RemoveTopic(id(9)),
        MetadataRecord::UnregisterBroker(BrokerId(9), BrokerEpoch(0)),
        MetadataRecord::NoOp,
    ]);
    assert!(delta.is_empty(), "{delta:?}");
    assert_eq!((image.end(), image.partition_count()), (Offset(5), 0));
}

#[test]
fn partitions_in_any_order_end_in_order() {
    let (image, _) = replay(&[topic("a", 1), partition(1, 7), partition(1, 2), partition(1, 4)]);
    let topic = image.topic("a").expect("it was made");
    assert_eq!(topic.partitions().iter().map(|p| p.index.0).collect::<Vec<_>>(), [2, 4, 7]);
    assert!(topic.partition(PartitionIndex(4)).is_some() && topic.partition(PartitionIndex(0)).is_none());
}

#[test]
fn topics_are_listed_by_name() {
    let records: Vec<MetadataRecord> =
        (0..500u128).map(|i| topic(&format!("t{:03}", (i * 7) % 500), i + 1)).collect();
    let (image, _) = replay(&records);
    assert!(image.topics().map(|topic| topic.name.as_str()).is_sorted());
    assert_eq!(image.topics_from("t490").count(), 10);
    assert_eq!(image.topics_from("zz").count(), 0);
}

/// What a partition takes on the heap, counted by hand: an allocator rounds each piece up to 16 bytes
/// and puts 8 before it.
fn partition_bytes(partition: &Partition) -> usize {
    let piece = |len: usize| if len == 0 { 0 } else { (len + 8).next_multiple_of(16).max(32) };
    piece(size_of::<Partition>() + 16)
        + piece(size_of_val(&*partition.replicas))
        + piece(size_of_val(&*partition.isr))
        + piece(size_of_val(&*partition.directories))
        + size_of::<Arc<Partition>>()
}

#[test]
fn a_partition_takes_less_than_400_bytes_with_its_topic() {
    let (image, _) = replay(&[topic("a-topic-with-a-usual-name", 1), partition(1, 0)]);
    let of_topic = image.topic("a-topic-with-a-usual-name").expect("it was made");
    let name = of_topic.name.as_str().len() + 16 + 8;
    // The topic, its list of one partition, and its entries in both maps, whose chunks are half full at worst.
    let entries = 2 * (size_of::<(TopicId, Arc<Topic>)>() + size_of::<(TopicName, TopicId)>());
    let bytes = size_of::<Topic>() + 16 + 32 + name + entries;
    let total = bytes + partition_bytes(of_topic.partition(PartitionIndex(0)).expect("it was made"));
    assert!(total < 500, "{total} bytes for a topic of one partition");
    let each = partition_bytes(of_topic.partition(PartitionIndex(0)).expect("it was made"));
    assert!(each < 300, "{each} bytes for each more partition");
    assert_eq!(LeaderEpoch::FIRST, of_topic.partitions()[0].leader_epoch);
}
