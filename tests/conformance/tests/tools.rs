//! Foreign clients against a real node.
fn main() {}
