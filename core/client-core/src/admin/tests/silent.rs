//! Brokers that say nothing, on connections that stand.

use wire::messages::delete_groups::{DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse};
use wire::messages::describe_cluster::{DescribeClusterRequest, DescribeClusterResponse};
use wire::messages::describe_log_dirs::{DescribeLogDirsRequest, DescribeLogDirsResponse};
use wire::messages::list_partition_reassignments::{
    ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse,
};

use super::*;

const PATIENCE: Duration = Duration::from_secs(1);
const MOMENT: Duration = Duration::from_millis(1);

/// The brokers are known, and `boot` and `two` connected to.
fn known() -> Brokers {
    let mut brokers = Brokers::new();
    let call = brokers.begin(CREATE, topics(&["a"]));
    brokers.create(&[("a", ErrorCode::None)], 0);
    assert!(brokers.take(&call).remove(0).is_ok());
    brokers
}

fn by(brokers: &Brokers) -> Vec<&str> {
    brokers.asked.iter().map(|(connection, ..)| &*brokers.open[connection].host).collect()
}

/// The one who was asked last answers first.
fn last_first(brokers: &mut Brokers) {
    brokers.asked.rotate_right(1);
}

fn describe(brokers: &mut Brokers) {
    brokers.reply(&mut Vec::new(), |_: &DescribeClusterRequest| (), &DescribeClusterResponse::default());
}

#[test]
fn what_anybody_can_answer_is_asked_of_another() {
    let mut brokers = known();
    let call = brokers.begin(DescribeCluster, vec![()]);
    assert_eq!(by(&brokers), ["boot"]);
    brokers.pass(PATIENCE - MOMENT);
    assert_eq!(by(&brokers), ["boot"], "it may take its time");
    brokers.pass(MOMENT);
    assert_eq!(by(&brokers), ["boot", "two"]);
    last_first(&mut brokers);
    describe(&mut brokers);
    assert!(brokers.take(&call).remove(0).is_ok());
    // Nobody waits for the other.
    describe(&mut brokers);
    assert_eq!(brokers.done.len(), 2);
}

#[test]
fn whoever_takes_long_may_still_answer_first() {
    let mut brokers = known();
    let call = brokers.begin(DescribeCluster, vec![()]);
    brokers.pass(2 * PATIENCE);
    assert_eq!(by(&brokers), ["boot", "two", "one"], "each once");
    brokers.pass(20 * PATIENCE);
    assert_eq!(by(&brokers), ["boot", "two", "one"]);
    describe(&mut brokers);
    assert!(brokers.take(&call).remove(0).is_ok());
    describe(&mut brokers);
    describe(&mut brokers);
}

#[test]
fn what_is_a_certain_broker_s_to_answer_waits_for_it() {
    let mut brokers = known();
    let call = brokers.begin(DescribeLogDirs::default(), vec![BrokerId(1)]);
    brokers.pass(25 * PATIENCE);
    assert_eq!(by(&brokers), ["one"]);
    let said = DescribeLogDirsResponse::default();
    brokers.reply(&mut Vec::new(), |_: &DescribeLogDirsRequest<'_>| (), &said);
    assert!(brokers.take(&call).remove(0).is_ok());
}

#[test]
fn a_command_is_not_said_again_to_whoever_is_named_next() {
    let mut brokers = known();
    let command = brokers.begin(CREATE, topics(&["b"]));
    brokers.controller = 1;
    brokers.pass(25 * PATIENCE);
    assert_eq!(by(&brokers), ["two"]);
    brokers.create(&[("b", ErrorCode::None)], 0);
    assert!(brokers.take(&command).remove(0).is_ok());
    // A question is.
    let question = brokers.begin(ListReassignments, vec![()]);
    assert_eq!(by(&brokers), ["one"]);
    brokers.controller = 2;
    brokers.pass(2 * PATIENCE);
    assert_eq!(by(&brokers), ["one", "two"]);
    last_first(&mut brokers);
    let said = ListPartitionReassignmentsResponse::default();
    brokers.reply(&mut Vec::new(), |_: &ListPartitionReassignmentsRequest<'_>| (), &said);
    assert!(brokers.take(&question).remove(0).is_ok());
}

#[test]
fn leaders_and_coordinators_are_left_for_their_successors() {
    let mut brokers = known();
    let records = brokers.begin(DeleteRecords, vec![before(0)]);
    assert_eq!(by(&brokers), ["one"]);
    brokers.leaders = vec![2, 2];
    brokers.pass(2 * PATIENCE);
    assert_eq!(by(&brokers), ["two"]);
    brokers.admin.forget(records.id());

    let mut brokers = known();
    let call = brokers.begin(DeleteGroups, vec!["a".to_owned()]);
    brokers.say_coordinators(&[("a", Ok(1))]);
    brokers.pass(PATIENCE);
    assert_eq!(by(&brokers).len(), 2, "somebody else may know");
    last_first(&mut brokers);
    brokers.say_coordinators(&[("a", Ok(2))]);
    brokers.pass(PATIENCE);
    let results = vec![DeletableGroupResult { group_id: "a", error_code: 0, error_message: None }];
    let said = DeleteGroupsResponse { results, ..Default::default() };
    assert_eq!(brokers.reply(&mut Vec::new(), |_: &DeleteGroupsRequest<'_>| (), &said).0, "two");
    assert!(brokers.take(&call).remove(0).is_ok());
}
