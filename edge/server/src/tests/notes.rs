//! Stories of what has to be written down before something else may be done, when that fails and the disk is good:
//! a process without descriptors, say.

use base::{Effects, TopicName};
use controller::{AlterConfigs, ResourceConfigs};
use metadata::ConfigResource;

use super::*;

/// When a log gets a policy under which it counts records before they are durable.
#[derive(Debug, Clone, Copy)]
enum When {
    Made,
    Opened,
    Reconfigured,
}

impl Life {
    /// Has records of `t` counted before they are durable.
    fn relax(&self) {
        let entries = [("flush.policy".to_owned(), Some("os".to_owned()))].into();
        let resource = ConfigResource::Topic(TopicName::new("t").unwrap());
        let resources = vec![ResourceConfigs { resource, entries }];
        let topic = self.topic("t");
        self.decide(Command::AlterConfigs(AlterConfigs { resources, validate_only: false }));
        let cell = self.started.node.partitions.get(topic, PartitionIndex(0)).unwrap();
        assert_eq!(cell.settings().flush_policy, metadata::settings::FlushPolicy::Os, "it is in force");
    }

    /// Whether a record of `t` is committed before anybody flushes it.
    fn counts_early(&self) -> bool {
        let cell = self.started.node.partitions.get(self.topic("t"), PartitionIndex(0)).unwrap();
        let raw = self.batch(1, &BatchOptions::default());
        let mut scratch = Scratch::default();
        let batch = CheckedBatch::check(&raw, &BatchLimits::default(), &mut scratch).unwrap();
        let now = self.started.node.clock.now();
        cell.with(|partition| {
            partition.append(now, &batch, false, &mut Effects::new()).unwrap();
            partition.high_watermark() == partition.log().end()
        })
    }
}

fn is_noted(site: &Site) -> bool {
    fs::read_to_string(site.at("a/vltava-lax-checkpoint")).is_ok_and(|text| text.contains("t 0 "))
}

#[test]
fn records_count_before_they_are_durable_only_once_that_is_noted() {
    let (ack, os) = ([("flush.policy", "ack")], [("flush.policy", "os")]);
    for when in [When::Made, When::Opened, When::Reconfigured] {
        let site = Site::new();
        let in_the_way = site.at("a/vltava-lax-checkpoint.tmp");
        let life = site.start_with(&["a"], if matches!(when, When::Made) { &os } else { &ack });
        let life = match when {
            When::Made => {
                fs::create_dir(&in_the_way).unwrap();
                life.create("t", 1);
                life
            }
            When::Opened => {
                life.create("t", 1);
                life.stop();
                fs::create_dir(&in_the_way).unwrap();
                site.start_with(&["a"], &os)
            }
            When::Reconfigured => {
                life.create("t", 1);
                fs::create_dir(&in_the_way).unwrap();
                life.relax();
                life
            }
        };
        assert!(!is_noted(&site) && !life.counts_early(), "{when:?}: a power cut would lose it unseen");
        fs::remove_dir(&in_the_way).unwrap();
        life.checkpoint();
        assert!(is_noted(&site) && life.counts_early(), "{when:?}");
        life.stop();
    }
}

#[test]
fn a_log_is_not_made_while_the_offsets_of_an_earlier_one_of_its_name_are_there() {
    let site = Site::new();
    let life = site.start_with(&["a"], &[("log.flush.offset.checkpoint.interval.ms", "2147483647")]);
    let old = life.create("t", 1).id;
    life.append(old, 0, 5).unwrap();
    life.checkpoint();
    life.delete(old);
    let in_the_way = site.at("a/recovery-point-offset-checkpoint.tmp");
    fs::create_dir(&in_the_way).unwrap();
    life.decide(life.new_topic("t", 1));
    let new = life.topic("t");
    assert_eq!((life.offline(), life.bounds(new, 0)), (1, None), "it would be cut at the start");
    fs::remove_dir(in_the_way).unwrap();
    life.create("u", 1);
    assert_eq!((life.offline(), life.append(new, 0, 3)), (0, Some(3)));
    life.stop();
}
