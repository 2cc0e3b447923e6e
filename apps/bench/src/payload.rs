//! What the records say.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};

use crate::chance::Chance;
use crate::template::{LOG_LINE, Template};

/// The values of records, one after the other.
pub enum Payload {
    /// Bytes that mean nothing: one stretch after the other of a long text of them, since drawing each byte
    /// takes longer than sending it.
    Bytes(Stretches),
    /// Lines of a file, drawn by chance.
    Lines(Lines),
    /// The number of the record, as text.
    Monotonic(Count),
    /// A text with places that are filled anew for each record.
    Template(Template),
    /// What a template made before anything was measured, one after the other and again from the start: to fill its
    /// places takes longer than sending it.
    Made(Made),
}

/// See [`Payload::Bytes`].
pub struct Stretches {
    text: Arc<[u8]>,
    size: usize,
    at: usize,
    chance: Chance,
}

/// See [`Payload::Lines`].
pub struct Lines {
    lines: Arc<[Vec<u8>]>,
    chance: Chance,
}

/// See [`Payload::Made`].
pub struct Made {
    values: Arc<[Vec<u8>]>,
    at: usize,
}

/// See [`Payload::Monotonic`].
pub struct Count {
    text: String,
    next: u64,
}

impl Payload {
    /// Capital letters, as Kafka's tool sends them.
    pub fn letters(size: usize, chance: Chance) -> Self {
        Self::bytes(size, chance, |text, chance| {
            for chunk in text.chunks_mut(8) {
                for (byte, drawn) in chunk.iter_mut().zip(chance.draw().to_le_bytes()) {
                    *byte = b'A' + ((u16::from(drawn) * 26) >> 8) as u8;
                }
            }
        })
    }

    /// Bytes of which compression leaves about this share: so much of each stretch is chance, and the rest
    /// is the same in all.
    pub fn compressible(size: usize, ratio: f64, chance: Chance) -> Self {
        let random_bytes = (STRETCH_BYTES as f64 * ratio.clamp(0.0, 1.0)).round() as usize;
        Self::bytes(size, chance, |text, chance| {
            for stretch in text.chunks_mut(STRETCH_BYTES) {
                let random = random_bytes.min(stretch.len());
                for chunk in stretch[..random].chunks_mut(8) {
                    chunk.copy_from_slice(&chance.draw().to_le_bytes()[..chunk.len()]);
                }
            }
        })
    }

    /// Lines of JSON as the log of a web application has them.
    pub fn log_lines(chance: Chance) -> Result<Self> {
        let mut template = Template::new(LOG_LINE, 0, chance)?;
        let (mut values, mut bytes) = (Vec::new(), 0);
        while bytes < TEXT_BYTES {
            let value = template.next_value().to_vec();
            bytes += value.len();
            values.push(value);
        }
        Ok(Self::Made(Made { values: values.into(), at: 0 }))
    }

    fn bytes(size: usize, mut chance: Chance, fill: impl Fn(&mut [u8], &mut Chance)) -> Self {
        let mut text = vec![b'.'; TEXT_BYTES + size];
        fill(&mut text, &mut chance);
        Self::Bytes(Stretches { text: text.into(), size, at: 0, chance })
    }

    /// What a file holds, as the value of each record: from another byte on each time, and from its start behind its
    /// end.
    pub fn of_file(path: &Path) -> Result<Self> {
        let file = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        if file.is_empty() {
            bail!("{} is empty: there is nothing to send", path.display());
        }
        let mut text = file.repeat(TEXT_BYTES.div_ceil(file.len()) + 1);
        text.truncate(TEXT_BYTES + file.len());
        Ok(Self::Bytes(Stretches { text: text.into(), size: file.len(), at: 0, chance: Chance::new(0, 0) }))
    }

    /// The same for another sender: what is long is shared, chance is its own, and numbers begin at `first`.
    pub fn another(&self, first: u64, mut chance: Chance) -> Self {
        match self {
            Self::Bytes(Stretches { text, size, .. }) => {
                let at = chance.below(TEXT_BYTES as u64) as usize;
                Self::Bytes(Stretches { text: text.clone(), size: *size, at, chance })
            }
            Self::Lines(Lines { lines, .. }) => Self::Lines(Lines { lines: lines.clone(), chance }),
            Self::Monotonic(_) => Self::monotonic(first),
            Self::Template(template) => Self::Template(template.another(first, chance)),
            Self::Made(Made { values, .. }) => {
                let at = chance.below(values.len() as u64) as usize;
                Self::Made(Made { values: values.clone(), at })
            }
        }
    }

    /// Numbers from `first` on.
    pub fn monotonic(first: u64) -> Self {
        Self::Monotonic(Count { text: String::new(), next: first })
    }

    /// What stands between delimiters in a file.
    pub fn lines(path: &Path, delimiter: &[u8], chance: Chance) -> Result<Self> {
        let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        if text.is_empty() {
            bail!("{} is empty: there is nothing to send", path.display());
        }
        let lines = split(&text, delimiter).into();
        Ok(Self::Lines(Lines { lines, chance }))
    }

    /// Whether the first bytes of a value may be others, and how many there are.
    pub fn free_bytes(&self) -> usize {
        match self {
            Self::Bytes(Stretches { size, .. }) => *size,
            Self::Lines(_) | Self::Monotonic(_) | Self::Template(_) | Self::Made(_) => 0,
        }
    }

    /// The value of the next record.
    #[inline]
    pub fn next_value(&mut self) -> &[u8] {
        match self {
            Self::Bytes(Stretches { text, size, at, chance }) => {
                let start = *at;
                *at += *size;
                if *at >= TEXT_BYTES {
                    // From another byte, so that no record is sent twice.
                    *at = chance.below((*size).min(TEXT_BYTES) as u64) as usize;
                }
                &text[start..start + *size]
            }
            Self::Lines(Lines { lines, chance }) => &lines[chance.below(lines.len() as u64) as usize],
            Self::Monotonic(Count { text, next }) => {
                text.clear();
                let _ = std::fmt::Write::write_fmt(text, format_args!("{next}"));
                *next += 1;
                text.as_bytes()
            }
            Self::Template(template) => template.next_value(),
            Self::Made(Made { values, at }) => {
                let value = &values[*at];
                *at = if *at + 1 < values.len() { *at + 1 } else { 0 };
                value
            }
        }
    }
}

/// Longer than any batch, so that compression finds no more in it than in bytes drawn one by one.
const TEXT_BYTES: usize = 4 << 20;

/// Short enough that every record has its share of chance, and long enough that what is the same in all
/// costs compression little.
const STRETCH_BYTES: usize = 128;

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

#[cfg(test)]
mod tests {
    use records::{Codecs, Compression};

    use super::*;

    #[test]
    fn letters_are_capital_and_differ() {
        let mut payload = Payload::letters(21, Chance::new(5, 0));
        let first = payload.next_value().to_vec();
        assert!(first.iter().all(u8::is_ascii_uppercase), "{first:?}");
        assert_ne!(payload.next_value(), first);
    }

    #[test]
    fn a_record_may_be_longer_than_the_text_it_is_taken_from() {
        let size = TEXT_BYTES + (1 << 20);
        let mut payload = Payload::letters(size, Chance::new(5, 0));
        for _ in 0..50 {
            assert_eq!(payload.next_value().len(), size);
        }
    }

    #[test]
    fn bytes_compress_to_the_share_that_was_asked_for() {
        for ratio in [0.0, 0.1, 0.5, 1.0] {
            let mut payload = Payload::compressible(1_000, ratio, Chance::new(1, 0));
            let plain: Vec<u8> = (0..100).flat_map(|_| payload.next_value().to_vec()).collect();
            let mut compressed = Vec::new();
            Codecs::default().compress(Compression::Zstd, None, &plain, &mut compressed);
            let found = compressed.len() as f64 / plain.len() as f64;
            assert!((found - ratio).abs() < 0.03, "{ratio}: {found}");
        }
    }

    #[test]
    fn lines_are_split_at_their_delimiter() {
        assert_eq!(split(b"a\nbc\n", b"\n"), [b"a".to_vec(), b"bc".to_vec()]);
        assert_eq!(split(b"a||b|c", b"||"), [b"a".to_vec(), b"b|c".to_vec()]);
    }

    #[test]
    fn no_batch_has_a_log_line_twice() {
        let mut payload = Payload::log_lines(Chance::new(5, 0)).expect("its template is right");
        let mut of_another = payload.another(7, Chance::new(5, 1));
        let mut drawn = std::collections::HashSet::new();
        let mut bytes = 0;
        while bytes < TEXT_BYTES / 2 {
            let line = payload.next_value().to_vec();
            serde_json::from_slice::<serde_json::Value>(&line).expect("it is JSON");
            bytes += line.len();
            assert!(drawn.insert(line), "it comes again after {bytes} bytes");
        }
        let first = of_another.next_value().to_vec();
        assert_ne!(first, payload.next_value(), "they begin elsewhere");
        let lines = 1 + (1..).take_while(|_| of_another.next_value() != first).count();
        assert!(lines * first.len() > TEXT_BYTES / 2, "only {lines} lines, and again from the start");
    }

    #[test]
    fn a_file_is_sent_whole() {
        let folder = tempfile::tempdir().expect("there is a place for files");
        let path = folder.path().join("payload.data");
        std::fs::write(&path, b"abcdefg").expect("it can be written");
        let mut payload = Payload::of_file(&path).expect("it can be read");
        assert_eq!(payload.free_bytes(), 7);
        let mut of_another = payload.another(0, Chance::new(3, 1));
        for value in [payload.next_value(), of_another.next_value()] {
            let doubled = value.repeat(2);
            assert!(doubled.windows(7).any(|part| part == b"abcdefg"), "{value:?}");
        }
        std::fs::write(&path, b"").expect("it can be written");
        assert!(Payload::of_file(&path).is_err());
    }

    #[test]
    fn senders_share_a_text_and_not_their_records() {
        let mut first = Payload::letters(100, Chance::new(5, 0));
        let mut second = first.another(7, Chance::new(5, 1));
        let mut drawn: Vec<_> =
            (0..50).flat_map(|_| [first.next_value().to_vec(), second.next_value().to_vec()]).collect();
        drawn.sort_unstable();
        drawn.dedup();
        assert_eq!(drawn.len(), 100);
        assert_eq!(Payload::monotonic(0).another(7, Chance::new(5, 1)).next_value(), b"7");
    }

    #[test]
    fn numbers_count_up() {
        let mut payload = Payload::monotonic(9);
        assert_eq!(
            [payload.next_value().to_vec(), payload.next_value().to_vec()],
            [b"9".to_vec(), b"10".to_vec()]
        );
    }
}
