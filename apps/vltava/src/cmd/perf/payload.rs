//! What the records say.

use std::path::Path;

use anyhow::{Context, Result, bail};

/// The values of records, one after the other.
pub(super) enum Payload {
    /// Capital letters, as Kafka's tool sends them: one stretch after the other of a long text of them,
    /// since drawing each letter takes longer than sending it.
    Random { text: Vec<u8>, size: usize, at: usize, state: u64 },
    /// Lines of a file, drawn by chance.
    Lines { lines: Vec<Vec<u8>>, state: u64 },
    /// The number of the record, as text.
    Monotonic { text: String, next: u64 },
}

impl Payload {
    pub(super) fn random(size: usize, seed: u64) -> Self {
        let mut state = seed | 1;
        let mut text = vec![b'A'; TEXT_BYTES + size];
        fill(&mut text, &mut state);
        Self::Random { text, size, at: 0, state }
    }

    pub(super) fn monotonic(first: u64) -> Self {
        Self::Monotonic { text: String::new(), next: first }
    }

    pub(super) fn lines(path: &Path, delimiter: &str, seed: u64) -> Result<Self> {
        let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        if text.is_empty() {
            bail!("{} is empty: there is nothing to send", path.display());
        }
        let delimiter = unescaped(delimiter);
        let lines = split(&text, delimiter.as_bytes());
        Ok(Self::Lines { lines, state: seed | 1 })
    }

    /// The value of the next record.
    #[inline]
    pub(super) fn next(&mut self) -> &[u8] {
        match self {
            Self::Random { text, size, at, state } => {
                let start = *at;
                *at += *size;
                if *at >= TEXT_BYTES {
                    // From another letter, so that no record is sent twice.
                    *at = mixed(state) as usize % (*size).max(1);
                }
                &text[start..start + *size]
            }
            Self::Lines { lines, state } => {
                let drawn = (u128::from(mixed(state)) * lines.len() as u128) >> 64;
                &lines[drawn as usize]
            }
            Self::Monotonic { text, next } => {
                text.clear();
                let _ = std::fmt::Write::write_fmt(text, format_args!("{next}"));
                *next += 1;
                text.as_bytes()
            }
        }
    }
}

/// Longer than any batch, so that compression finds no more in it than in letters drawn one by one.
const TEXT_BYTES: usize = 4 << 20;

/// Letters from A to Z, eight from each number drawn.
fn fill(bytes: &mut [u8], state: &mut u64) {
    for chunk in bytes.chunks_mut(8) {
        let drawn = mixed(state).to_le_bytes();
        for (letter, byte) in chunk.iter_mut().zip(drawn) {
            *letter = b'A' + ((u16::from(byte) * 26) >> 8) as u8;
        }
    }
}

/// xorshift64*.
fn mixed(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_f491_4f6c_dd1d)
}

fn split(text: &[u8], delimiter: &[u8]) -> Vec<Vec<u8>> {
    if delimiter.is_empty() {
        return vec![text.to_vec()];
    }
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.windows(delimiter.len()).position(|part| part == delimiter) {
        lines.push(rest[..at].to_vec());
        rest = &rest[at + delimiter.len()..];
    }
    if !rest.is_empty() {
        lines.push(rest.to_vec());
    }
    lines
}

/// A delimiter as it can be written on a command line.
fn unescaped(text: &str) -> String {
    text.replace("\\n", "\n").replace("\\t", "\t").replace("\\r", "\r")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_capital_and_differ() {
        let mut payload = Payload::random(21, 5);
        let first = payload.next().to_vec();
        assert!(first.iter().all(u8::is_ascii_uppercase), "{first:?}");
        assert_ne!(payload.next(), first);
    }

    #[test]
    fn lines_are_split_at_their_delimiter() {
        assert_eq!(split(b"a\nbc\n", b"\n"), [b"a".to_vec(), b"bc".to_vec()]);
        assert_eq!(split(b"a||b|c", b"||"), [b"a".to_vec(), b"b|c".to_vec()]);
        assert_eq!(unescaped("\\n"), "\n");
    }

    #[test]
    fn numbers_count_up() {
        let mut payload = Payload::monotonic(9);
        assert_eq!([payload.next().to_vec(), payload.next().to_vec()], [b"9".to_vec(), b"10".to_vec()]);
    }
}
