//! How a record is printed: kcat's formats, and JSON.

use std::borrow::Cow;
use std::io::{self, Write};

use client::{Record, TimestampType};

use crate::envelope::{Envelope, Field};
use crate::escape::{Delimiter, unescaped};

/// What is printed of each record.
#[derive(clap::Args)]
#[group(skip)]
pub(super) struct Arguments {
    /// %t topic, %p partition, %o offset, %k key, %s value, %h headers, %T timestamp; %K, %S: their lengths in bytes
    /// (-1: null), %R: that of the value in four bytes; \n, \t, \xNN
    #[arg(short = 'f', long, value_name = "FORMAT", value_parser = parse)]
    format: Option<Format>,
    /// Print the key and this before the value
    #[arg(short = 'K', long, value_name = "TEXT", value_parser = Delimiter::parse)]
    key_delimiter: Option<Delimiter>,
    /// Print the offset before the value
    #[arg(short = 'O', long = "show-offset")]
    with_offset: bool,
    /// What stands behind each record: characters, or \n \t \xNN
    #[arg(short = 'D', long, value_name = "TEXT", default_value = "\\n", value_parser = |text: &str| Ok::<_, String>(Delimiter(unescaped(text))))]
    delimiter: Delimiter,
    /// Print NULL for keys and values that are null
    #[arg(short = 'Z', long = "null")]
    shows_null: bool,
    /// Print each record as one JSON object, which `vltava produce --json` reads
    #[arg(short = 'J', long, conflicts_with_all = ["format", "key_delimiter", "with_offset", "delimiter"])]
    json: bool,
}

impl Arguments {
    pub(super) fn format(&self) -> Format {
        let null: &[u8] = if self.shows_null { b"NULL" } else { b"" };
        if self.json {
            return Format { tokens: Vec::new(), null, is_json: true };
        }
        if let Some(format) = &self.format {
            return Format { null, ..format.clone() };
        }
        let mut tokens = Vec::new();
        let between = self.key_delimiter.as_ref().map_or(b"\t".to_vec(), |delimiter| delimiter.0.clone());
        if self.key_delimiter.is_some() {
            tokens.extend([Token::Key, Token::Text(between.clone())]);
        }
        if self.with_offset {
            tokens.extend([Token::Offset, Token::Text(between)]);
        }
        tokens.extend([Token::Value, Token::Text(self.delimiter.0.clone())]);
        Format { tokens, null, is_json: false }
    }
}

/// What is printed of each record, in order.
#[derive(Debug, Clone)]
pub(super) struct Format {
    tokens: Vec<Token>,
    /// What stands for null.
    null: &'static [u8],
    is_json: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Text(Vec<u8>),
    Topic,
    Partition,
    Offset,
    Timestamp,
    Key,
    KeyLength,
    Value,
    ValueLength,
    /// Four bytes, the highest first.
    ValueLengthBinary,
    Headers,
}

/// Reads a format.
fn parse(text: &str) -> Result<Format, String> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        tokens.push(Token::Text(unescaped(&rest[..at])));
        let token = rest[at + 1..].chars().next();
        tokens.push(match token {
            Some('t') => Token::Topic,
            Some('p') => Token::Partition,
            Some('o') => Token::Offset,
            Some('T') => Token::Timestamp,
            Some('k') => Token::Key,
            Some('K') => Token::KeyLength,
            Some('s') => Token::Value,
            Some('S') => Token::ValueLength,
            Some('R') => Token::ValueLengthBinary,
            Some('h') => Token::Headers,
            Some('%') => Token::Text(b"%".to_vec()),
            other => {
                let other = other.map(String::from).unwrap_or_default();
                return Err(format!(
                    "%{other} stands for nothing: there are %t %p %o %T %k %K %s %S %R %h and %%"
                ));
            }
        });
        rest = &rest[at + 2..];
    }
    tokens.push(Token::Text(unescaped(rest)));
    tokens.retain(|token| !matches!(token, Token::Text(text) if text.is_empty()));
    Ok(Format { tokens, null: b"", is_json: false })
}

/// A record and where it stands.
pub(super) struct Shown<'a> {
    pub(super) topic: &'a str,
    pub(super) partition: i32,
    pub(super) offset: i64,
    pub(super) timestamp: i64,
    pub(super) timestamp_type: TimestampType,
    pub(super) record: &'a Record<'a>,
}

impl Format {
    pub(super) fn write(&self, shown: &Shown<'_>, out: &mut impl Write) -> io::Result<()> {
        if self.is_json {
            return write_json(shown, out);
        }
        let record = shown.record;
        for token in &self.tokens {
            match token {
                Token::Text(text) => out.write_all(text)?,
                Token::Topic => out.write_all(shown.topic.as_bytes())?,
                Token::Partition => write!(out, "{}", shown.partition)?,
                Token::Offset => write!(out, "{}", shown.offset)?,
                Token::Timestamp => write!(out, "{}", shown.timestamp)?,
                Token::Key => out.write_all(record.key.unwrap_or(self.null))?,
                Token::KeyLength => write!(out, "{}", length(record.key))?,
                Token::Value => out.write_all(record.value.unwrap_or(self.null))?,
                Token::ValueLength => write!(out, "{}", length(record.value))?,
                Token::ValueLengthBinary => out.write_all(&length(record.value).to_be_bytes())?,
                Token::Headers => write_headers(record, out)?,
            }
        }
        Ok(())
    }
}

/// No field of a record is longer than that.
fn length(field: Option<&[u8]>) -> i32 {
    field.map_or(-1, |field| i32::try_from(field.len()).unwrap_or(i32::MAX))
}

/// `name=value`, between commas.
fn write_headers(record: &Record<'_>, out: &mut impl Write) -> io::Result<()> {
    for (header, number) in record.headers.zip(0..) {
        if number > 0 {
            out.write_all(b",")?;
        }
        out.write_all(header.key)?;
        out.write_all(b"=")?;
        out.write_all(header.value.unwrap_or(b"NULL"))?;
    }
    Ok(())
}

fn write_json(shown: &Shown<'_>, out: &mut impl Write) -> io::Result<()> {
    let headers = shown.record.headers.flat_map(|header| [Some(header.key), header.value]);
    let timestamp_type = match shown.timestamp_type {
        TimestampType::CreateTime => "create",
        TimestampType::LogAppendTime => "logappend",
    };
    let envelope = Envelope {
        topic: Some(Cow::Borrowed(shown.topic)),
        partition: Some(shown.partition),
        offset: Some(shown.offset),
        tstype: Some(Cow::Borrowed(timestamp_type)),
        ts: Some(shown.timestamp),
        broker: None,
        headers: headers.map(Field::from).collect(),
        key: shown.record.key.into(),
        payload: shown.record.value.into(),
    };
    serde_json::to_writer(&mut *out, &envelope)?;
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_read_as_kcats() {
        let format = parse(r"%t [%p] %%%o\t%R\n").expect("it is a format");
        let text = |text: &[u8]| Token::Text(text.to_vec());
        let expected = [
            Token::Topic,
            text(b" ["),
            Token::Partition,
            text(b"] "),
            text(b"%"),
            Token::Offset,
            text(b"\t"),
            Token::ValueLengthBinary,
            text(b"\n"),
        ];
        assert_eq!(format.tokens, expected);
        for wrong in ["%", "%x", "a%é"] {
            assert!(parse(wrong).expect_err(wrong).contains("stands for nothing"));
        }
    }
}
