//! Messages on a connection.
//!
//! ```text
//!   0 ........ 4 ....................
//!   | length u32 | JSON, UTF-8        |     length: of what is behind it, big-endian
//! ```

use std::io::{self, Read, Write};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Of what a stranger sends.
pub(super) const HELLO_BYTES_MAX: usize = 8 << 10;
/// The longest is what one machine's senders came to, with the number of each record that was given up.
pub(super) const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// Room is made for what has come, and not for what is announced.
const ROOM: usize = 64 << 10;

/// From one word that one lives to the next.
pub(super) const BEAT: Duration = Duration::from_secs(1);
/// Whoever says nothing for so long is lost.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(15);

/// Whether a wait for the other side took too long.
pub(super) fn is_silence(error: &anyhow::Error) -> bool {
    use io::ErrorKind::{TimedOut, WouldBlock};
    let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
    kind.is_some_and(|kind| kind == TimedOut || kind == WouldBlock)
}

pub(super) fn write(to: &mut impl Write, message: &impl Serialize) -> Result<()> {
    let mut frame = vec![0; 4];
    serde_json::to_writer(&mut frame, message)?;
    let length = frame.len() - 4;
    ensure!(
        length <= MESSAGE_BYTES_MAX,
        "a message of {length} bytes is too long: {MESSAGE_BYTES_MAX} at most"
    );
    frame[..4].copy_from_slice(&u32::try_from(length)?.to_be_bytes());
    to.write_all(&frame)?;
    to.flush()?;
    Ok(())
}

/// `None` at the end.
pub(super) fn read<T: DeserializeOwned>(from: &mut impl Read, bytes_max: usize) -> Result<Option<T>> {
    let mut length = [0; 4];
    match from.read(&mut length[..1]) {
        Ok(0) => return Ok(None),
        Ok(_) => from.read_exact(&mut length[1..])?,
        Err(error) if error.kind() == io::ErrorKind::Interrupted => from.read_exact(&mut length)?,
        Err(error) => return Err(error.into()),
    }
    let length = u32::from_be_bytes(length) as usize;
    ensure!(length <= bytes_max, "a message of {length} bytes is too long: {bytes_max} at most");
    let mut text = Vec::with_capacity(length.min(ROOM));
    let found = from.take(length as u64).read_to_end(&mut text)?;
    ensure!(found == length, "a message broke off after {found} of {length} bytes");
    serde_json::from_slice(&text).map(Some).context("a message is not understood")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_is_too_long_is_not() {
        let mut bytes = Vec::new();
        write(&mut bytes, &"one").expect("it fits");
        write(&mut bytes, &[2, 3]).expect("it fits");
        let mut from = &bytes[..];
        assert_eq!(read::<String>(&mut from, 5).expect("it is whole"), Some("one".to_owned()));
        assert_eq!(read::<Vec<u8>>(&mut from, 5).expect("it is whole"), Some(vec![2, 3]));
        assert_eq!(read::<String>(&mut from, 5).expect("it is the end"), None);
        let refused =
            |bytes: &[u8], bytes_max| read::<String>(&mut { bytes }, bytes_max).expect_err("it is wrong");
        assert!(refused(&bytes, 4).to_string().contains("5 bytes is too long"));
        assert!(refused(&bytes[..7], 5).to_string().contains("broke off after 3 of 5"));
        assert!(refused(&[0, 0, 0, 1, b'{'], 5).to_string().contains("not understood"));
        // Nothing is kept for what is only announced.
        assert!(refused(&[3, 255, 255, 255], MESSAGE_BYTES_MAX).to_string().contains("broke off"));
    }
}
