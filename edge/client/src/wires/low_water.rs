//! How much has to come before the poll says that something did.
//!
//! A large answer comes in pieces as small as the sender makes them. To be woken for each costs both sides
//! more than the bytes do: with `SO_RCVLOWAT` the kernel waits until there is a good piece of it. It wakes
//! earlier all the same if its own buffer is full, or the connection ends.

use mio::net::TcpStream;

/// As much is worth waking up for.
#[cfg(target_os = "linux")]
const LOW_WATER_BYTES_MAX: usize = 512 << 10;

/// What the socket was told.
#[derive(Debug)]
pub(super) struct LowWater {
    #[cfg(target_os = "linux")]
    bytes: usize,
}

impl Default for LowWater {
    /// Any byte is worth it, as a socket has it.
    fn default() -> Self {
        Self {
            #[cfg(target_os = "linux")]
            bytes: 1,
        }
    }
}

impl LowWater {
    /// So many bytes are missing.
    #[cfg(target_os = "linux")]
    pub(super) fn set(&mut self, stream: &TcpStream, missing_bytes: usize) {
        use std::os::fd::AsRawFd;

        let wanted = missing_bytes.clamp(1, LOW_WATER_BYTES_MAX);
        if wanted == self.bytes {
            return;
        }
        let value = wanted as libc::c_int;
        let size = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: the value outlives the call, its size is said, and the descriptor is open. If the kernel
        // refuses, it wakes us as often as before.
        let set = unsafe {
            let value = std::ptr::from_ref(&value).cast();
            libc::setsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVLOWAT, value, size)
        };
        if set == 0 {
            self.bytes = wanted;
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn set(&mut self, _: &TcpStream, _: usize) {}
}
