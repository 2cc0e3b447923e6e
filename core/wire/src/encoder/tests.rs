use super::*;
use crate::decoder::Decoder;

fn written(write: impl FnOnce(&mut Encoder)) -> Vec<u8> {
    let mut e = Encoder::new();
    write(&mut e);
    e.into_bytes()
}

#[test]
fn varints_take_as_few_bytes_as_they_can() {
    let cases: &[(u32, &[u8])] =
        &[(0, &[0]), (127, &[0x7f]), (128, &[0x80, 1]), (u32::MAX, &[0xff, 0xff, 0xff, 0xff, 0x0f])];
    for (value, bytes) in cases {
        assert_eq!(written(|e| e.uvarint(*value)), *bytes);
    }
}

#[test]
fn a_string_has_two_forms() {
    assert_eq!(written(|e| e.str("hi", false).expect("short")), b"\x00\x02hi");
    assert_eq!(written(|e| e.str("hi", true).expect("short")), b"\x03hi");
    assert_eq!(written(|e| e.nullable_str(None, false).expect("short")), b"\xff\xff");
    assert_eq!(written(|e| e.nullable_str(None, true).expect("short")), b"\x00");
    let long = "x".repeat(STRING_BYTES_MAX + 1);
    for flexible in [false, true] {
        let refused = Encoder::new().str(&long, flexible);
        assert_eq!(refused, Err(EncodeError::Length { len: 0x8000, max: 0x7fff }));
    }
}

#[test]
fn a_tagged_field_has_its_size_in_front_however_long_it_is() {
    for (len, size) in [(0, &[0][..]), (127, &[0x7f]), (128, &[0x80, 1]), (20_000, &[0xa0, 0x9c, 1])] {
        let bytes = written(|e| {
            let tags = e.tags();
            let tag = e.tag(&tags, 5);
            e.put(&vec![7; len]);
            e.end_tag(tag).expect("short");
        });
        assert_eq!(bytes, [&[1, 5], size, &vec![7; len]].concat());
    }
}

#[test]
fn records_at_hand_are_written_and_others_leave_a_hole() {
    let mut e = Encoder::framed();
    e.records(Records::Bytes(b"ab"), true).expect("short");
    e.records(Records::External { len: 300 }, true).expect("short");
    e.records(Records::External { len: 0 }, false).expect("short");
    e.records(Records::External { len: 2 }, false).expect("short");
    e.nullable_records(None, false).expect("short");
    let frame = e.into_frame().expect("short");
    let body = b"\x03ab\xad\x02\0\0\0\0\0\0\0\x02\xff\xff\xff\xff";
    assert_eq!(frame.bytes, [&(body.len() as u32 + 302).to_be_bytes()[..], body].concat());
    assert_eq!(frame.holes, [Hole { at: 9, len: 300 }, Hole { at: 17, len: 2 }]);
    assert_eq!(frame.wire_len(), frame.bytes.len() + 302);
}

#[test]
fn a_frame_over_two_gigabytes_is_refused() {
    let mut e = Encoder::framed();
    e.records(Records::External { len: i32::MAX as u32 - 1 }, true).expect("a length that can be said");
    let refused = e.records(Records::External { len: i32::MAX as u32 }, true);
    assert!(matches!(refused, Err(EncodeError::Length { .. })));
    assert!(matches!(e.into_frame(), Err(EncodeError::Length { .. })));
}

#[test]
fn a_frame_remembers_its_errors() {
    let mut e = Encoder::framed();
    for code in [0, 3, -1, 3] {
        e.error_code(code);
    }
    let frame = e.into_frame().unwrap();
    assert_eq!(frame.errors, [(3, 2), (-1, 1)]);
    assert_eq!(frame.bytes[4..], [0, 0, 0, 3, 0xff, 0xff, 0, 3]);
}

#[test]
fn an_error_message_is_cut_and_not_refused() {
    let long = "é".repeat(20_000);
    for flexible in [false, true] {
        let mut e = Encoder::new();
        e.error_message(Some(&long), flexible).unwrap();
        let bytes = e.into_bytes();
        let mut d = Decoder::new(&bytes);
        assert_eq!(d.str(flexible).unwrap(), &long[..STRING_BYTES_MAX - 1]);
        d.finish().unwrap();
    }
    let mut e = Encoder::new();
    e.error_message(None, true).unwrap();
    assert_eq!(e.into_bytes(), [0]);
}
