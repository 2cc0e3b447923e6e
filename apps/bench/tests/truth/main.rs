//! Whether the harness tells the truth: it is let measure a broker that knows better.
//!
//! ```text
//!   harness ── real clients, real time ──▶ simulated broker: answers as late as it was told to, loses what it
//!      │                                      │  was told to lose, and writes down what it did and when
//!      └── what it says ◀── compared with ────┘
//! ```
//!
//! The broker's clock is that of the clients. What it wrote down is a bound that no figure may be below,
//! however busy the machine is. Where there is one request at a time those behind it are a bound that none may be above;
//! else, where a figure is compared from above, the bound is far off on purpose.

mod broker; // the simulated one
mod log;
mod serving;

mod bench; // what the harness says of it
mod latency;
mod lies;
mod pace;
