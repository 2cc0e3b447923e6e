//! What a member wants to read.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::TopicName;
use regex_lite::Regex;

/// The topics of a member.
#[derive(Debug, Clone)]
pub enum Subscription {
    /// These.
    Topics(BTreeSet<TopicName>),
    /// Those that are called like this, also those that come later. Topics of the cluster's own are none.
    Pattern(Pattern),
}

/// A regular expression that fits the whole name of a topic. In a group of the consumer protocol it is the
/// coordinator that resolves it, as RE2 does.
#[derive(Debug, Clone)]
pub struct Pattern {
    text: Arc<str>,
    regex: Regex,
}

/// Why a text is no pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no regular expression: {reason}")]
pub struct PatternError {
    text: String,
    reason: String,
}

impl Pattern {
    /// Reads a regular expression.
    pub fn new(text: &str) -> Result<Self, PatternError> {
        let wrong = |reason: String| PatternError { text: base::excerpt(text, 300), reason };
        // What is wrong by itself must not become right between the brackets.
        Regex::new(text).map_err(|error| wrong(error.to_string()))?;
        let regex = Regex::new(&format!("^(?:{text})$")).map_err(|error| wrong(error.to_string()))?;
        Ok(Self { text: text.into(), regex })
    }

    /// As it was given.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether a topic is called like this.
    pub fn is_match(&self, topic: &str) -> bool {
        self.regex.is_match(topic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_fits_the_whole_name() {
        let pattern = Pattern::new("orders|bills-[0-9]+").expect("it is one");
        let fits =
            ["orders", "bills-7", "bills-", "my-orders", "orders-2"].map(|name| pattern.is_match(name));
        assert_eq!(fits, [true, true, false, false, false]);
        assert!(Pattern::new("a)(b").is_err());
        assert!(Pattern::new("[").is_err());
    }
}
