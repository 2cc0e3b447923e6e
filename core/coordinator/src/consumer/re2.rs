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
    let mut rest = Rest { chars: pattern.chars().peekable(), may_have_names: true };
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
    /// Whether `:]` may come yet, which ends a name in brackets.
    may_have_names: bool,
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
                if self.takes("{") {
                    self.braced(out);
                } else if named != 'x' {
                    out.extend(self.chars.next());
                }
            }
            Some(other) => out.extend(['\\', other]),
            None => out.push('\\'),
        }
    }

    /// Up to the brace that closes, if there is one.
    fn braced(&mut self, out: &mut String) {
        out.push('{');
        for char in self.chars.by_ref() {
            out.push(char);
            if char == '}' {
                break;
            }
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
            if self.starts_with("[:") && self.has_name_end() {
                self.name(out);
                continue;
            }
            let Some(item) = self.member(out) else { return };
            let is_range = item == Item::Char && self.starts_with("-") && !self.starts_with("-]");
            if is_range && self.takes("-") {
                out.push('-');
                if self.member(out).is_none() {
                    return;
                }
            }
        }
        out.push(']');
    }

    /// Whether a name like `[:alpha:]` has an end. Without one the bracket stands for itself, and so do all behind it.
    fn has_name_end(&mut self) -> bool {
        let mut ahead = self.chars.clone();
        let mut before = None;
        while self.may_have_names {
            match ahead.next() {
                Some(']') if before == Some(':') => return true,
                None => self.may_have_names = false,
                char => before = char,
            }
        }
        false
    }

    /// A name in brackets. One that does not exist is made one that `regex` refuses, too: it would take it for brackets
    /// in brackets.
    fn name(&mut self, out: &mut String) {
        const NAMES: &[&str] = &[
            "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
            "space", "upper", "word", "xdigit",
        ];
        let name = self.upto(":]");
        let text = name.trim_start_matches("[:");
        let is_known = NAMES.contains(&text.strip_prefix('^').unwrap_or(text));
        if is_known {
            out.extend([name.as_str(), ":]"]);
        } else {
            out.push_str(r"\p{no such name}");
        }
    }

    /// One character in brackets, or what stands for several; `None` if there is nothing.
    fn member(&mut self, out: &mut String) -> Option<Item> {
        let char = self.chars.next()?;
        if char == '\\' {
            let is_set = matches!(self.chars.peek(), Some('d' | 'D' | 's' | 'S' | 'w' | 'W' | 'p' | 'P'));
            self.escape(out);
            return Some(if is_set { Item::Set } else { Item::Char });
        }
        // Angles have a meaning only behind a backslash.
        if char.is_ascii_punctuation() && !matches!(char, '<' | '>') {
            out.push('\\');
        }
        out.push(char);
        Some(Item::Char)
    }
}

/// What stands in brackets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    /// One character, which may begin a range.
    Char,
    /// Several, as `\d`: a `-` behind it stands for itself.
    Set,
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
        let all: [(&str, &[&str], &[&str]); 21] = [
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
            (r"[\w-.]+", &["a-b.c", "_"], &["a b"]),
            (r"[\d-_]", &["1", "-", "_"], &["A"]),
            (r"[\pL-z]", &["b", "-", "z"], &["1"]),
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
        for pattern in [
            r"\",
            r"\1",
            r"\8",
            r"\E",
            r"\Z",
            "(",
            "[",
            "[]",
            "[^]",
            "[a",
            r"[a\",
            "[z-a]",
            "[[:nix:]]",
            r"\x{41",
            r"\p{Greek",
            "a**?*(",
        ] {
            assert!(regex::Regex::new(&translated(pattern)).is_err(), "{pattern} as {}", translated(pattern));
        }
    }
}
