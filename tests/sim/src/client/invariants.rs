//! What must be true of a client and of what its brokers hold, by the numbers of the properties of the
//! whole system. One property, one file; what is a matter of one of the two worlds alone stands there.

pub(super) mod i04_no_duplicate;
pub(super) mod i05_order;
pub(super) mod i07_committed_only;
pub(super) mod i30_hostile_bytes;
