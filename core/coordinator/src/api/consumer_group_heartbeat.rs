//! ConsumerGroupHeartbeat · key 68 · v0..=v1 (KIP-848)
//! v1 patterns, and ids that members bring (KIP-1082)
//!
//! | the group | when a member of the new protocol joins |
//! |---|---|
//! | is not there, or only has offsets | is made |
//! | is a classic one without members | is made; what was written of the old one goes with the same append |
//! | is a classic one with consumers | becomes one of both, if operators let it |

use std::sync::Arc;

use base::{ErrorCode, Offset};
use metadata::Image;
use wire::messages::consumer_group_heartbeat::ConsumerGroupHeartbeatRequest;

use crate::consumer::{
    self, ConsumerGroup, ConsumerGroupSettings, Context, Decision, EPOCH_JOIN, MigrationError,
};
use crate::group::classic::ClassicGroup;
use crate::group::{GroupKind, Groups, Place, count};
use crate::group_record::{GroupRecord, Record};
use crate::outcome::{Outcome, Turn};
use crate::request::{Caller, Ticket};
use crate::response::{HeardMember, Response};
use crate::settings::Step;

type Asks<'a> = ConsumerGroupHeartbeatRequest<'a>;

pub(crate) fn handle(
    groups: &mut Groups,
    at: &Step<'_>,
    (ticket, caller): (Ticket, &Caller<'_>),
    (asks, image): (&Asks<'_>, &Image),
    out: &mut Outcome,
) {
    let caller = consumer::Caller {
        version: caller.version,
        client_id: caller.client_id,
        client_host: caller.client_host,
        random: caller.random,
    };
    let settings = groups.settings_of(asks.group_id, image);
    let id = groups.id_of(asks.group_id).unwrap_or_else(|| asks.group_id.into());
    let has_room = groups.has_room();
    let mut place = Place { id: &id, now: at.now, image, written_to: Offset::ZERO };
    let classic = match groups.get_mut(asks.group_id).map(|group| (group.written_to, &mut group.kind)) {
        Some((written_to, GroupKind::Consumer(consumers))) => {
            place.written_to = written_to;
            consumers.settings = settings;
            if let Err(error) = consumers.on_heartbeat(&place, (ticket, &caller), asks, out) {
                out.reply(ticket, refused(error.code(), error.to_string()));
            }
            return;
        }
        Some((_, GroupKind::Classic(classic))) => Some(&*classic),
        None if !has_room && asks.member_epoch == EPOCH_JOIN => {
            let words = "This coordinator has as many groups as it may have.";
            return out.reply(ticket, refused(ErrorCode::GroupMaxSizeReached, words.into()));
        }
        None => None,
    };
    match begin(&place, classic, asks, &caller, &settings) {
        Ok((before, decision)) => {
            out.records.extend(before);
            place.write(decision.records, None, out);
            out.turn = Some(Turn::Consumer(settings));
            count(decision.rebalance, decision.reconciled, out);
            place.answer(ticket, Response::heard(decision.reply), out);
        }
        Err(error) => out.reply(ticket, refused(error.code(), error.to_string())),
    }
}

/// The first member of the new protocol joins: what takes the classic group away, if there is one, and what there is
/// instead. Nothing is kept before that is written.
fn begin(
    place: &Place<'_>,
    classic: Option<&ClassicGroup>,
    asks: &Asks<'_>,
    caller: &consumer::Caller<'_>,
    settings: &Arc<ConsumerGroupSettings>,
) -> Result<(Option<Record>, Decision), MigrationError> {
    let context = Context { now: place.now, image: place.image, settings };
    let tombstone = || GroupRecord::GroupMetadata { group: place.id, value: None }.encode();
    let written = classic.filter(|it| it.is_written()).map(|_| tombstone());
    match classic.filter(|it| !it.is_empty() && asks.member_epoch == EPOCH_JOIN) {
        None => {
            let decision = ConsumerGroup::new(place.id).heartbeat(asks, caller, &context)?;
            Ok((written, decision))
        }
        Some(classic) if !classic.speaks_consumer() => Err(MigrationError::NotAllowed(place.id.to_string())),
        Some(classic) => {
            let plain = classic.to_plain();
            let (_, decision) = ConsumerGroup::upgrade(place.id, &plain, asks, caller, &context)?;
            Ok((written, decision))
        }
    }
}

fn refused(error: ErrorCode, words: String) -> Response {
    let error_message = Some(words);
    Response::ConsumerGroupHeartbeat(HeardMember { error, error_message, reply: None })
}
