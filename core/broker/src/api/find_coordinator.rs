//! FindCoordinator · key 10 · v0..=v6
//!
//! v1 transactions · v3 flexible · v4 several keys (KIP-699) · v6 share groups (KIP-932).
//!
//! A group is coordinated by whoever leads its partition of `__consumer_offsets`. The first who looks for one has
//! that topic made, and is answered when it is there: if somebody else was quicker, this broker may be told of it a
//! little later, and a client that is sent away comes back only after its backoff. Transactions and share groups have
//! no coordinator here, and the answer says so.

use std::collections::BTreeSet;
use std::time::Duration;

use base::{BrokerId, ErrorCode};
use controller::{ControllerError, Reply};
use metadata::Image;
use wire::messages::find_coordinator::{Coordinator, FindCoordinatorRequest, FindCoordinatorResponse};
use wire::{ApiKey, Decoder};

use super::{Api, on_demand, read};
use crate::call::{Call, CloseReason, Context, Outcome, Parked, ReplyTo, Session, Submission};
use crate::groups::{OFFSETS_TOPIC, partition_of};

/// See the module.
pub const API: Api = Api::new(ApiKey::FindCoordinator, 0..=6, handle);

const KEY_GROUP: i8 = 0;
const KEY_TRANSACTION: i8 = 1;
const KEY_SHARE: i8 = 2;

/// How long an answer waits for this broker to hear who leads the partitions: many times what it takes to be told.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// How often it looks meanwhile. Nothing rings when the cluster changes, and this happens once in a cluster's life.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What was asked.
struct Asked {
    reply: ReplyTo,
    kind: i8,
    keys: Vec<Box<str>>,
}

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let request: FindCoordinatorRequest<'_> = read(call, body)?;
    super::check_entries(request.coordinator_keys.len())?;
    let reply = call.reply;
    let keys = match reply.version {
        4.. => request.coordinator_keys.iter().map(|key| Box::from(*key)).collect(),
        _ => vec![Box::from(request.key)],
    };
    let asked = Asked { reply, kind: request.key_type, keys };
    if asked.kind != KEY_GROUP || call.context.image.topic(OFFSETS_TOPIC).is_some() {
        return Ok(answer(&call.context, &asked, None));
    }
    Ok(Outcome::Submit(Submission {
        command: on_demand::offsets_topic(&call.context),
        finish: Box::new(move |context, decision| finish(context, asked, decision)),
    }))
}

fn finish(context: &Context<'_>, asked: Asked, decision: Result<Reply, ControllerError>) -> Outcome {
    let refusal = match decision {
        Ok(Reply::CreateTopics(outcomes)) => outcomes.into_iter().find_map(Result::err),
        Ok(_) => unreachable!("a decision answers its command"),
        Err(error) => Some(error),
    };
    // Somebody else may have been quicker.
    let refusal = refusal.filter(|error| error.code() != ErrorCode::TopicAlreadyExists);
    match refusal {
        Some(error) => answer(context, &asked, Some(&super::words(&error))),
        None => {
            let now = context.now.elapsed;
            Box::new(ParkedFind { asked, until: now + WAIT_MAX, look_at: now }).settle(context)
        }
    }
}

/// The topic is made, and this broker may not know it yet.
struct ParkedFind {
    asked: Asked,
    until: Duration,
    look_at: Duration,
}

impl ParkedFind {
    fn settle(mut self: Box<Self>, context: &Context<'_>) -> Outcome {
        let now = context.now.elapsed;
        let is_found = self.asked.keys.iter().all(|key| locate(context, key).is_ok());
        if is_found || now >= self.until {
            return answer(context, &self.asked, None);
        }
        self.look_at = (now + LOOK_EVERY).min(self.until);
        Outcome::Parked(self)
    }
}

impl Parked for ParkedFind {
    fn key(&self) -> ApiKey {
        ApiKey::FindCoordinator
    }

    fn deadline(&self) -> Duration {
        self.look_at
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.asked.keys.iter().map(|key| size_of::<Box<str>>() + key.len()).sum::<usize>()
    }

    fn look(self: Box<Self>, context: Context<'_>, _: &mut Session) -> Outcome {
        self.settle(&context)
    }

    fn abandon(self: Box<Self>, _: Context<'_>, _: &Session) {}
}

/// Says who coordinates each; `trouble` says why the topic of committed offsets could not be made.
fn answer(context: &Context<'_>, asked: &Asked, trouble: Option<&str>) -> Outcome {
    let mut seen = BTreeSet::new();
    // One key may be named a hundred thousand times, and be told of once.
    let keys = asked.keys.iter().filter(|key| seen.insert(&***key));
    let found = keys.map(|key| {
        let found = match asked.kind {
            KEY_GROUP => locate(context, key).map_err(|code| (code, trouble.unwrap_or(NOBODY_LEADS))),
            KEY_TRANSACTION | KEY_SHARE => Err((ErrorCode::CoordinatorNotAvailable, NOT_SERVED)),
            _ => Err((ErrorCode::InvalidRequest, "no such kind of coordinator")),
        };
        told(key, found)
    });
    let coordinators: Vec<Coordinator<'_>> = found.collect();
    if asked.reply.version >= 4 {
        return asked.reply.answer(&FindCoordinatorResponse { coordinators, ..Default::default() });
    }
    let one = coordinators.into_iter().next().unwrap_or_default();
    asked.reply.answer(&FindCoordinatorResponse {
        error_code: one.error_code,
        error_message: one.error_message,
        node_id: one.node_id,
        host: one.host,
        port: one.port,
        ..Default::default()
    })
}

/// Clients retry COORDINATOR_NOT_AVAILABLE. Any other error ends librdkafka's consumers, which look for a coordinator
/// even if they only read partitions that were assigned by hand.
const NOBODY_LEADS: &str = "nobody leads the group's partition of __consumer_offsets for now";
const NOT_SERVED: &str = "this cluster coordinates groups, but neither transactions nor share groups";

fn told<'a>(key: &'a str, found: Result<(BrokerId, &'a str, u16), (ErrorCode, &'a str)>) -> Coordinator<'a> {
    match found {
        Ok((id, host, port)) => {
            Coordinator { key, node_id: id.0, host, port: port.into(), ..Coordinator::default() }
        }
        Err((code, why)) => Coordinator {
            key,
            node_id: -1,
            host: "",
            port: -1,
            error_code: code.code(),
            error_message: Some(why),
        },
    }
}

/// Who coordinates a group, and where clients reach it.
fn locate<'a>(context: &Context<'a>, group: &str) -> Result<(BrokerId, &'a str, u16), ErrorCode> {
    let image: &'a Image = context.image;
    let unavailable = ErrorCode::CoordinatorNotAvailable;
    let topic = image.topic(OFFSETS_TOPIC).ok_or(unavailable)?;
    let partition = image.partition(topic.id, partition_of(group, topic.partitions().len()));
    let leader = partition.map(|partition| super::metadata::standing(context, topic.id, partition).leader);
    let broker = leader.and_then(|leader| image.broker(leader)).ok_or(unavailable)?;
    let endpoint = broker.client_endpoints().next().ok_or(unavailable)?;
    Ok((broker.id, &endpoint.host, endpoint.port))
}
