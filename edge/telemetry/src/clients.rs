//! Which client software connects, as it says of itself.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Each pair is a line in every scrape for as long as the process lives, and clients choose them.
const PAIRS_MAX: usize = 64;
const NAME_CHARS_MAX: usize = 64;

/// Connections by the name and version that their client gave.
#[derive(Debug, Default)]
pub struct Clients(Mutex<BTreeMap<(String, String), u64>>);

impl Clients {
    /// A connection said what software it is. Those that would be one too many are counted as
    /// `other`.
    pub fn connected(&self, name: &str, version: &str) {
        let shorten = |text: &str| text.chars().take(NAME_CHARS_MAX).collect::<String>();
        let mut pair = (shorten(name), shorten(version));
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= PAIRS_MAX && !seen.contains_key(&pair) {
            pair = ("other".to_owned(), String::new());
        }
        *seen.entry(pair).or_insert(0) += 1;
    }

    pub(crate) fn seen(&self) -> Vec<((String, String), u64)> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().map(|(pair, count)| (pair.clone(), *count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_cannot_fill_the_page() {
        let clients = Clients::default();
        for n in 0..10_000 {
            clients.connected(&format!("client-{n}"), &"v".repeat(1_000));
        }
        let seen = clients.seen();
        assert_eq!(seen.len(), PAIRS_MAX + 1);
        assert_eq!(seen.iter().map(|(_, count)| count).sum::<u64>(), 10_000);
        assert!(seen.iter().all(|((_, version), _)| version.len() <= NAME_CHARS_MAX));
    }
}
