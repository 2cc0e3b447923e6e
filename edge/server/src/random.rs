//! Chance, for ids.

/// 128 bits from the system.
pub(crate) fn random() -> u128 {
    let mut bytes = [0u8; 16];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    assert_eq!(filled, Ok(bytes.len()), "the system has no randomness to give");
    u128::from_ne_bytes(bytes)
}
