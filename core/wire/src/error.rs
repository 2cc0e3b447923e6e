//! What can be wrong with bytes that a peer sent, and with a message that is to be sent.

/// Bytes that are not the message they should be. `at` counts from the start of what the decoder was
/// given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end within a value.
    #[error("the bytes end at {at}, within a value")]
    Short {
        /// Where the value starts.
        at: usize,
    },
    /// A length below zero that does not mean null.
    #[error("a negative length at {at}")]
    NegativeLength {
        /// Behind the length.
        at: usize,
    },
    /// A null where the version has none.
    #[error("a null at {at}, where the version has none")]
    Null {
        /// Behind the null.
        at: usize,
    },
    /// A string over the protocol's limit.
    #[error("a string of {len} bytes at {at}")]
    StringLength {
        /// Where its bytes start.
        at: usize,
        /// How long it is said to be.
        len: usize,
    },
    /// A variable-length number that does not end or does not fit.
    #[error("a number at {at} that is too long")]
    Varint {
        /// Where it starts.
        at: usize,
    },
    /// More elements than the protocol allows or the bytes that are left can hold.
    #[error("an array of {count} elements at {at}")]
    Count {
        /// Behind the count.
        at: usize,
        /// How many elements there are said to be.
        count: usize,
    },
    /// More tagged fields than the protocol allows or the bytes that are left can hold.
    #[error("{count} tagged fields at {at}")]
    Tags {
        /// Behind the count.
        at: usize,
        /// How many tagged fields there are said to be.
        count: usize,
    },
    /// A tagged field that is longer than its value.
    #[error("a tagged field that ends at {at}, but has a longer size")]
    TagSize {
        /// Behind the value.
        at: usize,
    },
    /// Elements so many and so empty that they would take many times the memory of their bytes.
    #[error("the arrays up to {at} would take too much memory")]
    Memory {
        /// Behind the count that was too much.
        at: usize,
    },
    /// A request that nodes do not ask each other.
    #[error("no request with key {key} and version {version} is asked among nodes")]
    Key {
        /// Its key.
        key: i16,
        /// Its version.
        version: i16,
    },
    /// Bytes behind the message.
    #[error("the message ends at {at}, but {len} bytes follow")]
    Trailing {
        /// Where the message ends.
        at: usize,
        /// How many bytes follow.
        len: usize,
    },
    /// A version that the message does not have.
    #[error("the message has no version {version}")]
    Version {
        /// The version that was asked for.
        version: i16,
    },
    /// A key that no API has.
    #[error("no API has key {key}")]
    UnknownKey {
        /// The key.
        key: i16,
    },
}

/// A message that cannot be said in a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// A version that the message does not have.
    #[error("{message} has no version {version}")]
    Version {
        /// The message.
        message: &'static str,
        /// The version that was asked for.
        version: i16,
    },
    /// A field is set that the version lacks, and that must not be left out.
    #[error("{field} is set, but version {version} lacks it")]
    Field {
        /// The field, with its struct.
        field: &'static str,
        /// The version that was asked for.
        version: i16,
    },
    /// A field is null where the version has no null.
    #[error("{field} is null, which version {version} cannot say")]
    Null {
        /// The field, with its struct.
        field: &'static str,
        /// The version that was asked for.
        version: i16,
    },
    /// A string, an array, or a frame longer than the protocol can say.
    #[error("a length of {len}, of at most {max}")]
    Length {
        /// How long it is.
        len: usize,
        /// How long it may be.
        max: usize,
    },
}

/// A size prefix that no frame may have. The connection cannot be read any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Below zero.
    #[error("a frame of {size} bytes")]
    Negative {
        /// What the prefix says.
        size: i32,
    },
    /// Over the limit.
    #[error("a frame of {size} bytes, of at most {max}")]
    TooLong {
        /// What the prefix says.
        size: usize,
        /// The limit.
        max: usize,
    },
}
