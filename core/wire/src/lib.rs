//! The Kafka protocol: frames, headers, every message of every version.
