//! Reads the protocol's primitives from a frame, without copying.
//!
//! ```text
//!              rigid                      flexible
//!   string     i16 length, -1 null        uvarint length + 1, 0 null
//!   bytes      i32 length, -1 null        uvarint length + 1, 0 null
//!   array      i32 count,  -1 null        uvarint count + 1,  0 null
//!   tags       none                       uvarint count, then each: uvarint tag, uvarint size, value
//! ```
//!
//! Every length is compared with the bytes that are left, every count with what they can hold, and all
//! arrays of a frame together may take only a fixed multiple of the frame's bytes.

use base::Uuid;

use crate::error::DecodeError;
use crate::records::Records;

/// The most elements an array may have, as in Kafka 4.4.
pub const ARRAY_ELEMENTS_MAX: usize = 1_000_000;
/// The most tagged fields a struct may have, as in Kafka 4.4.
pub const TAGS_MAX: usize = 10_000;
/// The longest string, in bytes; Kafka keeps the limit of the rigid form in the flexible one.
pub const STRING_BYTES_MAX: usize = i16::MAX as usize;

/// Memory that arrays may take per byte of the frame. An empty string takes 16 bytes of memory and one
/// of the frame; whatever has names or numbers in it is far below.
const MEMORY_PER_BYTE: usize = 16;
/// Memory that arrays may take in any frame, so that a short one is never refused.
const MEMORY_FLOOR_BYTES: usize = 32 * 1024;
/// What an array may take before its first element was read.
const FIRST_CHUNK_BYTES: usize = 4 * 1024;

/// What a string that is not UTF-8 is read as: no name and no setting is valid with it, so the request is
/// answered with the error that is due, and not by closing the connection. Kafka puts it in the place of
/// each byte that is wrong.
pub const NOT_UTF8: &str = "\u{fffd}";

/// A place in a frame.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    rest: &'a [u8],
    /// Bytes of the frame up to the end of `rest`.
    end: usize,
    /// What arrays may still take of memory.
    memory: usize,
}

impl<'a> Decoder<'a> {
    /// Starts at the first of these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        let memory = bytes.len().saturating_mul(MEMORY_PER_BYTE).saturating_add(MEMORY_FLOOR_BYTES);
        Self { rest: bytes, end: bytes.len(), memory }
    }

    /// The bytes that are left.
    pub fn remaining(&self) -> &'a [u8] {
        self.rest
    }

    /// How many bytes were read.
    pub fn position(&self) -> usize {
        self.end - self.rest.len()
    }

    /// Checks that nothing is left.
    pub fn finish(&self) -> Result<(), DecodeError> {
        match self.rest.len() {
            0 => Ok(()),
            len => Err(DecodeError::Trailing { at: self.position(), len }),
        }
    }

    /// The next bytes, as they are.
    #[inline]
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let Some((bytes, rest)) = self.rest.split_at_checked(len) else { return Err(self.short()) };
        self.rest = rest;
        Ok(bytes)
    }

    #[inline]
    fn chunk<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let Some((bytes, rest)) = self.rest.split_first_chunk::<N>() else { return Err(self.short()) };
        self.rest = rest;
        Ok(*bytes)
    }

    #[cold]
    fn short(&self) -> DecodeError {
        DecodeError::Short { at: self.position() }
    }

    /// A truth: any byte but zero is true.
    #[inline]
    pub fn bool(&mut self) -> Result<bool, DecodeError> {
        Ok(self.chunk::<1>()? != [0])
    }

    /// A number of 8 bits.
    #[inline]
    pub fn i8(&mut self) -> Result<i8, DecodeError> {
        self.chunk().map(i8::from_be_bytes)
    }

    /// A number of 16 bits.
    #[inline]
    pub fn i16(&mut self) -> Result<i16, DecodeError> {
        self.chunk().map(i16::from_be_bytes)
    }

    /// A number of 16 bits without a sign.
    #[inline]
    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        self.chunk().map(u16::from_be_bytes)
    }

    /// A number of 32 bits.
    #[inline]
    pub fn i32(&mut self) -> Result<i32, DecodeError> {
        self.chunk().map(i32::from_be_bytes)
    }

    /// A number of 64 bits.
    #[inline]
    pub fn i64(&mut self) -> Result<i64, DecodeError> {
        self.chunk().map(i64::from_be_bytes)
    }

    /// A floating-point number of 64 bits.
    #[inline]
    pub fn f64(&mut self) -> Result<f64, DecodeError> {
        self.chunk().map(f64::from_be_bytes)
    }

    /// An id.
    #[inline]
    pub fn uuid(&mut self) -> Result<Uuid, DecodeError> {
        self.chunk().map(Uuid)
    }

    /// A number of at most 32 bits in one to five bytes, seven bits in each, the lowest first.
    #[inline]
    pub fn uvarint(&mut self) -> Result<u32, DecodeError> {
        match self.rest {
            [byte, rest @ ..] if *byte < 0x80 => {
                self.rest = rest;
                Ok(u32::from(*byte))
            }
            _ => self.uvarint_long(),
        }
    }

    fn uvarint_long(&mut self) -> Result<u32, DecodeError> {
        let at = self.position();
        let mut value = 0;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.chunk()?;
            let bits = u32::from(byte & 0x7f);
            if shift == 28 && bits > 0x0f {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(DecodeError::Varint { at })
    }

    /// A string that is never null.
    #[inline]
    pub fn str(&mut self, flexible: bool) -> Result<&'a str, DecodeError> {
        self.nullable_str(flexible)?.ok_or(self.null())
    }

    /// A string or null.
    pub fn nullable_str(&mut self, flexible: bool) -> Result<Option<&'a str>, DecodeError> {
        let len = if flexible { self.flexible_len()? } else { i32::from(self.i16()?) };
        let Some(len) = self.unless_null(len)? else { return Ok(None) };
        if len > STRING_BYTES_MAX {
            return Err(DecodeError::StringLength { at: self.position(), len });
        }
        let bytes = self.take(len)?;
        Ok(Some(std::str::from_utf8(bytes).unwrap_or(NOT_UTF8)))
    }

    /// Bytes that are never null.
    #[inline]
    pub fn bytes(&mut self, flexible: bool) -> Result<&'a [u8], DecodeError> {
        self.nullable_bytes(flexible)?.ok_or(self.null())
    }

    /// Bytes or null.
    pub fn nullable_bytes(&mut self, flexible: bool) -> Result<Option<&'a [u8]>, DecodeError> {
        let len = self.len(flexible)?;
        self.unless_null(len)?.map(|len| self.take(len)).transpose()
    }

    /// Records that are never null.
    pub fn records(&mut self, flexible: bool) -> Result<Records<'a>, DecodeError> {
        self.bytes(flexible).map(Records::Bytes)
    }

    /// Records or null.
    pub fn nullable_records(&mut self, flexible: bool) -> Result<Option<Records<'a>>, DecodeError> {
        Ok(self.nullable_bytes(flexible)?.map(Records::Bytes))
    }

    /// Whether a struct that may be null is there.
    pub fn present(&mut self) -> Result<bool, DecodeError> {
        Ok(self.i8()? >= 0)
    }

    /// An array that is never null. Each element takes at least `size_min` bytes.
    pub fn array<T>(
        &mut self,
        flexible: bool,
        size_min: usize,
        element: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let count = self.count(flexible, size_min)?.ok_or(self.null())?;
        self.elements(count, element)
    }

    /// An array or null. Each element takes at least `size_min` bytes.
    pub fn nullable_array<T>(
        &mut self,
        flexible: bool,
        size_min: usize,
        element: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Option<Vec<T>>, DecodeError> {
        match self.count(flexible, size_min)? {
            None => Ok(None),
            Some(count) => self.elements(count, element).map(Some),
        }
    }

    /// The count of an array, of which the bytes that are left can hold as many; `None` for null.
    fn count(&mut self, flexible: bool, size_min: usize) -> Result<Option<usize>, DecodeError> {
        let len = self.len(flexible)?;
        let Some(count) = self.unless_null(len)? else { return Ok(None) };
        if count > ARRAY_ELEMENTS_MAX || count.saturating_mul(size_min.max(1)) > self.rest.len() {
            return Err(DecodeError::Count { at: self.position(), count });
        }
        Ok(Some(count))
    }

    fn elements<T>(
        &mut self,
        count: usize,
        mut element: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        // The count is believed only after as many elements as fit in a small chunk were read.
        let size = size_of::<T>().max(1);
        let first = count.min((FIRST_CHUNK_BYTES / size).max(1));
        self.charge(first * size)?;
        let mut elements = Vec::with_capacity(first);
        for _ in 0..first {
            elements.push(element(self)?);
        }
        if first < count {
            self.charge((count - first) * size)?;
            elements.reserve_exact(count - first);
            for _ in first..count {
                elements.push(element(self)?);
            }
        }
        Ok(elements)
    }

    #[inline]
    fn charge(&mut self, bytes: usize) -> Result<(), DecodeError> {
        self.memory = self.memory.checked_sub(bytes).ok_or(DecodeError::Memory { at: self.position() })?;
        Ok(())
    }

    /// The tagged fields at the end of a flexible struct. `field` gets the tag and a decoder that ends
    /// where the field ends; it answers whether it knows the tag, and must not have moved if not.
    #[inline]
    pub fn tags(
        &mut self,
        field: impl FnMut(u32, &mut Self) -> Result<bool, DecodeError>,
    ) -> Result<(), DecodeError> {
        match self.rest {
            [0, rest @ ..] => {
                self.rest = rest;
                Ok(())
            }
            _ => self.some_tags(field),
        }
    }

    fn some_tags(
        &mut self,
        mut field: impl FnMut(u32, &mut Self) -> Result<bool, DecodeError>,
    ) -> Result<(), DecodeError> {
        let count = self.uvarint()? as usize;
        if count > TAGS_MAX || count.saturating_mul(2) > self.rest.len() {
            return Err(DecodeError::Tags { at: self.position(), count });
        }
        for _ in 0..count {
            let tag = self.uvarint()?;
            let size = self.uvarint()? as usize;
            let (value, after) = self.rest.split_at_checked(size).ok_or(self.short())?;
            let outer_end = self.end;
            self.end -= after.len();
            self.rest = value;
            if field(tag, self)? && !self.rest.is_empty() {
                return Err(DecodeError::TagSize { at: self.position() });
            }
            self.end = outer_end;
            self.rest = after;
        }
        Ok(())
    }

    /// The end of a flexible struct that has no tagged fields: skips those of later versions.
    #[inline]
    pub fn no_tags(&mut self) -> Result<(), DecodeError> {
        self.tags(|_, _| Ok(false))
    }

    #[inline]
    fn len(&mut self, flexible: bool) -> Result<i32, DecodeError> {
        if flexible { self.flexible_len() } else { self.i32() }
    }

    /// A length in the form of the rigid versions: -1 is null.
    #[inline]
    fn flexible_len(&mut self) -> Result<i32, DecodeError> {
        let len = i64::from(self.uvarint()?) - 1;
        i32::try_from(len).map_err(|_| DecodeError::NegativeLength { at: self.position() })
    }

    #[inline]
    fn unless_null(&self, len: i32) -> Result<Option<usize>, DecodeError> {
        match usize::try_from(len) {
            Ok(len) => Ok(Some(len)),
            Err(_) if len == -1 => Ok(None),
            Err(_) => Err(DecodeError::NegativeLength { at: self.position() }),
        }
    }

    #[inline]
    fn null(&self) -> DecodeError {
        DecodeError::Null { at: self.position() }
    }
}

#[cfg(test)]
mod tests;
