//! RE2's syntax, said in that of the `regex` crate: Kafka's brokers read the patterns of KIP-848 with RE2/J.
//!
//! Both come from RE2, and most of the syntax is the same. What is not:
//!
//! | | RE2 | `regex` |
//! | --- | --- | --- |
//! | `\Q…\E` | what stands between, literally | refused |
//! | `\0`, `\012`, `\12` | octal | refused |
//! | `\<`, `\>` | themselves | begin and end of a word |
//! | `{`, if it is no repetition | itself | refused, or `{,3}` taken for one |
//! | `[` in brackets | itself | brackets in brackets |
//! | `&&`, `--`, `~~` in brackets | themselves, or a range | operations with sets |
//!
//! What is right in neither is left as it is, to be refused. Source: <https://github.com/google/re2/wiki/Syntax>.

use std::iter::Peekable;
use std::str::Chars;

/// The same pattern for the `regex` crate.
pub(super) fn translated(pattern: &str) -> String {
    let mut rest = Rest { chars: pattern.chars().peekable() };
    let mut out = String::with_capacity(pattern.len() + 16);
    while let Some(char) = rest.chars.next() {
        match char {
            '\\' if rest.takes("Q") => {
                let text = rest.upto("\\E");
                out.push_str(&regex::escape(&text));
            }
            '\\' => rest.escape(&mut out),
            '[' => rest.class(&mut out),
            '{' if !rest.is_repetition() => out.push_str(r"\{"),
            other => out.push(other),
        }
    }
    out
}

/// What is left to read.
struct Rest<'a> {
    chars: Peekable<Chars<'a>>,
}

impl Rest<'_> {
    fn starts_with(&self, text: &str) -> bool {
        let mut ahead = self.chars.clone();
        text.chars().all(|char| ahead.next() == Some(char))
    }

    fn takes(&mut self, text: &str) -> bool {
        let is_next = self.starts_with(text);
        if is_next {
            self.chars.by_ref().take(text.chars().count()).for_each(drop);
        }
        is_next
    }

    /// What comes before `end`, which is read, too; all if it does not come.
    fn upto(&mut self, end: &str) -> String {
        let mut text = String::new();
        while !self.takes(end) {
            let Some(char) = self.chars.next() else { break };
            text.push(char);
        }
        text
    }

    /// Behind a backslash.
    fn escape(&mut self, out: &mut String) {
        match self.chars.next() {
            Some(angle @ ('<' | '>')) => out.push(angle),
            Some(digit @ '0'..='7') => self.octal(digit, out),
            Some(named @ ('p' | 'P' | 'x')) => {
                out.extend(['\\', named]);
                if self.starts_with("{") {
                    let name = self.upto("}");
                    out.extend([name.as_str(), "}"]);
                }
            }
            Some(other) => out.extend(['\\', other]),
            None => out.push('\\'),
        }
    }

    /// Up to three digits; one alone, if it is not zero, would be a reference to a group, which RE2 has not.
    fn octal(&mut self, first: char, out: &mut String) {
        let mut digits = String::from(first);
        while digits.len() < 3
            && let Some(digit) = self.chars.next_if(|char| ('0'..='7').contains(char))
        {
            digits.push(digit);
        }
        match u32::from_str_radix(&digits, 8) {
            Ok(code) if first == '0' || digits.len() > 1 => out.push_str(&format!(r"\x{{{code:x}}}")),
            _ => out.extend(['\\', first]),
        }
    }

    /// Whether `{` is followed by `n}`, `n,}` or `n,m}`.
    fn is_repetition(&self) -> bool {
        let mut ahead = self.chars.clone();
        let mut number = || {
            let mut digits = 0;
            while ahead.next_if(char::is_ascii_digit).is_some() {
                digits += 1;
            }
            (digits, ahead.next())
        };
        match number() {
            (1.., Some('}')) => true,
            (1.., Some(',')) => matches!(number(), (_, Some('}'))),
            _ => false,
        }
    }

    /// Behind a bracket that opens: all up to the one that closes.
    fn class(&mut self, out: &mut String) {
        out.push('[');
        if self.takes("^") {
            out.push('^');
        }
        let mut is_first = true;
        while is_first || !self.takes("]") {
            is_first = false;
            if self.starts_with("[:") && self.is_named() {
                let name = self.upto(":]");
                out.extend([name.as_str(), ":]"]);
                continue;
            }
            if !self.member(out) {
                return;
            }
            let is_range = self.starts_with("-") && !self.starts_with("-]");
            if is_range && self.takes("-") {
                out.push('-');
                if !self.member(out) {
                    return;
                }
            }
        }
        out.push(']');
    }

    /// Whether a name like `[:alpha:]` has an end.
    fn is_named(&self) -> bool {
        let mut ahead = Rest { chars: self.chars.clone() };
        while ahead.chars.peek().is_some() {
            if ahead.takes(":]") {
                return true;
            }
            ahead.chars.next();
        }
        false
    }

    /// One character in brackets, or what stands for several; whether there was any.
    fn member(&mut self, out: &mut String) -> bool {
        match self.chars.next() {
            None => return false,
            Some('\\') => self.escape(out),
            // Angles have a meaning only behind a backslash.
            Some(char) if char.is_ascii_punctuation() && !matches!(char, '<' | '>') => {
                out.extend(['\\', char])
            }
            Some(char) => out.push(char),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What of `names` a pattern matches as a whole.
    fn matched<'a>(pattern: &str, names: &[&'a str]) -> Vec<&'a str> {
        let regex = regex::Regex::new(&format!(r"\A(?:{})\z", translated(pattern)));
        let regex = regex.unwrap_or_else(|error| panic!("{pattern}: {error}"));
        names.iter().copied().filter(|name| regex.is_match(name)).collect()
    }

    #[test]
    fn what_only_re2_has_is_understood() {
        let all: [(&str, &[&str], &[&str]); 18] = [
            (r"\Qa.b\E", &["a.b"], &["axb"]),
            (r"\Qa.b\E.*", &["a.b", "a.bcd"], &["axb"]),
            (r"\Qa\\E", &[r"a\"], &["a"]),
            (r"\Qa.b", &["a.b"], &["axb"]),
            (r"x\Q\Ey", &["xy"], &["x"]),
            (r"\141\0612?", &["a1", "a12"], &["a"]),
            (r"[\141-\143]", &["a", "b", "c"], &["d"]),
            (r"\<a\>", &["<a>"], &["a"]),
            ("a{2}", &["aa"], &["a"]),
            ("a{1,}", &["a", "aa"], &[""]),
            ("a{,2}", &["a{,2}"], &["a", "aa"]),
            ("a{x", &["a{x"], &["a"]),
            ("[a[]", &["a", "["], &["]"]),
            ("[a&&b]", &["a", "b", "&"], &["ab"]),
            ("[a~~b]", &["a", "b", "~"], &[]),
            ("[+--]", &["+", ",", "-"], &["."]),
            ("[]a]", &["]", "a"], &["b"]),
            (r"[[:alpha:]_\pN\-]", &["x", "_", "7", "-"], &["."]),
        ];
        for (pattern, yes, no) in all {
            assert_eq!(matched(pattern, yes), yes, "{pattern} as {}", translated(pattern));
            assert_eq!(matched(pattern, no), [""; 0], "{pattern} as {}", translated(pattern));
        }
    }

    #[test]
    fn what_both_have_is_left() {
        let same = [
            "",
            "a|b",
            "(?i)orders-.*",
            r"orders\.[a-z]{2,3}",
            r"\d+\w*\s?",
            "(?P<a>x)(?:y)",
            r"\x41\x{42}\p{Greek}\PN",
            "a{2}{3}",
            r"^a$\A\z\b",
            "a}b]c",
            "é+",
        ];
        for pattern in same {
            assert_eq!(translated(pattern), pattern);
        }
    }

    #[test]
    fn what_is_wrong_stays_wrong() {
        for pattern in
            [r"\", r"\1", r"\8", r"\E", r"\Z", "(", "[", "[]", "[^]", "[a", r"[a\", "[z-a]", "a**?*("]
        {
            assert!(regex::Regex::new(&translated(pattern)).is_err(), "{pattern} as {}", translated(pattern));
        }
    }
}
