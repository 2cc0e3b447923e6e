//! Tables, paragraphs, lines and times for people.

use std::fmt;
use std::io::{self, Write};

use comfy_table::presets::NOTHING;
use comfy_table::{Cell, ContentArrangement};
use jiff::Timestamp;

/// Says a line on standard error, for as long as somebody reads it.
pub(crate) fn say(words: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{words}");
}

/// Rows under a headline, in columns that fit the terminal.
pub(crate) struct Table(comfy_table::Table);

impl Table {
    /// Starts with the names of the columns.
    pub(crate) fn new(columns: &[&str]) -> Self {
        let mut table = comfy_table::Table::new();
        table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
        table.set_header(columns.iter().map(|name| Cell::new(name.to_uppercase())));
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        Self(table)
    }

    /// Adds a row with a value for each column.
    pub(crate) fn row<T: fmt::Display>(&mut self, values: impl IntoIterator<Item = T>) {
        self.0.add_row(values.into_iter().map(Cell::new));
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, line) in self.0.lines().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            f.write_str(line.trim_end())?;
        }
        Ok(())
    }
}

/// So many bytes, in units of a thousand.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1e3;
    let mut unit = 0;
    // What would be rounded to a thousand is one of the next unit.
    while value >= 999.95 && unit + 1 < UNITS.len() {
        value /= 1e3;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// How long something has been, in the two units that say most.
pub(crate) fn age(ms: u64) -> String {
    let seconds = ms / 1000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match seconds {
        0 => format!("{ms} ms"),
        1..=9 => format!("{seconds}.{} s", ms % 1000 / 100),
        10..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{minutes} min {} s", seconds % 60),
        7_200..=172_799 => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

/// Breaks a text into lines of at most `width` characters, where a word allows it.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A time in milliseconds since 1970 as a date and a time of day, UTC; as it is where no calendar has it.
pub(crate) fn utc(ms: i64) -> String {
    match Timestamp::from_millisecond(ms) {
        Ok(time) => format!("{time:.3}"),
        Err(_) => format!("{ms} ms since 1970"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates() {
        let cases = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (i64::MAX, "9223372036854775807 ms since 1970"),
        ];
        for (ms, expected) in cases {
            assert_eq!(utc(ms), expected);
        }
    }

    #[test]
    fn a_table_has_a_headline_and_no_trailing_spaces() {
        let mut table = Table::new(&["name", "n"]);
        table.row(["orders", "6"]);
        table.row(["x", ""]);
        assert_eq!(table.to_string(), "NAME    N\norders  6\nx");
    }

    #[test]
    fn sizes_have_units() {
        let cases = [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1.0 kB"),
            (999_949, "999.9 kB"),
            (999_950, "1.0 MB"),
            (3_400_000_000, "3.4 GB"),
            (u64::MAX, "18446.7 PB"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(size(bytes), expected);
        }
    }

    #[test]
    fn ages_have_two_units_at_most() {
        let cases = [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_250, "1.2 s"),
            (119_999, "119 s"),
            (125_000, "2 min 5 s"),
            (7_260_000, "2 h 1 min"),
            (90_061_000_000, "1042 d 8 h"),
        ];
        for (ms, expected) in cases {
            assert_eq!(age(ms), expected);
        }
    }

    #[test]
    fn text_is_broken_between_words() {
        assert_eq!(wrapped("one two  three", 7), ["one two", "three"]);
        assert_eq!(wrapped("a-very-long-word b", 4), ["a-very-long-word", "b"]);
    }
}
