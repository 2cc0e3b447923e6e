//! Writes the protocol's primitives into one buffer, with holes for what is sent from files.
//!
//! The layouts are those of [`Decoder`](crate::Decoder).

use base::Uuid;

use crate::decoder::STRING_BYTES_MAX;
use crate::error::EncodeError;
use crate::frame::{Frame, Hole};
use crate::records::Records;

const SIZE_PREFIX_BYTES: usize = 4;
/// Flexible lengths are written one higher, and a frame as a whole is an `i32` long.
const LENGTH_MAX: usize = i32::MAX as usize - 1;

/// A message in the making.
#[derive(Debug, Default)]
pub struct Encoder {
    bytes: Vec<u8>,
    holes: Vec<Hole>,
    errors: Vec<(i16, u32)>,
}

/// The tagged fields of a struct, while they are written.
#[derive(Debug)]
pub struct OpenTags {
    /// Where their count is.
    at: usize,
}

/// A tagged field, while it is written.
#[derive(Debug)]
pub struct OpenTag {
    /// Where its size is.
    at: usize,
}

impl Encoder {
    /// Starts with nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts with room for the size of the frame.
    pub fn framed() -> Self {
        let mut bytes = Vec::with_capacity(256);
        bytes.extend_from_slice(&[0; SIZE_PREFIX_BYTES]);
        Self { bytes, ..Self::default() }
    }

    /// Ends a frame that [`Encoder::framed`] began: writes its size.
    pub fn into_frame(mut self) -> Result<Frame, EncodeError> {
        let holes: usize = self.holes.iter().map(|hole| hole.len as usize).sum();
        let len = (self.bytes.len() + holes).saturating_sub(SIZE_PREFIX_BYTES);
        let size = i32::try_from(len).map_err(|_| EncodeError::Length { len, max: i32::MAX as usize })?;
        let prefix = self.bytes.first_chunk_mut().expect("framed() made room for the size");
        *prefix = size.to_be_bytes();
        Ok(Frame { bytes: self.bytes, holes: self.holes, errors: self.errors })
    }

    /// What was written, if nothing of it is elsewhere.
    pub fn into_bytes(self) -> Vec<u8> {
        assert!(self.holes.is_empty(), "bytes without a frame have no holes");
        self.bytes
    }

    /// What was written so far, without what fills the holes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes, as they are.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// A truth.
    #[inline]
    pub fn bool(&mut self, value: bool) {
        self.bytes.push(u8::from(value));
    }

    /// A number of 8 bits.
    #[inline]
    pub fn i8(&mut self, value: i8) {
        self.put(&value.to_be_bytes());
    }

    /// A number of 16 bits.
    #[inline]
    pub fn i16(&mut self, value: i16) {
        self.put(&value.to_be_bytes());
    }

    /// A number of 16 bits without a sign.
    #[inline]
    pub fn u16(&mut self, value: u16) {
        self.put(&value.to_be_bytes());
    }

    /// A number of 32 bits.
    #[inline]
    pub fn i32(&mut self, value: i32) {
        self.put(&value.to_be_bytes());
    }

    /// A number of 64 bits.
    #[inline]
    pub fn i64(&mut self, value: i64) {
        self.put(&value.to_be_bytes());
    }

    /// A floating-point number of 64 bits.
    #[inline]
    pub fn f64(&mut self, value: f64) {
        self.put(&value.to_be_bytes());
    }

    /// An id.
    #[inline]
    pub fn uuid(&mut self, value: Uuid) {
        self.put(&value.0);
    }

    /// A number in one to five bytes, seven bits in each, the lowest first.
    #[inline]
    pub fn uvarint(&mut self, value: u32) {
        let (bytes, len) = uvarint(value);
        self.put(&bytes[..len]);
    }

    /// A string.
    pub fn str(&mut self, value: &str, flexible: bool) -> Result<(), EncodeError> {
        let len = value.len();
        if len > STRING_BYTES_MAX {
            return Err(EncodeError::Length { len, max: STRING_BYTES_MAX });
        }
        if flexible {
            self.uvarint(len as u32 + 1);
        } else {
            self.i16(len as i16);
        }
        self.put(value.as_bytes());
        Ok(())
    }

    /// A string or null.
    pub fn nullable_str(&mut self, value: Option<&str>, flexible: bool) -> Result<(), EncodeError> {
        match value {
            Some(value) => self.str(value, flexible)?,
            None if flexible => self.uvarint(0),
            None => self.i16(-1),
        }
        Ok(())
    }

    /// The outcome of a request or of a part of one: a number of 16 bits, which the frame remembers unless
    /// it is 0.
    #[inline]
    pub fn error_code(&mut self, code: i16) {
        self.i16(code);
        if code != 0 {
            self.count_error(code);
        }
    }

    #[cold]
    fn count_error(&mut self, code: i16) {
        match self.errors.iter_mut().find(|(known, _)| *known == code) {
            Some((_, times)) => *times += 1,
            None => self.errors.push((code, 1)),
        }
    }

    /// What a person is told of an outcome, or null. It may say again what the client sent, so it is cut
    /// to what a string can hold: the outcome itself must arrive.
    pub fn error_message(&mut self, value: Option<&str>, flexible: bool) -> Result<(), EncodeError> {
        let cut = |text: &'_ str| text.floor_char_boundary(STRING_BYTES_MAX);
        self.nullable_str(value.map(|text| &text[..cut(text)]), flexible)
    }

    /// Bytes behind their length.
    pub fn bytes(&mut self, value: &[u8], flexible: bool) -> Result<(), EncodeError> {
        self.len(value.len(), flexible)?;
        self.put(value);
        Ok(())
    }

    /// Bytes behind their length, or null.
    pub fn nullable_bytes(&mut self, value: Option<&[u8]>, flexible: bool) -> Result<(), EncodeError> {
        match value {
            Some(value) => self.bytes(value, flexible)?,
            None => self.null(flexible),
        }
        Ok(())
    }

    /// Records behind their length: their bytes or a hole.
    pub fn records(&mut self, value: Records<'_>, flexible: bool) -> Result<(), EncodeError> {
        match value {
            Records::Bytes(bytes) => self.bytes(bytes, flexible)?,
            Records::External { len } => {
                self.len(len as usize, flexible)?;
                if len > 0 {
                    self.holes.push(Hole { at: self.bytes.len(), len });
                }
            }
        }
        Ok(())
    }

    /// Records behind their length, or null.
    pub fn nullable_records(
        &mut self,
        value: Option<Records<'_>>,
        flexible: bool,
    ) -> Result<(), EncodeError> {
        match value {
            Some(value) => self.records(value, flexible)?,
            None => self.null(flexible),
        }
        Ok(())
    }

    /// Whether a struct that may be null is there.
    #[inline]
    pub fn present(&mut self, value: bool) {
        self.i8(if value { 1 } else { -1 });
    }

    /// An array.
    pub fn array<T>(
        &mut self,
        elements: &[T],
        flexible: bool,
        mut element: impl FnMut(&mut Self, &T) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        self.len(elements.len(), flexible)?;
        elements.iter().try_for_each(|value| element(self, value))
    }

    /// An array or null.
    pub fn nullable_array<T>(
        &mut self,
        elements: Option<&[T]>,
        flexible: bool,
        element: impl FnMut(&mut Self, &T) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        match elements {
            Some(elements) => self.array(elements, flexible, element)?,
            None => self.null(flexible),
        }
        Ok(())
    }

    /// The end of a flexible struct that has no tagged fields.
    #[inline]
    pub fn no_tags(&mut self) {
        self.bytes.push(0);
    }

    /// Begins the tagged fields of a flexible struct, of which there are fewer than 128.
    pub fn tags(&mut self) -> OpenTags {
        let at = self.bytes.len();
        self.bytes.push(0);
        OpenTags { at }
    }

    /// Begins a tagged field; they come in the order of their tags.
    pub fn tag(&mut self, tags: &OpenTags, tag: u32) -> OpenTag {
        self.bytes[tags.at] += 1;
        self.uvarint(tag);
        let at = self.bytes.len();
        self.bytes.push(0);
        OpenTag { at }
    }

    /// Ends a tagged field: writes its size. Records cannot be in one, so no hole moves.
    pub fn end_tag(&mut self, tag: OpenTag) -> Result<(), EncodeError> {
        let len = self.bytes.len() - tag.at - 1;
        check_length(len)?;
        let (bytes, size) = uvarint(len as u32);
        self.bytes.splice(tag.at..=tag.at, bytes[..size].iter().copied());
        Ok(())
    }

    #[inline]
    fn len(&mut self, len: usize, flexible: bool) -> Result<(), EncodeError> {
        check_length(len)?;
        if flexible {
            self.uvarint(len as u32 + 1);
        } else {
            self.i32(len as i32);
        }
        Ok(())
    }

    fn null(&mut self, flexible: bool) {
        if flexible {
            self.uvarint(0);
        } else {
            self.i32(-1);
        }
    }
}

fn check_length(len: usize) -> Result<(), EncodeError> {
    if len > LENGTH_MAX { Err(EncodeError::Length { len, max: LENGTH_MAX }) } else { Ok(()) }
}

#[inline]
fn uvarint(value: u32) -> ([u8; 5], usize) {
    let mut bytes = [0; 5];
    let mut rest = value;
    let mut len = 0;
    while rest >= 0x80 {
        bytes[len] = rest as u8 | 0x80;
        rest >>= 7;
        len += 1;
    }
    bytes[len] = rest as u8;
    (bytes, len + 1)
}

#[cfg(test)]
mod tests;
