//! The records field of Produce, Fetch and their kin.

/// Record batches: bytes at hand, or a place for bytes that the sender brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Records<'a> {
    /// The batches. Decoding gives nothing else.
    Bytes(&'a [u8]),
    /// Encoding writes the length and leaves a [`Hole`](crate::Hole): the sender fills it from a file.
    External {
        /// How many bytes the sender brings.
        len: u32,
    },
}

impl Default for Records<'_> {
    fn default() -> Self {
        Self::Bytes(&[])
    }
}

impl Records<'_> {
    /// How many bytes they are.
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::External { len } => *len as usize,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
