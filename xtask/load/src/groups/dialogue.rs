//! One request in flight on each of many connections: as soon as one is answered, the next is asked.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use super::wires::{Heard, WireId, Wires};
use crate::PATIENCE;

/// Who asks. Connections are called by their places, from 0 on.
pub(super) trait Dialogue {
    /// The next request, size included; `None` if nothing more is asked there.
    fn next(&mut self, place: usize) -> Result<Option<Vec<u8>>>;

    /// What is said to it.
    fn on_answer(&mut self, place: usize, frame: &[u8]) -> Result<()>;
}

/// How long nothing may happen in one look.
const TURN: Duration = Duration::from_millis(100);

/// Connects to each of these, and asks on all of them until none has more to ask.
pub(super) fn hold(addresses: &[SocketAddr], dialogue: &mut impl Dialogue) -> Result<()> {
    let mut wires = Wires::new()?;
    let mut places: BTreeMap<WireId, usize> = BTreeMap::new();
    for (place, address) in addresses.iter().enumerate() {
        places.insert(wires.connect(*address, None)?, place);
    }
    let (mut heard, mut last) = (Vec::new(), Instant::now());
    while !places.is_empty() {
        wires.wait(TURN, &mut heard)?;
        ensure!(last.elapsed() < PATIENCE, "{} connections do not answer any more", places.len());
        for heard in heard.drain(..) {
            last = Instant::now();
            let id = match &heard {
                Heard::Connected(id) | Heard::Frame(id, _) => *id,
                Heard::Closed(id) if places.contains_key(id) => bail!("the broker closed a connection"),
                Heard::Closed(_) => continue,
            };
            let Some(&place) = places.get(&id) else { continue };
            if let Heard::Frame(_, frame) = &heard {
                dialogue.on_answer(place, frame)?;
            }
            match dialogue.next(place)? {
                Some(frame) => wires.send(id, &frame),
                None => {
                    wires.close(id);
                    places.remove(&id);
                }
            }
        }
    }
    Ok(())
}
