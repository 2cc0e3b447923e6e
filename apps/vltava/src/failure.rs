//! Errors for people: what happened, where, and what to do about it.

use std::borrow::Cow;
use std::io;

use base::ErrorCode;
use client::admin::{AdminError, Cause};
use client::consumer::ConsumeError;
use client::plan::PlanError;
use client::producer::{DeliveryError, SendError};

use crate::reach::Unreachable;

/// What was asked for: advice names the options of that command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    TopicAlter,
    Topic,
    Cluster,
    Group,
    /// `produce` or `consume`.
    Records,
    /// `perf producer` or `perf consumer`.
    Perf,
    PerfLatency,
    Other,
}

impl Asked {
    /// How a setting of the client is given.
    fn setting(self, pair: &str) -> String {
        match self {
            Self::Records => format!("-X {pair}"),
            Self::Perf => format!("--command-property {pair}"),
            Self::PerfLatency => format!("{pair} in the file of --command-config"),
            Self::TopicAlter | Self::Topic | Self::Cluster | Self::Group | Self::Other => pair.to_owned(),
        }
    }

    const fn has_timeout(self) -> bool {
        matches!(self, Self::TopicAlter | Self::Topic | Self::Cluster | Self::Group)
    }
}

/// An error in words, with advice on a line of its own where there is some.
pub(crate) fn describe(error: &anyhow::Error, asked: Asked) -> String {
    let advice = error.chain().find_map(|cause| {
        None.or_else(|| cause.downcast_ref().map(advice_on_connecting).map(Cow::Borrowed))
            .or_else(|| {
                cause.downcast_ref().and_then(|error| advice_on_admin(error, asked)).map(Cow::Borrowed)
            })
            .or_else(|| cause.downcast_ref().and_then(|error| advice_on_send(error, asked)))
            .or_else(|| {
                cause.downcast_ref().and_then(|error| advice_on_delivery(error, asked)).map(Cow::Borrowed)
            })
            .or_else(|| cause.downcast_ref().and_then(|error| advice_on_consume(error, asked)))
            .or_else(|| cause.downcast_ref().and_then(advice_on_plan).map(Cow::Borrowed))
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

fn advice_on_admin(error: &AdminError, asked: Asked) -> Option<&'static str> {
    match error {
        AdminError::Refused { code, .. } => advice_on_refusal(*code, asked),
        AdminError::TimedOut { cause: Cause::NotReached, .. } => {
            Some("does this port speak the Kafka protocol, without TLS? is the server well? see its log")
        }
        AdminError::TimedOut { .. } if asked.has_timeout() => {
            Some("the cluster is busy or unwell; see its log, or wait longer with --timeout")
        }
        AdminError::TimedOut { .. } => Some("the cluster is busy or unwell; see its log"),
        _ => None,
    }
}

fn advice_on_send(error: &SendError, asked: Asked) -> Option<Cow<'static, str>> {
    match error {
        SendError::Topic { code, .. } => advice_on_refusal(*code, asked).map(Cow::Borrowed),
        SendError::TooLarge { .. } => {
            let setting = asked.setting("max.request.size=BYTES");
            let advice = "allows longer records, if the topic's max.message.bytes does, too";
            Some(Cow::Owned(format!("{setting} {advice}")))
        }
        SendError::Full | SendError::TopicNotKnownYet { .. } => {
            Some(Cow::Borrowed("the server is busy or unwell; see its log"))
        }
        SendError::Partition { .. } | SendError::Timestamp(_) | SendError::Closed | SendError::Failed(_) => {
            None
        }
    }
}

fn advice_on_delivery(error: &DeliveryError, asked: Asked) -> Option<&'static str> {
    match error {
        DeliveryError::Refused { code, .. } => advice_on_refusal(*code, asked),
        DeliveryError::TimedOut { .. } => Some("the server is busy or unwell; see its log"),
        DeliveryError::Failed { code, .. } => advice_on_refusal(*code, asked),
        DeliveryError::Closed { .. } => None,
    }
}

fn advice_on_consume(error: &ConsumeError, asked: Asked) -> Option<Cow<'static, str>> {
    match error {
        ConsumeError::Refused(code) => advice_on_refusal(*code, asked).map(Cow::Borrowed),
        ConsumeError::OutOfRange(_) => Some(Cow::Owned(format!(
            "retention was faster, or the topic was made anew; {} goes on with what is there",
            asked.setting("auto.offset.reset=earliest")
        ))),
        ConsumeError::NoOffset
        | ConsumeError::Group(_)
        | ConsumeError::Truncated { .. }
        | ConsumeError::Corrupt { .. } => None,
    }
}

fn advice_on_plan(error: &PlanError) -> Option<&'static str> {
    match error {
        PlanError::Nowhere { .. } => Some(
            "add a broker or free some space; or have fewer replicas with `vltava topic alter TOPIC \
             --replication-factor N`",
        ),
        PlanError::UnknownBroker(_) => Some("`vltava cluster status` shows the brokers there are"),
        PlanError::NoReplicas => None,
    }
}

fn advice_on_refusal(code: ErrorCode, asked: Asked) -> Option<&'static str> {
    match code {
        ErrorCode::UnknownTopicOrPartition => Some("`vltava topic list` shows the topics there are"),
        ErrorCode::TopicAlreadyExists => Some("`vltava topic alter` changes a topic"),
        ErrorCode::InvalidConfig => Some("`vltava config show NAME` says what a setting takes"),
        ErrorCode::InvalidReplicaAssignment => Some(
            "`vltava topic alter TOPIC --replication-factor N` gives up replicas on brokers that are down before any other; \
             after `vltava topic alter TOPIC --config min.insync.replicas=1` fewer are enough",
        ),
        ErrorCode::InvalidReplicationFactor => Some("there must be a broker for each replica"),
        ErrorCode::MessageTooLarge | ErrorCode::RecordListTooLarge => {
            Some("`vltava topic alter TOPIC --config max.message.bytes=BYTES` allows longer records")
        }
        ErrorCode::InvalidPartitions if asked == Asked::TopicAlter => {
            Some("a topic can be given more partitions, never fewer")
        }
        ErrorCode::InvalidPartitions => Some("a topic has one partition or more"),
        ErrorCode::GroupIdNotFound => Some("`vltava group list` shows the groups there are"),
        ErrorCode::NonEmptyGroup => {
            Some("stop its members first; `vltava group members GROUP` says who they are, and where")
        }
        ErrorCode::UnknownMemberId if asked == Asked::Group => {
            Some("somebody joined the group meanwhile: stop its members, and say it again")
        }
        _ => None,
    }
}

/// Whether whoever reads the output has read enough.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_names_options_that_the_command_has() {
        let too_large = || SendError::TooLarge { size: 2, max: 1 }.into();
        for (asked, option) in [
            (Asked::Records, "\n  -X max.request.size=BYTES allows"),
            (Asked::Perf, "\n  --command-property max.request.size=BYTES allows"),
            (Asked::PerfLatency, "\n  max.request.size=BYTES in the file of --command-config allows"),
        ] {
            let said = describe(&too_large(), asked);
            assert!(said.contains(option), "{said}");
        }
        let slow = || AdminError::TimedOut {
            what: "topic t".to_owned(),
            after: std::time::Duration::from_secs(1),
            cause: Cause::NoController,
            trouble: None,
            may_have_been_done: false,
        };
        for (asked, has_timeout) in [(Asked::Topic, true), (Asked::Records, false), (Asked::Perf, false)] {
            let said = describe(&slow().into(), asked);
            assert!(said.contains("see its log"), "{said}");
            assert_eq!(said.contains("--timeout"), has_timeout, "{said}");
        }
    }
}
