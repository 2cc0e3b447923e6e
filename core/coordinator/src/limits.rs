//! How much the members of a group may say of themselves: which topics they read, and what they have of them.
//!
//! A client that reads by pattern names every topic that matches, and one that assigns cooperatively what it has, too:
//! a thousand topics with long names are tens of kilobytes. All of it is kept for as long as the member is there.

/// What one member may say, in all protocols that it can.
pub(crate) const MEMBER_BYTES_MAX: usize = 1 << 20;
/// What every member may say, whatever the others do.
pub(crate) const MEMBER_BYTES_FREE: usize = 64 << 10;
/// What the members of a group may say together before one more may say no more than [`MEMBER_BYTES_FREE`].
pub(crate) const GROUP_BYTES_MAX: usize = 64 << 20;

/// Whether a member may say so much beside what the `others` of its group do.
pub(crate) fn has_room(bytes: usize, others: impl FnOnce() -> usize) -> bool {
    bytes <= MEMBER_BYTES_FREE || (bytes <= MEMBER_BYTES_MAX && others() + bytes <= GROUP_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_with_much_to_say_share_what_there_is_for_their_group() {
        assert!(has_room(MEMBER_BYTES_FREE, || usize::MAX));
        assert!(has_room(MEMBER_BYTES_MAX, || GROUP_BYTES_MAX - MEMBER_BYTES_MAX));
        assert!(!has_room(MEMBER_BYTES_MAX, || GROUP_BYTES_MAX - MEMBER_BYTES_MAX + 1));
        assert!(!has_room(MEMBER_BYTES_MAX + 1, || 0));
    }
}
