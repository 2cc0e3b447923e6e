use super::*;

#[test]
fn a_varint_has_at_most_five_bytes_and_32_bits() {
    let cases: &[(&[u8], Result<u32, DecodeError>)] = &[
        (&[0x00], Ok(0)),
        (&[0x7f], Ok(127)),
        (&[0x80, 0x01], Ok(128)),
        (&[0xff, 0xff, 0xff, 0xff, 0x0f], Ok(u32::MAX)),
        // Longer than it has to be, but the protocol does not forbid it.
        (&[0x81, 0x80, 0x00], Ok(1)),
        (&[0xff, 0xff, 0xff, 0xff, 0x1f], Err(DecodeError::Varint { at: 0 })),
        (&[0x80, 0x80, 0x80, 0x80, 0x80, 0x00], Err(DecodeError::Varint { at: 0 })),
        (&[0x80, 0x80], Err(DecodeError::Short { at: 2 })),
        (&[], Err(DecodeError::Short { at: 0 })),
    ];
    for (bytes, expected) in cases {
        assert_eq!(Decoder::new(bytes).uvarint(), *expected, "{bytes:?}");
    }
}

#[test]
fn numbers_are_big_endian() {
    let bytes = [0xff, 0xfe, 0x12, 0x34, 0x80, 0, 0, 1, 0x3f, 0xf8, 0, 0, 0, 0, 0, 0, 2, 0];
    let mut d = Decoder::new(&bytes);
    assert_eq!(d.i16(), Ok(-2));
    assert_eq!(d.u16(), Ok(0x1234));
    assert_eq!(d.i32(), Ok(i32::MIN + 1));
    assert_eq!(d.f64(), Ok(1.5));
    assert_eq!((d.bool(), d.bool()), (Ok(true), Ok(false)));
    assert_eq!(d.position(), bytes.len());
    assert_eq!(d.i8(), Err(DecodeError::Short { at: bytes.len() }));
}

#[test]
fn a_string_has_two_forms() {
    assert_eq!(Decoder::new(b"\x00\x02hi").str(false), Ok("hi"));
    assert_eq!(Decoder::new(b"\x03hi").str(true), Ok("hi"));
    assert_eq!(Decoder::new(b"\xff\xff").nullable_str(false), Ok(None));
    assert_eq!(Decoder::new(b"\x00").nullable_str(true), Ok(None));
    assert_eq!(Decoder::new(b"\xff\xff").str(false), Err(DecodeError::Null { at: 2 }));
    assert_eq!(Decoder::new(b"\x00").str(true), Err(DecodeError::Null { at: 1 }));
    assert_eq!(Decoder::new(b"\xff\xfe").nullable_str(false), Err(DecodeError::NegativeLength { at: 2 }));
    assert_eq!(Decoder::new(b"\x00\x03hi").str(false), Err(DecodeError::Short { at: 2 }));
    assert_eq!(Decoder::new(b"\x03\xc3\x28").str(true), Ok("\u{fffd}"));
}

#[test]
fn a_flexible_string_is_not_longer_than_a_rigid_one_may_be() {
    let mut bytes = vec![0x81, 0x80, 0x02];
    bytes.resize(3 + 0x8000, b'x');
    let refused = Err(DecodeError::StringLength { at: 3, len: 0x8000 });
    assert_eq!(Decoder::new(&bytes).str(true), refused);
    bytes[..3].copy_from_slice(&[0x80, 0x80, 0x02]);
    assert_eq!(Decoder::new(&bytes).str(true).map(str::len), Ok(STRING_BYTES_MAX));
}

#[test]
fn bytes_lengths_are_compared_with_what_is_left() {
    assert_eq!(Decoder::new(b"\x00\x00\x00\x01z").bytes(false), Ok(&b"z"[..]));
    assert_eq!(Decoder::new(b"\x02z").bytes(true), Ok(&b"z"[..]));
    assert_eq!(Decoder::new(b"\xff\xff\xff\xff").nullable_bytes(false), Ok(None));
    assert_eq!(Decoder::new(b"\x7f\xff\xff\xffz").bytes(false), Err(DecodeError::Short { at: 4 }));
    assert_eq!(Decoder::new(b"\x80\0\0\0z").bytes(false), Err(DecodeError::NegativeLength { at: 4 }));
    let most = b"\xff\xff\xff\xff\x0f";
    assert_eq!(Decoder::new(most).bytes(true), Err(DecodeError::NegativeLength { at: 5 }));
}

#[test]
fn a_count_is_what_the_bytes_can_hold() {
    let array = |bytes: &[u8], flexible| Decoder::new(bytes).nullable_array(flexible, 2, Decoder::i16);
    assert_eq!(array(b"\0\0\0\x01\0\x07", false), Ok(Some(vec![7])));
    assert_eq!(array(b"\x02\0\x07", true), Ok(Some(vec![7])));
    assert_eq!(array(b"\x01", true), Ok(Some(vec![])));
    assert_eq!(array(b"\x00", true), Ok(None));
    assert_eq!(array(b"\xff\xff\xff\xff", false), Ok(None));
    assert_eq!(array(b"\0\0\0\x02\0\x07\0", false), Err(DecodeError::Count { at: 4, count: 2 }));
    let bomb = Err(DecodeError::Count { at: 4, count: i32::MAX as usize });
    assert_eq!(array(b"\x7f\xff\xff\xff\0\x07", false), bomb);
    assert_eq!(
        Decoder::new(b"\0").array(true, 1, Decoder::i8),
        Err(DecodeError::Null { at: 1 }),
        "null where there is none"
    );
}

#[test]
fn an_array_has_at_most_a_million_elements() {
    let of = |count: u32| {
        let mut bytes = count.to_be_bytes().to_vec();
        bytes.resize(4 + count as usize, 0);
        Decoder::new(&bytes).array(false, 1, Decoder::i8).map(|elements| elements.len())
    };
    assert_eq!(of(1_000_000), Ok(1_000_000));
    assert_eq!(of(1_000_001), Err(DecodeError::Count { at: 4, count: 1_000_001 }));
}

#[test]
fn arrays_of_nothing_are_refused_before_they_take_much_memory() {
    // 24 bytes of memory for each byte of the frame.
    let mut bytes = 100_000u32.to_be_bytes().to_vec();
    bytes.resize(4 + 100_000, 1);
    let read = Decoder::new(&bytes).array(false, 1, |d| d.array(true, 1, Decoder::i8));
    assert!(matches!(read, Err(DecodeError::Memory { .. })), "{read:?}");
}

#[test]
fn known_tags_are_read_and_others_skipped() {
    let bytes = [3, 9, 2, 0xaa, 0xbb, 1, 2, 0x12, 0x34, 0x80, 0x01, 0, 7];
    let mut d = Decoder::new(&bytes);
    let mut seen = None;
    let read = d.tags(|tag, d| {
        if tag != 1 {
            return Ok(false);
        }
        assert_eq!(d.remaining(), [0x12, 0x34], "a field ends where its size says");
        assert_eq!(d.position(), 7);
        seen = Some(d.i16()?);
        Ok(true)
    });
    assert_eq!((read, seen, d.remaining()), (Ok(()), Some(0x1234), &[7][..]));
}

#[test]
fn a_tagged_field_cannot_reach_beyond_its_size() {
    let field = |tag: u32, d: &mut Decoder<'_>| {
        d.i16()?;
        Ok(tag == 0)
    };
    let tags = |bytes: &[u8]| Decoder::new(bytes).tags(field);
    assert_eq!(tags(&[1, 0, 2, 0, 0]), Ok(()));
    assert_eq!(tags(&[1, 0, 1, 0, 0]), Err(DecodeError::Short { at: 3 }));
    assert_eq!(tags(&[1, 0, 3, 0, 0, 0]), Err(DecodeError::TagSize { at: 5 }));
    assert_eq!(tags(&[1, 0, 3, 0, 0]), Err(DecodeError::Short { at: 3 }), "a size beyond the frame");
}

#[test]
fn tags_are_counted_before_they_are_read() {
    let of = |count: u32| {
        let mut bytes = vec![count as u8 | 0x80, (count >> 7) as u8 | 0x80, (count >> 14) as u8];
        bytes.resize(3 + 2 * count as usize, 0);
        Decoder::new(&bytes).no_tags()
    };
    assert_eq!(of(10_000), Ok(()));
    assert_eq!(of(10_001), Err(DecodeError::Tags { at: 3, count: 10_001 }));
    let short = Decoder::new(&[2, 0, 0]).no_tags();
    assert_eq!(short, Err(DecodeError::Tags { at: 1, count: 2 }));
}

#[test]
fn what_is_left_over_is_told() {
    let mut d = Decoder::new(&[0, 1, 2]);
    assert_eq!(d.i8(), Ok(0));
    assert_eq!(d.finish(), Err(DecodeError::Trailing { at: 1, len: 2 }));
    assert_eq!(d.take(2), Ok(&[1, 2][..]));
    assert_eq!(d.finish(), Ok(()));
}

#[test]
fn errors_are_small() {
    assert!(size_of::<DecodeError>() <= 24);
}
