//! I30: a malformed answer ends its connection, and nothing of it is believed. A client that it kills is
//! found as a panic.
//!
//! Malformed is what cannot be taken for another answer: a broker that lies about offsets is believed by
//! every client. What follows an answer about versions is passed over, for a newer broker may say more.

use client_core::{ConnectionId, NetEffect};

use crate::random::Random;
use crate::violation::Violation;

const NAME: &str = "I30 hostile bytes";

/// What a client did with a malformed answer.
#[derive(Debug)]
pub(in crate::client) enum Did<'a> {
    Net(&'a NetEffect),
    /// It took a record for written, or lent what it had read.
    Believed,
    Other,
}

/// Spoils an answer; whether it is malformed then.
pub(in crate::client) fn spoil(what: &str, answer: &mut Vec<u8>, random: &mut Random) -> bool {
    match random.below(3) {
        0 => answer.truncate(random.index(answer.len())),
        1 => {
            answer.extend((0..=random.below(9)).map(|byte| byte as u8));
            return what != "ApiVersions";
        }
        _ => answer[..4].copy_from_slice(&(random.bits() as u32 | 1 << 31).to_be_bytes()),
    }
    true
}

/// Looks at what a client did when a malformed answer came on a connection that was open.
pub(in crate::client) fn check<'a>(
    on: ConnectionId,
    did: impl Iterator<Item = Did<'a>>,
    found: &mut Vec<Violation>,
) {
    let mut is_closed = false;
    for did in did {
        match did {
            Did::Net(NetEffect::Close { connection }) if *connection == on => is_closed = true,
            Did::Net(_) | Did::Other => {}
            Did::Believed => {
                found.push(Violation { invariant: NAME, what: format!("{on:?}: something was believed") });
            }
        }
    }
    if !is_closed {
        found.push(Violation { invariant: NAME, what: format!("{on:?} was not closed") });
    }
}
