//! Just enough of Rust's grammar to look at code without its comments and strings.

/// The same text, line by line and byte by byte, with comments, strings and character literals
/// turned into spaces: what is left is code.
pub(crate) fn code_only(text: &str) -> String {
    let mut blank = Blank { from: text.as_bytes(), at: 0, to: Vec::with_capacity(text.len()) };
    while blank.at < blank.from.len() {
        blank.step();
    }
    String::from_utf8(blank.to).unwrap_or_default()
}

/// A reader that copies code and blanks the rest.
struct Blank<'a> {
    from: &'a [u8],
    at: usize,
    to: Vec<u8>,
}

impl Blank<'_> {
    fn step(&mut self) {
        let rest = &self.from[self.at..];
        if rest.starts_with(b"//") {
            let len = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            return self.blank(len);
        }
        if rest.starts_with(b"/*") {
            return self.blank(comment_len(rest));
        }
        if let Some(len) = raw_string_len(rest).filter(|_| !self.inside_word()) {
            return self.blank(len);
        }
        match rest[0] {
            b'"' => self.blank(quoted_len(rest, b'"')),
            b'\'' if is_char(rest) => self.blank(quoted_len(rest, b'\'')),
            byte => {
                self.to.push(if byte.is_ascii() { byte } else { b' ' });
                self.at += 1;
            }
        }
    }

    fn blank(&mut self, len: usize) {
        for byte in &self.from[self.at..self.at + len] {
            self.to.push(if *byte == b'\n' { b'\n' } else { b' ' });
        }
        self.at += len;
    }

    fn inside_word(&self) -> bool {
        self.to.last().is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
    }
}

/// The length of a block comment, which may hold others.
fn comment_len(text: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        if text[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

/// The length of `r"…"`, `r#"…"#`, `br"…"` and the like, if one starts here.
fn raw_string_len(text: &[u8]) -> Option<usize> {
    let prefix = [b"br".as_slice(), b"cr", b"r"].into_iter().find(|prefix| text.starts_with(prefix))?;
    let hashes = text[prefix.len()..].iter().take_while(|byte| **byte == b'#').count();
    let open = prefix.len() + hashes;
    if text.get(open) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'"'];
    close.resize(1 + hashes, b'#');
    let body = &text[open + 1..];
    let len = body.windows(close.len()).position(|window| window == close);
    Some(len.map_or(text.len(), |len| open + 1 + len + close.len()))
}

/// The length of a literal that starts with `quote` and in which a backslash escapes.
fn quoted_len(text: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < text.len() {
        match text[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

/// Whether a quote starts a character rather than a lifetime.
fn is_char(text: &[u8]) -> bool {
    match text.get(1) {
        Some(b'\\') => true,
        Some(byte) if !byte.is_ascii() => true,
        Some(_) => text.get(2) == Some(&b'\''),
        None => false,
    }
}

/// Blanks what only tests see: items and modules under `#[cfg(test)]`.
pub(crate) fn without_tests(code: &str) -> String {
    let mut left = code.to_owned();
    while let Some(start) = left.find("#[cfg(test)]") {
        let len = item_len(&left[start..]);
        let blank: String =
            left[start..start + len].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
        left.replace_range(start..start + len, &blank);
    }
    left
}

/// How far an item reaches: to its closing brace, or to the semicolon if it has none.
fn item_len(code: &str) -> usize {
    let mut depth = 0usize;
    for (at, c) in code.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth <= 1 => return at + 1,
            '}' => depth -= 1,
            ';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

/// The words and signs of some code, in order; `::` is one sign.
pub(crate) fn tokens(code: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(c) = rest.chars().next() {
        let len = if c.is_alphanumeric() || c == '_' {
            rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            c.len_utf8()
        };
        if !c.is_whitespace() {
            found.push(&rest[..len]);
        }
        rest = &rest[len..];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_code_is_blanked() {
        let cases = [
            ("let a = \"fn {\"; // }", "let a =       ;     "),
            ("let b = r#\"\"{\"#;", "let b =        ;"),
            ("let c = '{'; let d: &'a u8;", "let c =    ; let d: &'a u8;"),
            ("/* { /* } */ */x", "               x"),
            ("for\"\\\"{\"", "for     "),
        ];
        for (text, code) in cases {
            assert_eq!(code_only(text), code, "{text}");
        }
    }

    #[test]
    fn lines_stay_where_they_are() {
        assert_eq!(code_only("a\n\"x\ny\"\nb"), "a\n  \n  \nb");
    }

    #[test]
    fn tests_are_blanked() {
        let code = "fn a() {}\n#[cfg(test)]\nmod tests { fn b() { } }\nfn c() {}\n#[cfg(test)]\nmod d;";
        let left = without_tests(code);
        assert_eq!(tokens(&left), ["fn", "a", "(", ")", "{", "}", "fn", "c", "(", ")", "{", "}"]);
    }
}
