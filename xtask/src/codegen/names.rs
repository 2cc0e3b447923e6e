//! Kafka's names in Rust.

const KEYWORDS: &[&str] = &["type", "match", "move", "ref", "use", "where", "in", "as", "loop", "fn"];

/// `TopicId` as `topic_id`. Words of several capitals that are one word are known here.
pub(super) fn snake(name: &str) -> String {
    let name = name.replace("KRaft", "Kraft").replace("2Pc", "_2pc");
    let mut snake = String::new();
    let mut last = '_';
    for c in name.chars() {
        if c.is_ascii_uppercase() && last != '_' && !last.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
        last = c;
    }
    snake
}

/// The name of a field; those that are words of Rust get an underscore.
pub(super) fn field(name: &str) -> String {
    let mut name = snake(name);
    if KEYWORDS.contains(&name.as_str()) {
        name.push('_');
    }
    name
}

/// The API or the message without what it is: `Produce` of `ProduceRequest`, `OffsetCommit` of `OffsetCommitKey`.
pub(super) fn stem(name: &str) -> &str {
    let parts = ["Request", "Response", "Key", "Value"];
    parts.iter().find_map(|part| name.strip_suffix(part)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_like_rust() {
        let cases = [
            ("TopicId", "topic_id"),
            ("timeoutMs", "timeout_ms"),
            ("KRaftVersionFeature", "kraft_version_feature"),
            ("Enable2Pc", "enable_2pc"),
            ("V3AndBelowTopics", "v3_and_below_topics"),
            ("Type", "type_"),
        ];
        for (kafka, rust) in cases {
            assert_eq!(field(kafka), rust);
        }
    }
}
