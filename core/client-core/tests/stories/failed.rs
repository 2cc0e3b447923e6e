//! A producer that can write nothing more.

use std::time::Duration;

use base::ErrorCode;
use vltava_client_core::producer::{DeliveryError, ProducerSettings};

use crate::stage::Stage;

#[test]
fn it_has_nothing_to_do_any_more() {
    let mut stage = Stage::new(ProducerSettings::default());
    stage.identity_code = ErrorCode::CoordinatorLoadInProgress;
    stage.send_value(b"taken before anybody knows");
    assert_eq!(stage.producer.outstanding(), 1);
    stage.identity_code = ErrorCode::ClusterAuthorizationFailed;
    stage.pass(Duration::from_secs(1));
    let [(0, 1, Err(error @ DeliveryError::Failed { may_be_written: false, .. }))] = &stage.done[..] else {
        panic!("{:?}", stage.done)
    };
    assert!(error.is_fatal() && !error.is_retriable());
    let refused = stage.try_send_value(b"taken by nobody").expect_err("it failed");
    assert!(refused.is_fatal() && !refused.is_retriable(), "{refused}");
    stage.pass(ProducerSettings::default().delivery_timeout);
    let now = stage.now();
    let deadline = stage.producer.deadline(now);
    assert!(deadline.is_none_or(|at| at > now.elapsed), "{deadline:?} at {:?}", now.elapsed);
}
