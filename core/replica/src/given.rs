//! What readers are given again and again: they may be unable to use it.

use base::Offset;

/// What a reader was given last, and how often in a row.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Given {
    from: Offset,
    times: u8,
}

impl Given {
    /// How often the same is given until it is looked at. Once more is given to whoever lost a connection; and
    /// readers of their own often ask for the same.
    const TIMES: u8 = 3;

    /// A reader is given what is at an offset. Whether that is worth a look now.
    pub(crate) fn note(&mut self, from: Offset) -> bool {
        if self.from != from {
            *self = Self { from, times: 0 };
        }
        self.times += 1;
        let is_due = self.times >= Self::TIMES;
        if is_due {
            self.times = 0;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_three_times_in_a_row_is_looked_at() {
        let mut given = Given::default();
        let looked: Vec<bool> = [5, 5, 7, 5, 5, 5, 5, 5, 5].map(|from| given.note(Offset(from))).into();
        assert_eq!(looked, [false, false, false, false, false, true, false, false, true]);
    }
}
