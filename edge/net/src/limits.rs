//! What a peer may cost us. Each default has its reason beside it.

use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// How many connections there may be, and how fast they may come.
#[derive(Debug, Clone)]
pub struct ListenerLimits {
    /// Open connections in all; one more is closed at once. Ten thousand, or 40 % of the descriptors
    /// this process may open: the rest is for log files.
    pub connections_max: usize,
    /// Open connections from one address (one /64 for IPv6), so that one host cannot take them all. Half of them:
    /// a machine on which hundreds of consumers run, each with a few connections, is a client like others.
    pub connections_per_ip_max: usize,
    /// Connections begun per second in all, after a burst of as many; those above wait in the backlog. 0: as fast as
    /// they come. So a flood of them leaves time for those who are there already.
    pub accepts_per_second: u32,
    /// Connections begun per second from one address, after a burst of as many; those above are held before they are
    /// served. 0: as fast as they come. The 500 members of a large group begin theirs at once though they are all on
    /// one machine; one that connects in a loop takes a quarter of what there is for all.
    pub accepts_per_ip_per_second: u32,
    /// How long open connections may go on after the listener was told to stop.
    pub drain_max: Duration,
}

impl Default for ListenerLimits {
    fn default() -> Self {
        Self {
            connections_max: connections_affordable().min(10_000),
            connections_per_ip_max: 5_000,
            accepts_per_second: 2_000,
            accepts_per_ip_per_second: 500,
            drain_max: Duration::from_secs(10),
        }
    }
}

/// How large and how slow a frame may be.
#[derive(Debug, Clone)]
pub struct FrameLimits {
    /// The longest frame, without its four bytes of length: `socket.request.max.bytes`.
    pub bytes_max: u32,
    /// A frame that takes longer than this must have come at [`Self::bytes_per_second_min`] or faster.
    pub time_max: Duration,
    /// The slowest pace of a long frame: below it is not a slow line but a held-open door.
    pub bytes_per_second_min: u32,
    /// How long nothing may come at all: `connections.max.idle.ms`.
    pub idle_max: Duration,
}

impl Default for FrameLimits {
    fn default() -> Self {
        Self {
            bytes_max: 100 << 20,
            time_max: Duration::from_secs(30),
            bytes_per_second_min: 4 << 10,
            idle_max: Duration::from_secs(600),
        }
    }
}

/// How answers are written, and how long a peer may refuse to take them.
#[derive(Debug, Clone)]
pub struct WriteLimits {
    /// How long a peer may take no byte while an answer waits: it holds memory and files of ours.
    pub stall_max: Duration,
    /// While others wait for memory, a peer that holds some must take its answers at this pace …
    pub bytes_per_second_min: u32,
    /// … in each stretch of this length.
    pub short_time_max: Duration,
    /// File ranges from this length on leave by `sendfile`; shorter ones are read and gathered with
    /// their neighbours into one write. A `sendfile` with its segments costs some 6 µs of CPU, which
    /// reading and writing costs at 32 KiB; page for page it is cheaper only from 100 to 200 KiB on,
    /// and at 1 MiB takes 60 % (`examples/wire_speed.rs`, loopback).
    pub sendfile_bytes_min: u32,
}

impl Default for WriteLimits {
    fn default() -> Self {
        Self {
            stall_max: Duration::from_secs(30),
            bytes_per_second_min: 4 << 10,
            short_time_max: Duration::from_secs(30),
            sendfile_bytes_min: 128 << 10,
        }
    }
}

/// Raises the number of descriptors this process may open to what the system allows, and returns it.
///
/// To be called once at start, before [`ListenerLimits::default`] looks at the number.
pub fn raise_descriptors_max() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    // A failure leaves the old limit, which the caller reads from the answer.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    descriptors_max()
}

fn descriptors_max() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// How many connections leave this process descriptors for its log files: 40 % of those that it may open, half of which
/// are for logs.
pub fn connections_affordable() -> usize {
    affordable(descriptors_max())
}

fn affordable(descriptors: u64) -> usize {
    usize::try_from(descriptors / 10 * 4).map_or(usize::MAX, |share| share.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_for_files() {
        assert_eq!([1_024, 20_000, 5].map(affordable), [408, 8_000, 1]);
        assert!(affordable(u64::MAX) > 1 << 40, "nobody limits them");
    }
}
