//! What a decision asks its caller to do, in order.

/// A list of effects that a step of a core machine fills and its caller drains.
///
/// The caller performs every effect, in the order they were pushed, after the step has returned.
#[derive(Debug)]
pub struct Effects<E>(Vec<E>);

impl<E> Effects<E> {
    /// An empty list.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds an effect behind those already there.
    pub fn push(&mut self, effect: E) {
        self.0.push(effect);
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many effects wait.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Takes the effects out, oldest first, and keeps the room they took.
    pub fn drain(&mut self) -> impl Iterator<Item = E> + '_ {
        self.0.drain(..)
    }

    /// Looks at the effects without taking them.
    pub fn iter(&self) -> impl Iterator<Item = &E> {
        self.0.iter()
    }
}

impl<E> Default for Effects<E> {
    fn default() -> Self {
        Self::new()
    }
}
