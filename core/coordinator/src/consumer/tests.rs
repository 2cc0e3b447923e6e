//! Stories of groups of the new protocol, told through what members are answered and what is written.

mod formats;
mod migration;
mod offsets;
mod properties;
mod refusals;
mod stage;
mod stories;
mod topics;
