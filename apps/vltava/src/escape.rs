//! Bytes as people write them on a command line: `\n`, `\t`, `\x1f`, `\0`.

/// What stands between records, or between keys and values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Delimiter(pub(crate) Vec<u8>);

impl Delimiter {
    /// The end of a line.
    pub(crate) fn line() -> Self {
        Self(b"\n".to_vec())
    }

    /// Reads one from the command line.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match unescaped(text) {
            bytes if bytes.is_empty() => Err("at least one character must stand there".to_owned()),
            bytes => Ok(Self(bytes)),
        }
    }
}

/// The bytes of a text: `\n`, `\r`, `\t`, `\xNN` in hexadecimal, `\0NNN` in octal, `\NNN` in decimal, as
/// kcat has it; any other character behind a backslash is itself.
pub(crate) fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        rest = &rest[at + 1..];
        let Some(escaped) = rest.chars().next() else {
            bytes.push(b'\\');
            break;
        };
        let behind = &rest[escaped.len_utf8()..];
        let number = match escaped {
            'x' => number(behind, 16, 2),
            '0' => number(rest, 8, 4),
            '1'..='9' => number(rest, 10, 3),
            _ => None,
        };
        if let Some((byte, behind)) = number {
            bytes.push(byte);
            rest = behind;
            continue;
        }
        match escaped {
            'n' => bytes.push(b'\n'),
            'r' => bytes.push(b'\r'),
            't' => bytes.push(b'\t'),
            other => bytes.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
        }
        rest = behind;
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

/// The byte that the first digits say, and what follows them.
fn number(text: &str, radix: u32, digits_max: usize) -> Option<(u8, &str)> {
    let digits = text.chars().take(digits_max).take_while(|c| c.is_digit(radix)).count();
    let number = u32::from_str_radix(text.get(..digits)?, radix).ok()?;
    Some((u8::try_from(number).ok()?, &text[digits..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_kcats() {
        let cases: &[(&str, &[u8])] = &[
            ("plain", b"plain"),
            (r"a\tb\nc\r", b"a\tb\nc\r"),
            (r"\x1f|\x41B", b"\x1f|AB"),
            (r"\0", b"\0"),
            (r"\0377!", b"\xff!"),
            (r"\31", b"\x1f"),
            (r"\\n\%", b"\\n%"),
            (r"\xzz\", b"xzz\\"),
            ("\\é", "é".as_bytes()),
        ];
        for (text, bytes) in cases {
            assert_eq!(unescaped(text), *bytes, "{text}");
        }
        assert!(Delimiter::parse("").is_err());
    }
}
