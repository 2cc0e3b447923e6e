//! Where records come from: pieces of standard input or of files, JSON objects, whole files.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use client::Header;
use client::producer::Record;

use crate::envelope::{Envelope, Field};
use crate::escape::Delimiter;

/// How what is read becomes records.
#[derive(clap::Args)]
pub(super) struct Input {
    /// What stands between records: characters, or \n \t \xNN
    #[arg(short = 'D', long, value_name = "TEXT", default_value = "\\n", value_parser = Delimiter::parse)]
    delimiter: Delimiter,
    /// What stands between key and value; where it does not stand, there is no key
    #[arg(short = 'K', long, value_name = "TEXT", value_parser = Delimiter::parse)]
    key_delimiter: Option<Delimiter>,
    /// Key of every record that has none of its own
    #[arg(short = 'k', long)]
    key: Option<String>,
    /// Header of every record; without '=' its value is null. Can be given several times
    #[arg(short = 'H', long = "header", value_name = "NAME=VALUE", value_parser = header)]
    headers: Vec<(String, Option<String>)>,
    /// Empty values and keys are null
    #[arg(short = 'Z', long = "null")]
    empty_is_null: bool,
    /// Files hold records, as standard input does: they are not one record each
    #[arg(short = 'l', long)]
    lines: bool,
    /// Each line is a JSON object, as `vltava consume --json` prints them
    #[arg(short = 'J', long, conflicts_with = "key_delimiter")]
    json: bool,
    /// Write each record of --json to the partition that it names
    #[arg(long, requires = "json", conflicts_with = "partition")]
    keep_partition: bool,
    /// Timestamp of every record that has none of its own, in milliseconds since 1970; else now
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(i64).range(0..))]
    timestamp: Option<i64>,
}

/// Reads `name=value`, or `name` alone.
fn header(text: &str) -> Result<(String, Option<String>), String> {
    match text.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), Some(value.to_owned()))),
        None => Ok((text.to_owned(), None)),
    }
}

impl Input {
    /// What is read.
    pub(super) fn places(&self, files: &[PathBuf]) -> Places {
        let is_whole = !files.is_empty() && !self.lines && !self.json;
        let unit = match is_whole {
            true => None,
            false if self.delimiter == Delimiter::line() => Some("line"),
            false => Some("record"),
        };
        let standard_input = [PathBuf::from(STANDARD_INPUT)];
        let files = if files.is_empty() { &standard_input } else { files };
        Places { files: files.to_vec(), unit }
    }
}

/// The name that stands for it.
const STANDARD_INPUT: &str = "-";

/// What is read, and what a place in it is called.
pub(super) struct Places {
    files: Vec<PathBuf>,
    /// Of what a file has many; `None` if a file is one record.
    unit: Option<&'static str>,
}

/// A tag is the number of a file, and in that of a line.
const LINE_BITS: u32 = 40;

impl Places {
    /// What people call the place of a record.
    pub(super) fn name(&self, tag: u64) -> String {
        let (file, line) = (tag >> LINE_BITS, tag & ((1 << LINE_BITS) - 1));
        let path = usize::try_from(file).ok().and_then(|file| self.files.get(file));
        let path = path.map(|path| path.display().to_string()).unwrap_or_default();
        match self.unit {
            None => path,
            Some(unit) if path == STANDARD_INPUT => format!("{unit} {line}"),
            Some(unit) => format!("{path}, {unit} {line}"),
        }
    }
}

/// What is read, piece by piece.
pub(super) struct Reading<'a> {
    input: &'a Input,
    places: &'a Places,
    headers: Vec<Header<'a>>,
    record_bytes_max: usize,
    /// The file that is being read, and the one after it.
    from: Option<Box<dyn BufRead>>,
    file_next: usize,
    line: u64,
    piece: Vec<u8>,
}

impl<'a> Reading<'a> {
    pub(super) fn new(input: &'a Input, places: &'a Places, record_bytes_max: usize) -> Self {
        let headers = input.headers.iter().map(|(name, value)| Header {
            key: name.as_bytes(),
            value: value.as_ref().map(String::as_bytes),
        });
        Self {
            input,
            places,
            headers: headers.collect(),
            record_bytes_max,
            from: None,
            file_next: 0,
            line: 0,
            piece: Vec::new(),
        }
    }

    /// The next record; `None` at the end of the last file.
    pub(super) fn next(&mut self) -> Result<Option<Entry<'_>>> {
        loop {
            if self.from.is_some() {
                if self.read_piece()? {
                    break;
                }
                self.from = None;
            }
            let Some(path) = self.places.files.get(self.file_next) else { return Ok(None) };
            self.from = Some(open(path)?);
            self.file_next += 1;
            self.line = 0;
        }
        self.entry().map(Some)
    }

    fn tag(&self) -> u64 {
        ((self.file_next - 1) as u64) << LINE_BITS | self.line
    }

    /// Reads what stands before the next delimiter. Whether there is something.
    fn read_piece(&mut self) -> Result<bool> {
        self.line += 1;
        let tag = self.tag();
        let Some(from) = &mut self.from else { return Ok(false) };
        self.piece.clear();
        let is_whole = self.places.unit.is_none();
        let bytes_max = match self.input.json {
            // Each byte of a record may be six of JSON: \u001f.
            true => self.record_bytes_max.saturating_mul(6).saturating_add(64 << 10),
            false => self.record_bytes_max,
        };
        let delimiter = &self.input.delimiter.0;
        let read = match is_whole {
            true if self.line > 1 => return Ok(false),
            true => read_whole(from, bytes_max, &mut self.piece),
            false => read_until(from, delimiter, bytes_max, &mut self.piece),
        };
        match read.with_context(|| format!("cannot read {}", self.places.name(tag)))? {
            Piece::Whole => Ok(true),
            Piece::None => Ok(is_whole),
            Piece::TooLong => bail!(
                "{} has more than {bytes_max} bytes, and nothing from there on was sent: -X max.request.size=BYTES \
                 allows longer records, if the topic's max.message.bytes does, too",
                self.places.name(tag)
            ),
        }
    }

    fn entry(&self) -> Result<Entry<'_>> {
        let mut entry = Entry {
            tag: self.tag(),
            key: Field(None),
            value: Field(Some(Cow::Borrowed(&self.piece))),
            own_headers: Vec::new(),
            headers: &self.headers,
            timestamp: self.input.timestamp,
            partition: None,
        };
        if self.input.json {
            let read = Envelope::parse(&self.piece).map_err(anyhow::Error::msg);
            let read = read.with_context(|| {
                format!("{} was not sent, nor what follows it", self.places.name(entry.tag))
            })?;
            entry.key = read.key;
            entry.value = read.payload;
            entry.own_headers = read.headers;
            entry.timestamp = read.ts.filter(|ts| *ts >= 0).or(entry.timestamp);
            entry.partition = read.partition.filter(|_| self.input.keep_partition);
        } else if let Some(delimiter) = &self.input.key_delimiter
            && self.places.unit.is_some()
            && let Some(at) = find(&self.piece, &delimiter.0)
        {
            entry.key = Field::from(Some(&self.piece[..at]));
            entry.value = Field::from(Some(&self.piece[at + delimiter.0.len()..]));
        }
        if self.input.empty_is_null {
            for field in [&mut entry.key, &mut entry.value] {
                field.0.take_if(|bytes| bytes.is_empty());
            }
        }
        if entry.key.0.is_none() {
            entry.key = Field::from(self.input.key.as_ref().map(String::as_bytes));
        }
        Ok(entry)
    }
}

/// A record as it was read.
pub(super) struct Entry<'a> {
    tag: u64,
    key: Field<'a>,
    value: Field<'a>,
    /// Names and values in turn.
    own_headers: Vec<Field<'a>>,
    /// Those that all have.
    headers: &'a [Header<'a>],
    timestamp: Option<i64>,
    partition: Option<i32>,
}

impl Entry<'_> {
    /// Where it stood.
    pub(super) fn tag(&self) -> u64 {
        self.tag
    }

    /// Bytes of key and value.
    pub(super) fn bytes(&self) -> u64 {
        [&self.key, &self.value]
            .map(|field| field.0.as_ref().map_or(0, |bytes| bytes.len() as u64))
            .iter()
            .sum()
    }

    /// Its own headers, and then those that all have.
    pub(super) fn headers(&self) -> Cow<'_, [Header<'_>]> {
        if self.own_headers.is_empty() {
            return Cow::Borrowed(self.headers);
        }
        let own = self.own_headers.as_chunks::<2>().0.iter().map(|[name, value]| Header {
            key: name.0.as_deref().unwrap_or_default(),
            value: value.0.as_deref(),
        });
        own.chain(self.headers.iter().copied()).collect()
    }

    /// For the producer.
    pub(super) fn record<'r>(&'r self, topic: &'r str, headers: &'r [Header<'r>]) -> Record<'r> {
        let mut record = Record::to(topic).headers(headers).tag(self.tag);
        if let Some(key) = &self.key.0 {
            record = record.key(key);
        }
        if let Some(value) = &self.value.0 {
            record = record.value(value);
        }
        if let Some(timestamp) = self.timestamp {
            record = record.timestamp_ms(timestamp);
        }
        match self.partition {
            Some(partition) => record.partition(partition),
            None => record,
        }
    }
}

fn open(path: &Path) -> Result<Box<dyn BufRead>> {
    const BUFFER_BYTES: usize = 64 << 10;
    if path == Path::new(STANDARD_INPUT) {
        return Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, io::stdin().lock())));
    }
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, file)))
}

#[derive(Debug, PartialEq, Eq)]
enum Piece {
    Whole,
    /// The input is at its end.
    None,
    /// It was read only so far.
    TooLong,
}

/// Reads up to a delimiter, which is left out, or to the end of the input.
fn read_until(
    from: &mut dyn BufRead,
    delimiter: &[u8],
    bytes_max: usize,
    piece: &mut Vec<u8>,
) -> io::Result<Piece> {
    let [.., last] = *delimiter else { return Ok(Piece::None) };
    loop {
        let room = (bytes_max + delimiter.len()).saturating_sub(piece.len());
        if room == 0 {
            return Ok(Piece::TooLong);
        }
        let read = Read::take(&mut *from, room as u64).read_until(last, piece)?;
        if piece.ends_with(delimiter) {
            piece.truncate(piece.len() - delimiter.len());
            return Ok(Piece::Whole);
        }
        if read == 0 {
            return Ok(if piece.is_empty() { Piece::None } else { Piece::Whole });
        }
    }
}

fn read_whole(from: &mut dyn BufRead, bytes_max: usize, piece: &mut Vec<u8>) -> io::Result<Piece> {
    let read = Read::take(from, bytes_max as u64 + 1).read_to_end(piece)?;
    Ok(if read > bytes_max { Piece::TooLong } else { Piece::Whole })
}

/// Where `wanted` stands first.
fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &[u8], delimiter: &[u8], bytes_max: usize) -> Vec<String> {
        // A buffer of three bytes: delimiters are cut in two.
        let mut from = BufReader::with_capacity(3, text);
        let mut found = Vec::new();
        loop {
            let mut piece = Vec::new();
            match read_until(&mut from, delimiter, bytes_max, &mut piece).expect("a slice can be read") {
                Piece::Whole => found.push(String::from_utf8_lossy(&piece).into_owned()),
                Piece::None => return found,
                Piece::TooLong => {
                    found.push("too long".to_owned());
                    return found;
                }
            }
        }
    }

    #[test]
    fn pieces_are_what_stands_between_delimiters() {
        assert_eq!(pieces(b"", b"\n", 9), [""; 0]);
        assert_eq!(pieces(b"a\n\nbc", b"\n", 9), ["a", "", "bc"]);
        assert_eq!(pieces(b"a\n", b"\n", 9), ["a"]);
        assert_eq!(pieces(b"a--b-c----d-", b"--", 9), ["a", "b-c", "", "d-"]);
        assert_eq!(pieces(b"aab", b"aab", 9), [""]);
        assert_eq!(pieces(b"aaab", b"aab", 9), ["a"]);
        assert_eq!(pieces(b"123\n1234\n", b"\n", 3), ["123", "too long"]);
        assert_eq!(pieces(b"1234", b"\n", 3), ["too long"]);
    }

    #[test]
    fn places_have_names() {
        let places = Places { files: vec!["-".into(), "a.txt".into()], unit: Some("line") };
        assert_eq!(places.name(7), "line 7");
        assert_eq!(places.name(1 << LINE_BITS | 3), "a.txt, line 3");
        let whole = Places { files: vec!["b.png".into()], unit: None };
        assert_eq!(whole.name(1), "b.png");
    }
}
