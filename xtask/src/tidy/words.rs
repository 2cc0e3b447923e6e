//! Words that must not stay in the tree: unfinished work and paths of somebody's machine.

use super::Finding;
use super::files::Tree;

/// Each with the reason that is printed. Written in two halves, or this file would find itself.
const WORDS: &[(&str, &str)] = &[
    (concat!("TO", "DO"), "finish it, or write it into the issue"),
    (concat!("FIX", "ME"), "finish it, or write it into the issue"),
    (concat!("to", "do!("), "finish it"),
    (concat!("unimple", "mented!("), "finish it"),
    (concat!("/wo", "rk/"), "a path of one machine"),
    (concat!("/fa", "rm/"), "a path of one machine"),
    (concat!("/ro", "ot/"), "a path of one machine"),
    (concat!("/ho", "me/"), "a path of one machine"),
    (concat!("/Us", "ers/"), "a path of one machine"),
    (concat!("/tmp/", "target"), "a path of one machine"),
];

pub(super) fn check(tree: &Tree, found: &mut Vec<Finding>) {
    let written = tree.texts.iter().filter(|(name, _)| !name.ends_with(".lock") && *name != "LICENSE");
    for (name, text) in written {
        for (at, line) in text.lines().enumerate() {
            for (word, reason) in WORDS.iter().filter(|(word, _)| holds(line, word)) {
                found.push(Finding::new(format!("{name}:{}", at + 1), format!("`{word}`: {reason}")));
            }
        }
    }
}

/// Whether a line holds a word that is not part of a longer one.
fn holds(line: &str, word: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '.' || c == '}';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let ends_open = word.ends_with(|c: char| !c.is_alphanumeric());
        !before.is_some_and(is_word) && (ends_open || !after.is_some_and(is_word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_words_count() {
        let (work, path) = (WORDS[0].0, WORDS[4].0);
        assert!(holds(&format!("// {work}: later"), work));
        assert!(!holds(&format!("{work}S"), work));
        assert!(holds(&format!("\"{path}main\""), path));
        assert!(!holds(&format!("$HOME{path}main"), path));
    }
}
