//! The beginning of a text that somebody else wrote.

/// The first `chars_max` characters of `text`, and a sign if there are more.
///
/// Error texts repeat what a client sent, which may be as long as a request; an answer has room for
/// 32 767 bytes of it in old versions, and people read less.
pub fn excerpt(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(excerpt("äöü", 3), "äöü");
        assert_eq!(excerpt("äöü", 2), "äö…");
        assert_eq!(excerpt("", 0), "");
    }
}
