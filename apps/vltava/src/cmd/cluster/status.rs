//! `vltava cluster status`.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use anyhow::Result;
use base::BrokerId;
use client::Admin;
use client::admin::{AdminError, OngoingReassignment, Partition, QuorumDescription, QuorumMember};
use serde_json::{Value, json};

use super::super::admin::say_failures;
use super::add::replaced_disk;
use super::movement::{counted, ongoing_table};
use super::remove::quorum;
use super::survey::{Disks, Survey, ids};
use crate::failure::Asked;
use crate::output::{Table, size};

/// A voter that lives says something several times a second.
const SILENT_MS: i64 = 3_000;

/// A broker that is well says within this time what it has: what is known of the others is not to wait for it.
const DISKS_MAX: Duration = Duration::from_millis(1_500);

/// What there is to say of one node.
struct Node<'a> {
    id: BrokerId,
    /// `None` of a node that is no broker.
    is_up: Option<bool>,
    address: String,
    rack: Option<&'a str>,
    /// What it is to the quorum.
    role: &'static str,
    /// How many records of the metadata it lacks.
    behind: Option<i64>,
    leads: usize,
    replicas: usize,
    disks: Option<&'a Disks>,
    /// It is said to be up, and says nothing.
    is_unheard: bool,
}

impl Node<'_> {
    fn state(&self) -> &'static str {
        match self.is_up {
            Some(true) if self.disks.is_some_and(|disks| disks.failed_dirs > 0) => "up, a disk failed",
            Some(true) if self.disks.is_some_and(|disks| disks.is_cordoned) => "drained",
            Some(true) if self.is_unheard => "not heard",
            Some(true) => "up",
            Some(false) => "down",
            None => "no broker",
        }
    }
}

/// How partitions are.
#[derive(Default)]
struct Health {
    partitions: usize,
    /// Some replicas are not in sync.
    behind: usize,
    /// Nobody leads.
    offline: usize,
}

pub(super) fn run(admin: &Admin, as_json: bool, out: &mut dyn Write) -> Result<()> {
    let quorum = quorum(admin)?;
    let survey = Survey::take_soon(admin, DISKS_MAX)?;
    let ongoing = admin.list_reassignments().wait()?;
    let nodes = nodes(&survey, quorum.as_ref());
    let health = health(&survey);
    if as_json {
        let said = as_value(&survey, quorum.as_ref(), &nodes, &health, &ongoing);
        writeln!(out, "{said:#}")?;
    } else {
        show(&survey, quorum.as_ref(), &nodes, &health, &ongoing, out)?;
    }
    // Of those that are not heard the table tells.
    let failures = survey.failures.into_values();
    let failures = failures.filter(|error| !matches!(error, AdminError::TimedOut { .. }));
    say_failures(failures.collect(), Asked::Cluster)
}

fn nodes<'a>(survey: &'a Survey, quorum: Option<&QuorumDescription>) -> Vec<Node<'a>> {
    let (mut leads, mut replicas) = (BTreeMap::new(), BTreeMap::new());
    for partition in partitions(survey) {
        partition.leader.into_iter().for_each(|id| *leads.entry(id).or_insert(0) += 1);
        partition.replicas.iter().for_each(|id| *replicas.entry(*id).or_insert(0) += 1);
    }
    let member = |id: BrokerId| {
        let voter = quorum.and_then(|quorum| quorum.voters.iter().find(|it| it.id == id));
        let observer = quorum.and_then(|quorum| quorum.observers.iter().find(|it| it.id == id));
        let voter = voter.filter(|_| !has_other_disk(quorum, id));
        let role = match (quorum, voter, observer) {
            (Some(quorum), Some(_), _) if quorum.leader == id => "leads",
            (_, Some(_), _) => "votes",
            (_, None, Some(_)) => "follows",
            (_, None, None) => "",
        };
        let end = voter.or(observer).map(|it| it.log_end.0).filter(|end| *end >= 0);
        let behind = end.zip(quorum).map(|(end, quorum)| (quorum.high_watermark.0 - end).max(0));
        (role, behind)
    };
    let mut nodes: Vec<Node<'a>> = Vec::new();
    for broker in &survey.cluster.brokers {
        let (role, behind) = member(broker.id);
        nodes.push(Node {
            id: broker.id,
            is_up: Some(!broker.is_fenced),
            address: format!("{}:{}", broker.host, broker.port),
            rack: broker.rack.as_deref(),
            role,
            behind,
            leads: leads.get(&broker.id).copied().unwrap_or(0),
            replicas: replicas.get(&broker.id).copied().unwrap_or(0),
            disks: survey.disks.get(&broker.id),
            is_unheard: matches!(survey.failures.get(&broker.id), Some(AdminError::TimedOut { .. })),
        });
    }
    let members = quorum.into_iter().flat_map(|quorum| quorum.voters.iter().chain(&quorum.observers));
    for it in members.filter(|it| !survey.cluster.brokers.iter().any(|broker| broker.id == it.id)) {
        if nodes.iter().any(|node| node.id == it.id) {
            continue;
        }
        let (role, behind) = member(it.id);
        nodes.push(no_broker(it, role, behind));
    }
    nodes.sort_by_key(|node| node.id);
    nodes
}

/// Voters of whom their leader has heard nothing for too long.
fn silent(quorum: &QuorumDescription) -> Vec<BrokerId> {
    let heard_ms = |it: &QuorumMember| it.fetched_at.map(|at| at.0);
    let leader = quorum.voters.iter().find(|it| it.id == quorum.leader);
    let Some(now_ms) = leader.and_then(heard_ms) else { return Vec::new() };
    let is_silent = |it: &&QuorumMember| heard_ms(it).is_some_and(|at| now_ms - at > SILENT_MS);
    quorum.voters.iter().filter(is_silent).map(|it| it.id).collect()
}

/// What the leader of the quorum hears of the others.
fn show_quorum(quorum: &QuorumDescription, out: &mut dyn Write) -> Result<()> {
    let (leader, epoch, end) = (quorum.leader, quorum.leader_epoch, quorum.high_watermark);
    writeln!(out, "Quorum  led by {leader} in epoch {epoch}, committed up to {end}")?;
    let (count, silent) = (quorum.voters.len(), silent(quorum));
    if silent.is_empty() {
        return Ok(());
    }
    writeln!(out, "        voters that are not heard: {}", ids(&silent))?;
    let heard = count - silent.len();
    if heard <= count / 2 {
        writeln!(
            out,
            "        {heard} of {count} is no majority: nothing is decided, and what is shown here is as it was"
        )?;
    }
    Ok(())
}

/// Whether a node has lost the disk that it votes with, and follows with another.
fn has_other_disk(quorum: Option<&QuorumDescription>, id: BrokerId) -> bool {
    quorum.is_some_and(|quorum| replaced_disk(quorum, id).is_some())
}

fn no_broker<'a>(member: &QuorumMember, role: &'static str, behind: Option<i64>) -> Node<'a> {
    let address = member.endpoint.as_ref().map(|(_, host, port)| format!("{host}:{port}"));
    Node {
        id: member.id,
        is_up: None,
        address: address.unwrap_or_default(),
        rack: None,
        role,
        behind,
        leads: 0,
        replicas: 0,
        disks: None,
        is_unheard: false,
    }
}

fn partitions(survey: &Survey) -> impl Iterator<Item = &Partition> {
    survey.topics.iter().flat_map(|topic| &topic.partitions)
}

fn health(survey: &Survey) -> Health {
    let mut health = Health::default();
    for partition in partitions(survey) {
        health.partitions += 1;
        health.behind += usize::from(partition.in_sync.len() < partition.replicas.len());
        health.offline += usize::from(partition.leader.is_none());
    }
    health
}

fn show(
    survey: &Survey,
    quorum: Option<&QuorumDescription>,
    nodes: &[Node<'_>],
    health: &Health,
    ongoing: &[OngoingReassignment],
    out: &mut dyn Write,
) -> Result<()> {
    writeln!(out, "Cluster {}", survey.cluster.id)?;
    if let Some(quorum) = quorum {
        show_quorum(quorum, out)?;
    }
    writeln!(out)?;
    let mut table = Table::new(&[
        "node", "state", "quorum", "behind", "address", "rack", "leads", "replicas", "bytes", "free",
    ]);
    for node in nodes {
        let bytes = node.disks.map(|disks| size(disks.bytes())).unwrap_or_default();
        let free = node.disks.and_then(|disks| disks.usable_bytes).map(size).unwrap_or_default();
        table.row([
            node.id.to_string(),
            node.state().to_owned(),
            node.role.to_owned(),
            node.behind.map(|behind| behind.to_string()).unwrap_or_default(),
            node.address.clone(),
            node.rack.unwrap_or_default().to_owned(),
            node.leads.to_string(),
            node.replicas.to_string(),
            bytes,
            free,
        ]);
    }
    writeln!(out, "{table}\n")?;
    for node in nodes.iter().filter(|node| has_other_disk(quorum, node.id)) {
        let id = node.id;
        writeln!(
            out,
            "node {id} has lost the disk that it votes with: `vltava cluster add {id}` gives it its vote\n"
        )?;
    }
    writeln!(
        out,
        "{}, {}: {} without a leader, {} with replicas that are not in sync",
        counted(survey.topics.len(), "topic"),
        counted(health.partitions, "partition"),
        health.offline,
        health.behind
    )?;
    if !ongoing.is_empty() {
        writeln!(out, "\n{} on their way:\n{}", ongoing.len(), ongoing_table(ongoing))?;
    }
    Ok(())
}

fn as_value(
    survey: &Survey,
    quorum: Option<&QuorumDescription>,
    nodes: &[Node<'_>],
    health: &Health,
    ongoing: &[OngoingReassignment],
) -> Value {
    let node = |node: &Node<'_>| {
        json!({
            "id": node.id.0,
            "broker": node.is_up.is_some(),
            "up": node.is_up,
            "heard": node.is_up.map(|is_up| is_up && !node.is_unheard),
            "quorum": Some(node.role).filter(|role| !role.is_empty()),
            "records_behind": node.behind,
            "address": node.address,
            "drained": node.disks.map(|disks| disks.is_cordoned),
            "rack": node.rack,
            "leads": node.leads,
            "replicas": node.replicas,
            "bytes": node.disks.map(Disks::bytes),
            "usable_bytes": node.disks.and_then(|disks| disks.usable_bytes),
        })
    };
    let moving = |it: &OngoingReassignment| {
        let ids = |ids: &[BrokerId]| ids.iter().map(|id| id.0).collect::<Vec<_>>();
        json!({
            "topic": it.topic,
            "partition": it.partition.0,
            "replicas": ids(&it.replicas),
            "coming": ids(&it.adding),
            "going": ids(&it.removing),
        })
    };
    let quorum = quorum.map(|quorum| {
        json!({
            "leader": quorum.leader.0,
            "leader_epoch": quorum.leader_epoch.0,
            "high_watermark": quorum.high_watermark.0,
            "voters": quorum.voters.iter().map(|it| it.id.0).collect::<Vec<_>>(),
            "silent_voters": silent(quorum).into_iter().map(|id| id.0).collect::<Vec<_>>(),
            "observers": quorum.observers.iter().map(|it| it.id.0).collect::<Vec<_>>(),
        })
    });
    json!({
        "cluster": survey.cluster.id,
        "quorum": quorum,
        "nodes": nodes.iter().map(node).collect::<Value>(),
        "topics": survey.topics.len(),
        "partitions": health.partitions,
        "partitions_without_leader": health.offline,
        "partitions_not_in_sync": health.behind,
        "moving": ongoing.iter().map(moving).collect::<Value>(),
    })
}

#[cfg(test)]
mod tests {
    use base::{LeaderEpoch, Offset, TimestampMs, Uuid};

    use super::*;

    fn shown(heard_ms: [Option<i64>; 3]) -> String {
        let voter = |(id, at): (i32, Option<i64>)| QuorumMember {
            id: BrokerId(id),
            directory: Uuid::ZERO,
            log_end: Offset(7),
            fetched_at: at.map(TimestampMs),
            caught_up_at: None,
            endpoint: None,
        };
        let quorum = QuorumDescription {
            leader: BrokerId(1),
            leader_epoch: LeaderEpoch(2),
            high_watermark: Offset(7),
            voters: (1..).zip(heard_ms).map(voter).collect(),
            observers: Vec::new(),
        };
        let mut shown = Vec::new();
        show_quorum(&quorum, &mut shown).expect("it is written to memory");
        String::from_utf8(shown).expect("it is text")
    }

    #[test]
    fn a_broker_that_says_nothing_is_told_from_one_that_is_down_and_from_one_that_refuses() {
        let broker = |id, is_fenced| client::admin::Broker {
            id: BrokerId(id),
            host: "h".to_owned(),
            port: 1,
            rack: None,
            is_fenced,
        };
        let silence = AdminError::TimedOut {
            what: "broker 2".to_owned(),
            after: DISKS_MAX,
            cause: client::admin::Cause::NoAnswer,
            trouble: None,
            may_have_been_done: false,
        };
        let brokers = vec![broker(1, false), broker(2, false), broker(3, true), broker(4, false)];
        let cluster = client::admin::ClusterDescription { id: "c".to_owned(), controller: None, brokers };
        let survey = Survey {
            cluster,
            topics: Vec::new(),
            disks: BTreeMap::from([(BrokerId(1), Disks::default())]),
            failures: BTreeMap::from([(BrokerId(2), silence), (BrokerId(4), AdminError::Closed)]),
        };
        let nodes = nodes(&survey, None);
        let states: Vec<_> = nodes.iter().map(Node::state).collect();
        assert_eq!(states, ["up", "not heard", "down", "up"]);
        let said = as_value(&survey, None, &nodes, &Health::default(), &[]);
        let heard: Vec<_> = (0..4).map(|place| said["nodes"][place]["heard"].as_bool()).collect();
        assert_eq!(heard, [Some(true), Some(false), Some(false), Some(true)]);
    }

    #[test]
    fn a_leader_that_hears_no_majority_is_told_from_one_that_does() {
        let first = "Quorum  led by 1 in epoch 2, committed up to 7\n";
        let now = Some(10_000);
        assert_eq!(shown([now, Some(9_900), Some(7_000)]), first);
        assert_eq!(shown([None, Some(9_900), Some(1_000)]), first, "nobody says what time it is");
        assert_eq!(shown([now, None, Some(9_900)]), first, "it was never heard yet");
        let one = format!("{first}        voters that are not heard: 3\n");
        assert_eq!(shown([now, Some(9_900), Some(6_999)]), one);
        let both = shown([now, Some(1_000), Some(1_000)]);
        assert!(both.contains("not heard: 2,3\n        1 of 3 is no majority: nothing is decided"), "{both}");
    }
}
