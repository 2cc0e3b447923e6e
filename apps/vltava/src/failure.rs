//! Errors for people: what happened, where, and what to do about it.

use std::io;

use base::ErrorCode;
use client::admin::{AdminError, Cause};
use client::consumer::ConsumeError;
use client::producer::{DeliveryError, SendError};

use crate::reach::Unreachable;

/// An error in words, with advice on a line of its own where there is some.
pub(crate) fn describe(error: &anyhow::Error) -> String {
    let advice = error.chain().find_map(|cause| {
        None.or_else(|| cause.downcast_ref().map(advice_on_connecting))
            .or_else(|| cause.downcast_ref().and_then(advice_on_admin))
            .or_else(|| cause.downcast_ref().and_then(advice_on_send))
            .or_else(|| cause.downcast_ref().and_then(advice_on_delivery))
            .or_else(|| cause.downcast_ref().and_then(advice_on_consume))
    });
    let what = in_words(error);
    match advice {
        Some(advice) => format!("error: {what}\n  {advice}"),
        None => format!("error: {what}"),
    }
}

/// An error and what caused it. Some errors tell of their cause themselves: nothing is said twice.
fn in_words(error: &anyhow::Error) -> String {
    let mut said = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !said.contains(&cause) {
            let colon = if said.is_empty() { "" } else { ": " };
            said.push_str(colon);
            said.push_str(&cause);
        }
    }
    said
}

// What to do about it, where that is not plain from what happened.

fn advice_on_connecting(Unreachable { reason, .. }: &Unreachable) -> &'static str {
    match reason.kind() {
        io::ErrorKind::ConnectionRefused => {
            "is a server running there? start one with `vltava server`, or name another with --bootstrap-server"
        }
        _ => "check the host and the port given with --bootstrap-server",
    }
}

fn advice_on_admin(error: &AdminError) -> Option<&'static str> {
    match error {
        AdminError::Refused { code, .. } => advice_on_refusal(*code),
        AdminError::TimedOut { cause: Cause::NotReached, .. } => {
            Some("does this port speak the Kafka protocol, without TLS? is the server well? see its log")
        }
        AdminError::TimedOut { .. } => {
            Some("the cluster is busy or unwell; see its log, or wait longer with --timeout")
        }
        _ => None,
    }
}

fn advice_on_send(error: &SendError) -> Option<&'static str> {
    match error {
        SendError::Topic { code, .. } => advice_on_refusal(*code),
        SendError::TooLarge { .. } => Some(
            "-X max.request.size=BYTES allows longer records, if the topic's max.message.bytes does, too",
        ),
        SendError::Full | SendError::TopicNotKnownYet => Some("the server is busy or unwell; see its log"),
        SendError::Partition { .. } | SendError::Timestamp(_) | SendError::Closed | SendError::Failed(_) => {
            None
        }
    }
}

fn advice_on_delivery(error: &DeliveryError) -> Option<&'static str> {
    match error {
        DeliveryError::Refused { code, .. } => advice_on_refusal(*code),
        DeliveryError::TimedOut { .. } => Some("the server is busy or unwell; see its log"),
        DeliveryError::Closed { .. } => None,
    }
}

fn advice_on_consume(error: &ConsumeError) -> Option<&'static str> {
    match error {
        ConsumeError::Refused(code) => advice_on_refusal(*code),
        ConsumeError::OutOfRange(_) => Some(
            "retention was faster, or the topic was made anew; -X auto.offset.reset=earliest goes on with what is there",
        ),
        ConsumeError::Truncated { .. } | ConsumeError::Corrupt { .. } => None,
    }
}

fn advice_on_refusal(code: ErrorCode) -> Option<&'static str> {
    match code {
        ErrorCode::UnknownTopicOrPartition => Some("`vltava topic list` shows the topics there are"),
        ErrorCode::TopicAlreadyExists => Some("`vltava topic alter` changes a topic"),
        ErrorCode::InvalidConfig => Some("`vltava config show NAME` says what a setting takes"),
        ErrorCode::InvalidReplicationFactor => Some("there must be a broker for each replica"),
        ErrorCode::MessageTooLarge | ErrorCode::RecordListTooLarge => {
            Some("`vltava topic alter TOPIC --config max.message.bytes=BYTES` allows longer records")
        }
        ErrorCode::InvalidPartitions => Some("a topic can be given more partitions, never fewer"),
        _ => None,
    }
}

/// Whether whoever reads the output has read enough.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
