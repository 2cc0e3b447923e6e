//! Foreign clients.
fn main() {}
