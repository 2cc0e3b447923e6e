//! One connection to one node, one request at a time.

use super::{ClientAct, place};
use crate::cluster::net::ConnId;

/// See the module.
#[derive(Debug)]
pub(crate) struct Line {
    client: usize,
    made: u64,
    conn: Option<ConnId>,
    is_open: bool,
    /// To which node.
    pub(crate) to: usize,
    /// The request on its way, and since when.
    asked: Option<(i32, u64)>,
    next: i32,
    patience_us: u64,
}

impl Line {
    pub(crate) fn new(client: usize, to: usize, patience_us: u64) -> Self {
        Self { client, made: 0, conn: None, is_open: false, to, asked: None, next: 0, patience_us }
    }

    /// Goes on with another node.
    pub(crate) fn turn_to(&mut self, to: usize, acts: &mut Vec<ClientAct>) {
        if to != self.to {
            self.hang_up(acts);
            self.to = to;
        }
    }

    pub(crate) fn hang_up(&mut self, acts: &mut Vec<ClientAct>) {
        if let Some(conn) = self.conn.take() {
            acts.push(ClientAct::Close(conn));
        }
        (self.is_open, self.asked) = (false, None);
    }

    /// Connects if it is not connected, and gives up on who does not answer. The number of the next
    /// request, if one can be sent now.
    pub(crate) fn ready(&mut self, now_us: u64, acts: &mut Vec<ClientAct>) -> Option<i32> {
        if self.asked.is_some_and(|(_, since)| since + self.patience_us <= now_us) {
            self.hang_up(acts);
        }
        if self.conn.is_none() {
            self.made += 1;
            let conn = ConnId { owner: place(self.client), number: self.made };
            self.conn = Some(conn);
            acts.push(ClientAct::Connect { conn, to: self.to });
        }
        (self.is_open && self.asked.is_none()).then_some(self.next + 1)
    }

    /// Sends a request with the number that [`Line::ready`] gave.
    pub(crate) fn ask(&mut self, now_us: u64, frame: Vec<u8>, acts: &mut Vec<ClientAct>) {
        let Some(conn) = self.conn else { return };
        self.next += 1;
        self.asked = Some((self.next, now_us));
        acts.push(ClientAct::Send { conn, frame: frame[4..].to_vec() });
        acts.push(ClientAct::Wake(now_us + self.patience_us));
    }

    pub(crate) fn on_connected(&mut self, conn: ConnId) {
        self.is_open |= self.conn == Some(conn);
    }

    /// Whether it was this connection.
    pub(crate) fn on_closed(&mut self, conn: ConnId) -> bool {
        let is_ours = self.conn == Some(conn);
        if is_ours {
            (self.conn, self.is_open, self.asked) = (None, false, None);
        }
        is_ours
    }

    /// Whether the frame is the answer that is awaited.
    pub(crate) fn on_frame(&mut self, conn: ConnId) -> bool {
        self.conn == Some(conn) && self.asked.take().is_some()
    }
}
