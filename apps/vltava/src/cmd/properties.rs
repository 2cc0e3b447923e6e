//! Files of settings for a client, as Kafka's own tools take them: what `java.util.Properties` reads.
//!
//! ```text
//!   # a comment, as behind a !
//!   acks=1       acks: 1       acks 1          name, then = or : or blanks, then value
//!   bootstrap.servers=a:9092,\
//!                     b:9092                   a \ at its end: the line goes on in the next
//!   client.id=a\tb\u00e9                       \t \n \r \f \uXXXX; any other character stands for itself
//! ```

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow};

/// Reads a file of properties: names and values in their order, where the last of a name counts.
pub(super) fn read(path: &Path) -> Result<Vec<(String, String)>> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    // Java reads a byte as a character: what is beyond Latin-1 is written as \uXXXX.
    let text: String = bytes.iter().map(|&byte| char::from(byte)).collect();
    let pair = |(number, line): (usize, String)| {
        pair(&line).with_context(|| format!("{}, line {number}", path.display()))
    };
    logical_lines(&text).into_iter().map(pair).collect()
}

const BLANKS: [char; 3] = [' ', '\t', '\x0c'];

/// Lines that say something, those that go on put together; each with the number of its first.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let ends = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (line, number) in ends.split('\n').zip(1..) {
        let line = line.trim_start_matches(BLANKS);
        // Nothing was said yet: a line that goes on from a lone \ may still be a comment.
        let is_first = !goes_on || lines.last().is_none_or(|(_, said)| said.is_empty());
        if is_first && line.starts_with(['#', '!']) {
            goes_on = false;
            continue;
        }
        if !goes_on {
            lines.push((number, String::new()));
        }
        // Of two each stands for one.
        goes_on = line.bytes().rev().take_while(|&byte| byte == b'\\').count() % 2 == 1;
        let said = if goes_on { &line[..line.len() - 1] } else { line };
        if let Some((_, whole)) = lines.last_mut() {
            whole.push_str(said);
        }
    }
    lines.retain(|(_, said)| !said.is_empty());
    lines
}

/// Name and value of a line.
fn pair(line: &str) -> Result<(String, String)> {
    let mut is_escaped = false;
    let ends = |character: char| {
        let ends = !is_escaped && (matches!(character, '=' | ':') || BLANKS.contains(&character));
        is_escaped = character == '\\' && !is_escaped;
        ends
    };
    let (name, rest) = line.split_at(line.find(ends).unwrap_or(line.len()));
    let rest = rest.trim_start_matches(BLANKS);
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest).trim_start_matches(BLANKS);
    // Java leaves blanks behind a value to whoever reads it, and Kafka takes them away.
    Ok((unescaped(name)?, unescaped(value)?.trim().to_owned()))
}

fn unescaped(text: &str) -> Result<String> {
    // As in Java, \uXXXX is half of a character that is beyond the first 65 536.
    let mut units: Vec<u16> = Vec::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        let meant = match character {
            '\\' => match rest.next() {
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('f') => '\x0c',
                Some('u') => {
                    let digits: String = rest.by_ref().take(4).collect();
                    let is_number = digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
                    let unit = u16::from_str_radix(&digits, 16).ok().filter(|_| is_number);
                    units.push(unit.ok_or_else(|| {
                        anyhow!("\\u{digits}: a character has four hexadecimal digits, as in \\u00e9")
                    })?);
                    continue;
                }
                Some(other) => other,
                None => break,
            },
            other => other,
        };
        units.extend(meant.encode_utf16(&mut [0; 2]).iter());
    }
    Ok(String::from_utf16_lossy(&units))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &[u8]) -> Result<Vec<(String, String)>> {
        let file = tempfile::NamedTempFile::new().expect("there is a place for a file");
        fs::write(file.path(), text).expect("it can be written");
        read(file.path())
    }

    #[test]
    fn it_is_read_as_java_reads_it() {
        // What java.util.Properties makes of these; the blanks behind a value as Kafka takes them.
        type Pairs = &'static [(&'static str, &'static str)];
        let cases: &[(&[u8], Pairs)] = &[
            (b"", &[]),
            (b"\n \t\n# none\n  ! none = either \\\n", &[]),
            (b"acks=1", &[("acks", "1")]),
            (b"acks = 1 \r\nacks:2\racks: 3\n", &[("acks", "1"), ("acks", "2"), ("acks", "3")]),
            (b"  acks 1\nacks\t: 2\nacks", &[("acks", "1"), ("acks", "2"), ("acks", "")]),
            (b"a = = b\na  b = c\n:a\n", &[("a", "= b"), ("a", "b = c"), ("", "a")]),
            (b"a=b#c\\\n   d\\\n\\\n\te\nf=g\n", &[("a", "b#cde"), ("f", "g")]),
            (b"a=b\\\\\nc=d\n", &[("a", "b\\"), ("c", "d")]),
            (b"a=b,\\\n# c\n", &[("a", "b,# c")]),
            (b"\\\n# c\nd=\\\n\ne=f", &[("d", ""), ("e", "f")]),
            (b"a\\ b\\=c\\:d=\\q\\t\\n\\r\\f.\\#", &[("a b=c:d", "q\t\n\r\x0c.#")]),
            (b"a=\\u0159\\u20AC\\ud83d\\ude00\nb=\xe9\nc=d\\", &[("a", "ř€😀"), ("b", "é"), ("c", "d")]),
        ];
        for (text, expected) in cases {
            let read = read_text(text).expect("it can be read");
            let read: Vec<_> = read.iter().map(|(name, value)| (&**name, &**value)).collect();
            assert_eq!(&read, expected, "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn what_is_no_character_is_told_of_with_its_line() {
        for text in ["a=b\n\\\nc=\\u12x4\n", "a=b\nc=\\u+123\n", "a=b\nc=\\u12"] {
            let error = format!("{:#}", read_text(text.as_bytes()).expect_err("it has too few digits"));
            assert!(error.contains(", line 2: \\u"), "{error}");
        }
    }
}
