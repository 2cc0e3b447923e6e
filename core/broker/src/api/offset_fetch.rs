//! OffsetFetch · key 9 · v1..=v10
//!
//! v2 all topics, an error of the whole · v5 leader epochs (KIP-320) · v6 flexible · v7 stable offsets only (KIP-447) ·
//! v8 several groups (KIP-709) · v9 member epochs (KIP-848) · v10 topic ids (KIP-848).

use coordinator::{FetchedGroup, Request, Response};
use wire::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics, OffsetFetchResponse,
};
use wire::{ApiKey, Decoder};

use super::groups::{self, Say};
use super::{Api, read};
use crate::call::{Call, CloseReason, Outcome};

/// See the module.
pub const API: Api = Api::new(ApiKey::OffsetFetch, 1..=10, handle);

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let request: OffsetFetchRequest<'_> = read(call, body.clone())?;
    super::check_entries(entries(&request))?;
    // Versions before 8 have one group, and name it elsewhere.
    let alone = (call.reply.version < 8).then_some(request.group_id);
    let named = alone.into_iter().chain(request.groups.iter().map(|group| group.group_id));
    match groups::await_coordinator(call, &body, named, |call, body| Ok(ask(call, &read(call, body)?))) {
        Some(waits) => Ok(waits),
        None => Ok(ask(call, &request)),
    }
}

/// Topics and partitions that it names.
fn entries(request: &OffsetFetchRequest<'_>) -> usize {
    let of = |group: &OffsetFetchRequestGroup<'_>| {
        let topics = group.topics.iter().flatten();
        topics.map(|topic| topic.partition_indexes.len() + 1).sum::<usize>() + 1
    };
    let alone = request.topics.iter().flatten().map(|topic| topic.partition_indexes.len() + 1);
    alone.sum::<usize>() + request.groups.iter().map(of).sum::<usize>()
}

fn ask(call: &mut Call<'_>, request: &OffsetFetchRequest<'_>) -> Outcome {
    if call.reply.version < 8 {
        return ask_alone(call, request);
    }
    let asked = request.groups.iter().map(|group| (group.group_id, Request::OffsetFetch(group)));
    let parts = groups::ask_each(call, asked);
    let say: Say = Box::new(|reply, said| {
        let fetched: Vec<FetchedGroup> = said.into_iter().filter_map(fetched).collect();
        let groups = fetched.iter().map(FetchedGroup::to_wire).collect();
        reply.answer(&OffsetFetchResponse { groups, ..OffsetFetchResponse::default() })
    });
    groups::wait_for(call, parts, say)
}

fn ask_alone(call: &mut Call<'_>, request: &OffsetFetchRequest<'_>) -> Outcome {
    let topics = request.topics.as_ref().map(|topics| {
        let topics = topics.iter().map(|topic| OffsetFetchRequestTopics {
            name: topic.name,
            partition_indexes: topic.partition_indexes.clone(),
            ..OffsetFetchRequestTopics::default()
        });
        topics.collect()
    });
    let group =
        OffsetFetchRequestGroup { group_id: request.group_id, topics, ..OffsetFetchRequestGroup::default() };
    let say: Say = Box::new(|reply, mut said| match said.pop().and_then(fetched) {
        Some(fetched) => reply.answer(&fetched.to_wire_alone()),
        None => groups::misplaced(),
    });
    groups::ask_one(call, request.group_id, Request::OffsetFetch(&group), say)
}

fn fetched(said: Response) -> Option<FetchedGroup> {
    match said {
        Response::OffsetFetch(fetched) => Some(fetched),
        _ => None,
    }
}
