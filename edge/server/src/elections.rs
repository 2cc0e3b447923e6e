//! Leaders that were elected although they may lack what was acknowledged: said by the node that decided it, and
//! by the one that leads.

use base::{BrokerId, TopicPartition};
use metadata::settings::{Layers, UNCLEAN_ELECTION, allows_unclean_election};
use metadata::{ConfigMap, ConfigResource, Delta, Image, UncleanElection};
use telemetry::ReplicationMetrics;
use tracing::{error, warn};

/// Who says it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum By<'a> {
    /// The node whose controller decided it, with what it was given at start.
    Controller(&'a ConfigMap),
    /// The broker that leads, which counts it, too.
    Leader(BrokerId),
}

/// Says which leaders of a change were elected without being in sync or eligible.
pub(crate) fn tell(by: By<'_>, image: &Image, delta: &Delta, metrics: &ReplicationMetrics) {
    for election in &delta.unclean_elections {
        if let By::Leader(me) = by {
            if election.leader != me {
                continue;
            }
            match election.is_last_known {
                true => metrics.last_known_elections.inc(),
                false => metrics.unclean_elections.inc(),
            }
        }
        say(by, image, election);
    }
}

fn say(by: By<'_>, image: &Image, election: &UncleanElection) {
    let Some(topic) = image.topic_by_id(election.topic) else { return };
    let partition = TopicPartition { topic: topic.name.clone(), partition: election.partition };
    let UncleanElection { before, leader, epoch, is_last_known, .. } = election;
    let before = match *before {
        BrokerId::NONE => "nobody".to_owned(),
        before => before.to_string(),
    };
    let why = why(by, image, election);
    match (by, is_last_known) {
        (By::Controller(_), false) => error!(
            %partition, before, %leader, %epoch, why,
            "unclean election: the new leader was not in sync; acknowledged records that only others have are lost, and \
             are cut from their logs when they come back"
        ),
        (By::Controller(_), true) => warn!(
            %partition, before, %leader, %epoch, why,
            "elected the last known leader: acknowledged records that it lost, or that only others have, are lost, and \
             are cut from their logs when they come back"
        ),
        (By::Leader(_), false) => error!(
            %partition, before, %leader, %epoch, why,
            "this broker leads after an unclean election: it was not in sync, and acknowledged records may be missing"
        ),
        (By::Leader(_), true) => warn!(
            %partition, before, %leader, %epoch, why,
            "this broker leads as the last known leader: acknowledged records may be missing"
        ),
    }
}

/// Why it was allowed.
fn why(by: By<'_>, image: &Image, election: &UncleanElection) -> String {
    if election.is_last_known {
        return "nobody was in sync or eligible, and it led last".to_owned();
    }
    let nothing = ConfigMap::new();
    let default_broker = image.configs(&ConfigResource::DefaultBroker);
    let (fixed, asked) = match by {
        By::Controller(fixed) => (fixed, "it was asked for"),
        By::Leader(_) => (&nothing, "it was asked for, or the controller's settings allow it"),
    };
    let layers = Layers { broker: &nothing, default_broker, fixed };
    let topic = image.topic_by_id(election.topic).map(|topic| ConfigResource::Topic(topic.name.clone()));
    let own = topic.as_ref().map_or(&nothing, |topic| image.configs(topic));
    match allows_unclean_election(own, layers) {
        true => format!("{UNCLEAN_ELECTION}=true"),
        false => asked.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use base::{Offset, PartitionIndex, TopicId, TopicName, Uuid};
    use metadata::{ConfigChange, MetadataRecord, NewPartition, NewTopic, PartitionChange};
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Level, Metadata, Subscriber};

    use super::*;

    const TOPIC: TopicId = TopicId(Uuid([5; 16]));

    /// The lines that were logged, as they are read.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<String>>>);

    struct Line(String);

    impl Visit for Line {
        fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
            self.0 += &format!(" {field}={value:?}");
        }
    }

    impl Subscriber for Lines {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            *metadata.level() <= Level::WARN
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, event: &Event<'_>) {
            let mut line = Line(event.metadata().level().to_string());
            event.record(&mut line);
            self.0.lock().unwrap().push(line.0);
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    /// What is said of changes of a partition of brokers 1 and 2, which 1 leads alone in sync.
    fn said(
        by: By<'_>,
        changes: Vec<PartitionChange>,
        unclean: bool,
        metrics: &ReplicationMetrics,
    ) -> Vec<String> {
        let name = TopicName::new("t").expect("legal");
        let replicas = vec![BrokerId(1), BrokerId(2)];
        let mut records = vec![
            MetadataRecord::Topic(NewTopic { name: name.clone(), id: TOPIC }),
            MetadataRecord::Partition(NewPartition::first(
                TOPIC,
                PartitionIndex(0),
                replicas,
                vec![BrokerId(1)],
            )),
        ];
        if unclean {
            let (resource, value) = (ConfigResource::Topic(name), Some("true".to_owned()));
            let name = UNCLEAN_ELECTION.to_owned();
            records.push(MetadataRecord::Config(ConfigChange { resource, name, value }));
        }
        let before = Image::default().after(&records, Offset(3)).0;
        let changes: Vec<_> = changes.into_iter().map(MetadataRecord::PartitionChange).collect();
        let (image, delta) = before.after(&changes, Offset(9));
        let lines = Lines::default();
        tracing::subscriber::with_default(lines.clone(), || {
            tell(by, &image, &delta, metrics);
        });
        lines.0.lock().unwrap().clone()
    }

    fn elected(leader: i32, recovering: Option<bool>) -> PartitionChange {
        let isr = Some(vec![BrokerId(leader)]);
        let leader = Some(BrokerId(leader));
        PartitionChange { leader, isr, recovering, ..PartitionChange::of(TOPIC, PartitionIndex(0)) }
    }

    /// Nobody is left: the one that led last is remembered.
    fn vacant() -> PartitionChange {
        let (leader, isr, last_known_eligible) =
            (Some(BrokerId::NONE), Some(Vec::new()), Some(vec![BrokerId(1)]));
        let nothing = PartitionChange::of(TOPIC, PartitionIndex(0));
        PartitionChange { leader, isr, last_known_eligible, ..nothing }
    }

    #[test]
    fn an_unclean_election_is_said_where_it_was_decided_and_where_it_is_so() {
        let (metrics, given) = (ReplicationMetrics::default(), ConfigMap::new());
        let unclean = || vec![elected(2, Some(true))];
        let lines = said(By::Controller(&given), unclean(), true, &metrics);
        let [line] = &*lines else { panic!("{lines:?}") };
        for word in
            ["ERROR", "partition=t-0", "before=\"1\"", "leader=2", "election.enable=true", "records", "lost"]
        {
            assert!(line.contains(word), "{word}: {line}");
        }
        assert_eq!(metrics.unclean_elections.get(), 0, "the leader counts it");
        let lines = said(By::Leader(BrokerId(2)), unclean(), false, &metrics);
        let [line] = &*lines else { panic!("{lines:?}") };
        for word in
            ["ERROR", "partition=t-0", "before=\"1\"", "leader=2", "asked for", "records may be missing"]
        {
            assert!(line.contains(word), "{word}: {line}");
        }
        assert_eq!(said(By::Leader(BrokerId(1)), unclean(), false, &metrics), Vec::<String>::new());
        assert_eq!((metrics.unclean_elections.get(), metrics.last_known_elections.get()), (1, 0));
    }

    #[test]
    fn the_last_known_leader_is_said_and_counted_apart() {
        let (metrics, given) = (ReplicationMetrics::default(), ConfigMap::new());
        let changes = || vec![vacant(), elected(1, Some(true))];
        for by in [By::Controller(&given), By::Leader(BrokerId(1))] {
            let lines = said(by, changes(), false, &metrics);
            let [line] = &*lines else { panic!("{lines:?}") };
            for word in ["WARN", "before=\"1\"", "leader=1", "last known leader", "records", "it led last"] {
                assert!(line.contains(word), "{word}: {line}");
            }
        }
        assert_eq!((metrics.unclean_elections.get(), metrics.last_known_elections.get()), (0, 1));
    }

    #[test]
    fn nothing_is_said_of_elections_in_good_order() {
        let (metrics, given) = (ReplicationMetrics::default(), ConfigMap::new());
        let joins = PartitionChange {
            isr: Some(vec![BrokerId(1), BrokerId(2)]),
            ..PartitionChange::of(TOPIC, PartitionIndex(0))
        };
        for changes in [vec![elected(1, None)], vec![joins, elected(2, None)], vec![vacant()]] {
            let lines = said(By::Controller(&given), changes.clone(), true, &metrics);
            assert_eq!(lines, Vec::<String>::new(), "{changes:?}");
        }
        // The leader recovers still, and begins anew.
        let again = vec![elected(2, Some(true)), elected(2, None)];
        assert_eq!(said(By::Leader(BrokerId(2)), again, true, &metrics).len(), 1);
    }
}
