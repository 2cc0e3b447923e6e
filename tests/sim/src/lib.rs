//! Deterministic simulation: the code of `core`, under time, chance and disks that a seed owns.

pub mod clock;
pub mod disk;
pub mod random;
pub mod trace;
