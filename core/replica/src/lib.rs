//! One partition on this broker.
