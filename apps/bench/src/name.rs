//! Names of files.

/// What a benchmark is called, as part of the name of a file: names of others have spaces, slashes and more.
pub(crate) fn in_a_name(word: &str) -> String {
    let may = |letter: char| letter.is_ascii_alphanumeric() || ".=_-".contains(letter);
    word.chars().map(|letter| if may(letter) { letter } else { '_' }).collect()
}
