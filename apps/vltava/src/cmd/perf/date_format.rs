//! Times as Java's `SimpleDateFormat` prints them, whose patterns Kafka's tools take.

use std::fmt::Write as _;

use anyhow::{Result, bail, ensure};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// What Kafka's tools print by default.
pub(super) const KAFKAS: &str = "yyyy-MM-dd HH:mm:ss:SSS";

/// More letters in a row are a slip of the hand, not a width.
const WIDTH_MAX: usize = 64;

/// A pattern, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DateFormat(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// So many times the same letter.
    Field(char, usize),
}

impl DateFormat {
    /// Reads a pattern, or says what in it is not understood.
    ///
    /// Weeks (`w`, `W`, `Y`) are not, for in which week a day is depends on the country; nor are the names of
    /// time zones in full (`zzzz`).
    pub(super) fn parse(pattern: &str) -> Result<Self> {
        let mut pieces = Vec::new();
        let mut rest = pattern;
        while let Some(first) = rest.chars().next() {
            let (piece, behind) = match first {
                '\'' => quoted(&rest[1..])?,
                first if first.is_ascii_alphabetic() => field(first, rest)?,
                first => (Piece::Text(first.to_string()), &rest[first.len_utf8()..]),
            };
            pieces.push(piece);
            rest = behind;
        }
        Ok(Self(pieces))
    }

    /// A time in milliseconds since 1970, in the time zone of this system, as Java prints it.
    pub(super) fn format(&self, ms: i64) -> String {
        let time = Timestamp::from_millisecond(ms).unwrap_or_default();
        self.format_zoned(&time.to_zoned(TimeZone::system()))
    }

    fn format_zoned(&self, time: &Zoned) -> String {
        let mut out = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Field(letter, width) => put(&mut out, *letter, *width, time),
            }
        }
        out
    }
}

/// Text up to the next quote; two quotes are one that is meant.
fn quoted(rest: &str) -> Result<(Piece, &str)> {
    if let Some(behind) = rest.strip_prefix('\'') {
        return Ok((Piece::Text("'".to_owned()), behind));
    }
    let mut text = String::new();
    let mut rest = rest;
    while let Some((before, behind)) = rest.split_once('\'') {
        text.push_str(before);
        match behind.strip_prefix('\'') {
            Some(behind) => {
                text.push('\'');
                rest = behind;
            }
            None => return Ok((Piece::Text(text), behind)),
        }
    }
    bail!("a quote is not closed")
}

fn field(letter: char, rest: &str) -> Result<(Piece, &str)> {
    let behind = rest.trim_start_matches(letter);
    let width = rest.len() - behind.len();
    ensure!(
        "GyMLdDFEuaHkKhmsSzZX".contains(letter),
        "'{letter}' means nothing, or a week, which this tool cannot tell; text goes between quotes ('…')"
    );
    ensure!(letter != 'X' || width <= 3, "there are at most three X");
    ensure!(letter != 'z' || width <= 3, "this tool knows time zones by their short names only: z");
    ensure!(width <= WIDTH_MAX, "'{letter}' comes {width} times");
    Ok((Piece::Field(letter, width), behind))
}

fn put(out: &mut String, letter: char, width: usize, time: &Zoned) {
    let hour = i64::from(time.hour());
    let number = match letter {
        'y' if width == 2 => i64::from(time.year()).rem_euclid(100),
        'y' => time.year().into(),
        'M' | 'L' if width < 3 => time.month().into(),
        'd' => time.day().into(),
        'D' => time.day_of_year().into(),
        // The how-manieth Monday, Tuesday… of its month it is.
        'F' => i64::from(time.day() - 1) / 7 + 1,
        'u' => time.weekday().to_monday_one_offset().into(),
        'H' => hour,
        'k' => (hour + 23) % 24 + 1,
        'K' => hour % 12,
        'h' => (hour + 11) % 12 + 1,
        'm' => time.minute().into(),
        's' => time.second().into(),
        'S' => time.millisecond().into(),
        _ => return put_text(out, letter, width, time),
    };
    let _ = write!(out, "{number:0width$}");
}

fn put_text(out: &mut String, letter: char, width: usize, time: &Zoned) {
    let format = match (letter, width) {
        ('M' | 'L', 3) => "%b",
        ('M' | 'L', _) => "%B",
        ('E', 1..=3) => "%a",
        ('E', _) => "%A",
        ('a', _) => "%p",
        ('z', _) => "%Z",
        ('X', _) if time.offset().is_zero() => "Z",
        ('X', 3) => "%:z",
        ('X' | 'Z', _) => "%z",
        _ => "AD",
    };
    let text = time.strftime(format).to_string();
    out.push_str(if (letter, width) == ('X', 1) { &text[..text.len().min(3)] } else { &text });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Java 17 printed, in the locale en_US.
    #[test]
    fn times_are_printed_as_java_does() {
        let at = |zone: &str, ms| {
            let zone = TimeZone::posix(zone).expect("it is a time zone");
            Timestamp::from_millisecond(ms).expect("it is a time").to_zoned(zone)
        };
        let prague = at("CET-1CEST,M3.5.0,M10.5.0/3", 1_751_800_802_007);
        let new_york = at("EST5EDT,M3.2.0,M11.1.0", 1_795_294_503_616);
        let first = at("UTC0", 0);
        for (pattern, expected) in [
            (KAFKAS, ["2025-07-06 13:20:02:007", "2026-11-21 15:55:03:616", "1970-01-01 00:00:00:000"]),
            ("yy-M-d h:m:s a", ["25-7-6 1:20:2 PM", "26-11-21 3:55:3 PM", "70-1-1 12:0:0 AM"]),
            (
                "EEE EEEE MMM MMMM LLL LLLL",
                [
                    "Sun Sunday Jul July Jul July",
                    "Sat Saturday Nov November Nov November",
                    "Thu Thursday Jan January Jan January",
                ],
            ),
            ("yyyyyy u F D DDD", ["002025 7 1 187 187", "002026 6 3 325 325", "001970 4 1 1 001"]),
            ("k K H hh kk KK", ["13 1 13 01 13 01", "15 3 15 03 15 03", "24 0 0 12 24 00"]),
            ("S SS SSSS", ["7 07 0007", "616 616 0616", "0 00 0000"]),
            (
                "z Z X XX XXX",
                ["CEST +0200 +02 +0200 +02:00", "EST -0500 -05 -0500 -05:00", "UTC +0000 Z Z Z"],
            ),
            ("G GG 'it''s' ''", ["AD AD it's '"; 3]),
            ("y yyy MMMMM E", ["2025 2025 July Sun", "2026 2026 November Sat", "1970 1970 January Thu"]),
            ("dd/MM/yyyy'T'HH", ["06/07/2025T13", "21/11/2026T15", "01/01/1970T00"]),
        ] {
            let format = DateFormat::parse(pattern).expect("it is a pattern");
            let printed = [&prague, &new_york, &first].map(|time| format.format_zoned(time));
            assert_eq!(printed, expected, "{pattern}");
        }
    }

    #[test]
    fn what_is_not_understood_is_said() {
        let refused = |pattern: &str| DateFormat::parse(pattern).unwrap_err().to_string();
        assert!(refused("yyyy-ww").contains("'w'"));
        assert!(refused("yyyy-MM-ddTHH").contains("'T'"));
        assert!(refused("HH 'o''clock").contains("quote"));
        assert!(refused("XXXX").contains("three"));
    }
}
