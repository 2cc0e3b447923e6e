//! Foreign clients against a real node.
