//! Documents that are made from tables of the code are as those tables are.
//!
//! `UPDATE_EXPECT=1` writes them, which is what `cargo xtask docs` does.

use std::path::Path;

fn fresh(path: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        return std::fs::write(&path, expected).expect("the document can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expected, "{} is stale: run `cargo xtask docs`", path.display());
}

#[test]
fn the_settings() {
    fresh("docs/operate/configuration.md", &metadata::settings::render_markdown());
}
