//! Values made from a template: a text with places in double braces that are filled anew for each record.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

use crate::chance::Chance;

/// What `--help` says of the places.
pub const PLACES: &str = "\
Places of a template, filled anew for each record:
  {{seq}}          the number of the record, from 0
  {{uuid}}         a random UUID
  {{int A B}}      a number from A to B
  {{float A B}}    a number from A to B with three decimals
  {{word}}         a word
  {{text N}}       N random letters
  {{timestamp}}    the time in milliseconds since 1970";

/// A line as the log of a web application has it: some nine hundred bytes of JSON, most of them the same in all.
pub const LOG_LINE: &str = concat!(
    r#"{"time":{{timestamp}},"seq":{{seq}},"level":"INFO","logger":"com.example.web.RequestLog","thread":"#,
    r#""http-nio-8443-exec-{{int 1 200}}","host":"web-{{int 1 64}}.eu-west-1.example.com","#,
    r#""request":{"id":"{{uuid}}","method":"GET","scheme":"https","path":"/api/v2/{{word}}/{{int 1 999999}}","#,
    r#""query":"expand={{word}}&locale=en_GB&page={{int 1 40}}","status":200,"bytes":{{int 200 90000}},"#,
    r#""duration_ms":{{float 0 900}},"client":"10.{{int 0 255}}.{{int 0 255}}.{{int 0 255}}","#,
    r#""user_agent":"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Safari/537.36","#,
    r#""referer":"https://www.example.com/{{word}}/{{word}}/index.html"},"#,
    r#""user":{"id":{{int 1 5000000}},"session":"{{uuid}}","plan":"{{word}}","country":"NL","#,
    r#""experiments":["{{word}}","{{word}}","{{word}}"]},"trace":{"trace_id":"{{uuid}}","#,
    r#""span_id":"{{text 16}}","sampled":false},"upstream":[{"service":"{{word}}","status":200,"#,
    r#""duration_ms":{{float 0 90}}},{"service":"{{word}}","status":200,"duration_ms":{{float 0 90}}}]}"#
);

/// The values of records, one after the other.
pub struct Template {
    parts: Vec<Part>,
    value: Vec<u8>,
    number: u64,
    chance: Chance,
}

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Text(Vec<u8>),
    Seq,
    Uuid,
    Int { from: i64, to: i64 },
    Float { from: f64, to: f64 },
    Word,
    Letters(usize),
    Timestamp,
}

/// More than this is no record that a broker takes by default.
const LETTERS_MAX: usize = 1 << 20;

impl Template {
    /// `text`, or what is in the file that it names behind an `@`.
    pub fn new(text: &str, first: u64, chance: Chance) -> Result<Self> {
        let parts = match text.strip_prefix('@') {
            Some(path) => {
                let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
                // The line's end is the file's, not the record's.
                parse(text.strip_suffix('\n').unwrap_or(&text))
            }
            None => parse(text),
        };
        Ok(Self { parts: parts?, value: Vec::new(), number: first, chance })
    }

    /// The same for another sender, whose numbers begin at `first`.
    pub fn another(&self, first: u64, chance: Chance) -> Self {
        Self { parts: self.parts.clone(), value: Vec::new(), number: first, chance }
    }

    #[inline]
    /// The value of the next record.
    pub fn next_value(&mut self) -> &[u8] {
        self.value.clear();
        for part in &self.parts {
            part.fill(self.number, &mut self.chance, &mut self.value);
        }
        self.number += 1;
        &self.value
    }
}

fn parse(text: &str) -> Result<Vec<Part>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("{{") {
        let (place, behind) = behind.split_once("}}").context("a template has {{ without }}")?;
        if !before.is_empty() {
            parts.push(Part::Text(before.into()));
        }
        parts.push(Part::parse(place)?);
        rest = behind;
    }
    if !rest.is_empty() {
        parts.push(Part::Text(rest.into()));
    }
    Ok(parts)
}

impl Part {
    fn parse(place: &str) -> Result<Self> {
        let words: Vec<&str> = place.split_whitespace().collect();
        let part = match words[..] {
            ["seq"] => Self::Seq,
            ["uuid"] => Self::Uuid,
            ["word"] => Self::Word,
            ["timestamp"] => Self::Timestamp,
            ["int", from, to] => match (from.parse(), to.parse()) {
                (Ok(from), Ok(to)) if from <= to => Self::Int { from, to },
                _ => bail!("{{{{{place}}}}}: expected two numbers, the smaller first"),
            },
            ["float", from, to] => match (from.parse::<f64>(), to.parse::<f64>()) {
                (Ok(from), Ok(to)) if from <= to && (to - from).is_finite() => Self::Float { from, to },
                _ => bail!("{{{{{place}}}}}: expected two numbers, the smaller first"),
            },
            ["text", letters] => match letters.parse() {
                Ok(letters @ 0..=LETTERS_MAX) => Self::Letters(letters),
                _ => bail!("{{{{{place}}}}}: expected how many letters, {LETTERS_MAX} at most"),
            },
            _ => bail!("{{{{{place}}}}} is not a place of a template\n{PLACES}"),
        };
        Ok(part)
    }

    fn fill(&self, number: u64, chance: &mut Chance, value: &mut Vec<u8>) {
        match self {
            Self::Text(text) => value.extend_from_slice(text),
            Self::Seq => integer(number, value),
            Self::Uuid => uuid(chance, value),
            &Self::Int { from, to } => {
                // All numbers of 64 bits are one more than fits.
                let count = (i128::from(to) - i128::from(from) + 1).min(i128::from(u64::MAX)) as u64;
                integer(from.wrapping_add_unsigned(chance.below(count)), value);
            }
            Self::Float { from, to } => decimal(from + (to - from) * chance.unit(), value),
            Self::Word => {
                value.extend_from_slice(WORDS[chance.below(WORDS.len() as u64) as usize].as_bytes());
            }
            Self::Letters(count) => letters(*count, chance, value),
            Self::Timestamp => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                integer(now.as_millis() as u64, value);
            }
        }
    }
}

// What fills a place may take a few nanoseconds: a line has dozens of them, and the load must not be what limits a
// measurement. With the standard library's formatting it was, by a profile.

fn integer(number: impl itoa::Integer, value: &mut Vec<u8>) {
    value.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// With three decimals.
fn decimal(number: f64, value: &mut Vec<u8>) {
    /// Below this, thousandths are whole numbers that an `f64` has.
    const EXACT_END: f64 = 1e12;
    if number.abs() >= EXACT_END {
        // Writing to memory cannot fail.
        let _ = std::io::Write::write_fmt(value, format_args!("{number:.3}"));
        return;
    }
    let thousandths = (number * 1e3).round() as i64;
    if thousandths < 0 {
        value.push(b'-');
    }
    let thousandths = thousandths.unsigned_abs();
    integer(thousandths / 1_000, value);
    let digit = |of: u64| b'0' + (thousandths / of % 10) as u8;
    value.extend_from_slice(&[b'.', digit(100), digit(10), digit(1)]);
}

fn letters(count: usize, chance: &mut Chance, value: &mut Vec<u8>) {
    let mut left = count;
    while left > 0 {
        let bits = chance.draw();
        // Four numbers below 2¹⁶, of which each letter has as many as every other, or one more.
        let drawn = [0, 16, 32, 48].map(|from| b'A' + (((bits >> from & 0xffff) * 26) >> 16) as u8);
        let taken = left.min(drawn.len());
        value.extend_from_slice(&drawn[..taken]);
        left -= taken;
    }
}

/// Version 4: by chance.
fn uuid(chance: &mut Chance, value: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    /// Where in the text each byte is.
    const PLACES: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];
    let bits = (u128::from(chance.draw()) << 64) | u128::from(chance.draw());
    let bits = (bits & !(0xf << 76) & !(0b11 << 62)) | (4 << 76) | (0b10 << 62);
    let mut text = [b'-'; 36];
    for (at, byte) in PLACES.into_iter().zip(bits.to_be_bytes()) {
        text[at] = DIGITS[usize::from(byte >> 4)];
        text[at + 1] = DIGITS[usize::from(byte & 0xf)];
    }
    value.extend_from_slice(&text);
}

/// Words of logs and orders, of lengths as they occur.
const WORDS: [&str; 32] = [
    "accepted",
    "account",
    "address",
    "amount",
    "apple",
    "bridge",
    "cancelled",
    "castle",
    "city",
    "created",
    "currency",
    "customer",
    "delivered",
    "error",
    "harbour",
    "invoice",
    "item",
    "order",
    "paid",
    "payment",
    "pending",
    "price",
    "product",
    "refund",
    "returned",
    "river",
    "service",
    "session",
    "shipped",
    "street",
    "user",
    "warehouse",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn template(text: &str) -> Template {
        Template::new(text, 7, Chance::new(1, 0)).expect("it is a template")
    }

    fn next(template: &mut Template) -> String {
        String::from_utf8(template.next_value().to_vec()).expect("it is text")
    }

    #[test]
    fn places_are_filled() {
        let text = r#"{"id":{{seq}},"u":"{{uuid}}","n":{{int -3 3}},"f":{{float 0 1}},"w":"{{word}}","t":{{timestamp}},"x":"{{text 5}}"}"#;
        let mut lines = template(text);
        for number in 7..107 {
            let line = next(&mut lines);
            let found: serde_json::Value = serde_json::from_str(&line).expect("it is JSON");
            assert_eq!(found["id"], number);
            let uuid = found["u"].as_str().expect("it is text");
            assert!(uuid.len() == 36 && &uuid[14..15] == "4" && "89ab".contains(&uuid[19..20]), "{uuid}");
            assert!(found["n"].as_i64().is_some_and(|n| (-3..=3).contains(&n)), "{line}");
            assert!(found["f"].as_f64().is_some_and(|f| (0.0..=1.0).contains(&f)), "{line}");
            assert!(found["w"].as_str().is_some_and(|word| WORDS.contains(&word)), "{line}");
            assert!(found["t"].as_u64().is_some_and(|ms| ms > 1_700_000_000_000), "{line}");
            assert!(found["x"].as_str().is_some_and(|text| text.len() == 5), "{line}");
        }
    }

    #[test]
    fn a_seed_gives_the_same_lines() {
        let text = "{{uuid}} {{int 0 1000000}} {{word}}";
        let lines = |mut template: Template| [next(&mut template), next(&mut template)];
        assert_eq!(lines(template(text)), lines(template(text)));
        let [first, second] = lines(template(text));
        assert_ne!(first, second);
    }

    #[test]
    fn decimals_are_those_of_the_standard_library() {
        for thousandths in [0, 1, 9, 10, 99, 100, 999, 1_000, 1_001, 89_999, 999_999_999_999_999_i64] {
            for number in [thousandths as f64 / 1e3, -thousandths as f64 / 1e3] {
                let mut value = Vec::new();
                decimal(number, &mut value);
                assert_eq!(String::from_utf8_lossy(&value), format!("{:.3}", number + 0.0));
            }
        }
        for large in [1e12, -3e20, f64::MAX] {
            let mut value = Vec::new();
            decimal(large, &mut value);
            assert_eq!(String::from_utf8_lossy(&value), format!("{large:.3}"));
        }
    }

    #[test]
    fn letters_are_as_many_as_are_asked_for_and_even() {
        let mut chance = Chance::new(3, 0);
        let mut counts = [0_u32; 26];
        for count in 0..1_000 {
            let mut value = vec![b'!'];
            letters(count, &mut chance, &mut value);
            assert_eq!(value.len(), 1 + count);
            value[1..].iter().for_each(|letter| counts[usize::from(letter - b'A')] += 1);
        }
        assert!(counts.iter().all(|count| (18_200..20_200).contains(count)), "{counts:?}");
    }

    #[test]
    fn what_is_no_place_is_refused() {
        for wrong in ["{{", "{{seq", "{{no}}", "{{int 3 1}}", "{{int 3}}", "{{text -1}}", "{{float a b}}"] {
            assert!(Template::new(wrong, 0, Chance::new(1, 0)).is_err(), "{wrong}");
        }
        assert_eq!(next(&mut template("{ } }} {")), "{ } }} {");
        assert!(!template("{{int -9223372036854775808 9223372036854775807}}").next_value().is_empty());
    }
}
