//! Just enough of Kafka's protocol to ask a broker whether it serves.
//!
//! Only versions that both brokers speak and that have no tagged fields, so one encoding does for all.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// The largest answer that is believed.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// A connection that asks one thing at a time.
pub(super) struct Asker {
    stream: TcpStream,
    correlation: i32,
}

impl Asker {
    /// Connects; an answer may take `patience`.
    pub(super) fn connect(address: SocketAddr, patience: Duration) -> Result<Self> {
        let stream = TcpStream::connect_timeout(&address, patience)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        Ok(Self { stream, correlation: 0 })
    }

    /// The body of the answer to a request.
    pub(super) fn ask(&mut self, key: i16, version: i16, body: Out) -> Result<In> {
        self.correlation += 1;
        let mut request = Out::default();
        request.i16(key).i16(version).i32(self.correlation).string("bench");
        request.0.extend_from_slice(&body.0);
        let mut frame = Out::default();
        frame.len(request.0.len()).0.extend_from_slice(&request.0);
        self.stream.write_all(&frame.0)?;
        let mut size = [0; 4];
        self.stream.read_exact(&mut size)?;
        let size = usize::try_from(i32::from_be_bytes(size))?;
        ensure!(size <= ANSWER_BYTES_MAX, "an answer of {size} bytes");
        let mut answer = Vec::new();
        (&mut self.stream).take(size as u64).read_to_end(&mut answer)?;
        ensure!(answer.len() == size, "the connection ended within an answer");
        let mut answer = In { bytes: answer, at: 0 };
        let correlation = answer.i32()?;
        ensure!(correlation == self.correlation, "answer {correlation} to request {}", self.correlation);
        Ok(answer)
    }
}

/// Bytes being written.
#[derive(Debug, Default, Clone)]
pub(super) struct Out(pub(super) Vec<u8>);

impl Out {
    pub(super) fn i8(&mut self, value: i8) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    pub(super) fn i16(&mut self, value: i16) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    pub(super) fn i32(&mut self, value: i32) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    pub(super) fn i64(&mut self, value: i64) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    /// A size or a count.
    pub(super) fn len(&mut self, value: usize) -> &mut Self {
        self.i32(i32::try_from(value).expect("requests of ours are small"))
    }

    pub(super) fn string(&mut self, value: &str) -> &mut Self {
        self.i16(i16::try_from(value.len()).expect("names of ours are short")).raw(value.as_bytes())
    }

    pub(super) fn raw(&mut self, value: &[u8]) -> &mut Self {
        self.0.extend_from_slice(value);
        self
    }
}

/// Bytes being read.
#[derive(Debug)]
pub(super) struct In {
    bytes: Vec<u8>,
    at: usize,
}

impl In {
    pub(super) fn i8(&mut self) -> Result<i8> {
        Ok(i8::from_be_bytes(self.array()?))
    }

    pub(super) fn i16(&mut self) -> Result<i16> {
        Ok(i16::from_be_bytes(self.array()?))
    }

    pub(super) fn i32(&mut self) -> Result<i32> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    pub(super) fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    /// Each element of an array; a null array has none.
    pub(super) fn each<T>(&mut self, read: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let count = self.i32()?;
        let mut elements = Vec::new();
        for _ in 0..count {
            elements.push(read(self)?);
        }
        Ok(elements)
    }

    /// A string; null is empty.
    pub(super) fn string(&mut self) -> Result<String> {
        let len = usize::try_from(self.i16()?).unwrap_or(0);
        Ok(String::from_utf8_lossy(self.take(len)?).into_owned())
    }

    /// How many bytes there were; null has none.
    pub(super) fn skip_bytes(&mut self) -> Result<usize> {
        let len = usize::try_from(self.i32()?).unwrap_or(0);
        Ok(self.take(len)?.len())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.take(N)?.try_into().context("as many as asked for")
    }

    fn take(&mut self, len: usize) -> Result<&[u8]> {
        let end = self.at.checked_add(len).filter(|end| *end <= self.bytes.len());
        let Some(end) = end else { bail!("the answer ends too soon") };
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }
}

/// A batch in format 2 of one record without a key. Its time decides how long it is kept.
pub(super) fn batch(time_ms: i64, value: &[u8]) -> Out {
    let mut record = Out::default();
    // Attributes, time delta 0, offset delta 0, no key.
    record.raw(&[0, 0, 0, 1]).raw(&[zigzag(value.len())]).raw(value).raw(&[0]);
    let mut summed = Out::default();
    // Attributes, last offset delta, both times, no producer with its epoch and sequence.
    summed.i16(0).i32(0).i64(time_ms).i64(time_ms).i64(-1).i16(-1).i32(-1);
    summed.len(1).raw(&[zigzag(record.0.len())]).raw(&record.0);
    let mut batch = Out::default();
    // Leader epoch, magic and checksum are counted by the length, which follows the base offset.
    batch.i64(0).len(4 + 1 + 4 + summed.0.len()).i32(-1).i8(2);
    batch.raw(&crc32c(&summed.0).to_be_bytes()).raw(&summed.0);
    batch
}

/// A varint of one byte.
fn zigzag(len: usize) -> u8 {
    u8::try_from(len).ok().filter(|len| *len < 64).expect("a length that fits one byte") << 1
}

fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0x82F6_3B78 * (crc & 1));
        }
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_the_standard() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
    }

    #[test]
    fn a_batch_says_its_own_length() {
        let batch = batch(0, b"value").0;
        let len = u32::from_be_bytes(batch[8..12].try_into().unwrap());
        assert_eq!(12 + len as usize, batch.len());
        assert_eq!(batch[16], 2);
    }

    #[test]
    fn an_answer_that_ends_too_soon_is_an_error() {
        let mut answer = In { bytes: vec![0, 0, 0, 9, 0], at: 0 };
        assert!(answer.each(In::i64).is_err());
    }
}
