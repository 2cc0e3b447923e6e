//! Charts, as SVG within a page.
//!
//! ```text
//!   values ─▶ scale: places and round values ─▶ lines, or bars ─▶ SVG
//! ```
//!
//! A chart says what is where. Colours, dashes and letters are those of the page, which has a style for each
//! class here: so that a chart is the same on paper, in the dark, and for those who see no red. What belongs to
//! a series has the class `s0`, `s1` … of its place; what a line is, is also said at its end.
//!
//! **Invariant:** whatever the values are, nothing that is drawn lies outside of its chart, and every text is
//! escaped, since only [`maud`] writes.

pub mod number;
pub mod scale;

mod bars;
mod lines;

use maud::{Markup, html};

pub use bars::{Bar, Bars};
pub use lines::{Band, Chart, Line, Size, Weight};
pub use scale::Scale;

/// Series that can be told apart.
pub const SERIES_MAX: usize = 6;

/// A direction, with what lies along it.
#[derive(Debug, Clone)]
pub struct Axis {
    /// What it is, with its unit.
    pub title: String,
    /// From values to places.
    pub scale: Scale,
    /// How a value is written.
    pub show: fn(f64) -> String,
}

/// A value to compare with, as a line across.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// Where.
    pub value: f64,
    /// What it is.
    pub label: String,
}

/// The class of a series.
pub(crate) fn class(series: usize) -> String {
    format!("s{}", series % SERIES_MAX)
}

/// A chart with its headline, and what is to be known of it.
fn figure(title: &str, about: &str, is_wide: bool, svg: &Markup) -> Markup {
    html! {
        figure class=(if is_wide { "chart wide" } else { "chart" }) {
            figcaption {
                strong { (title) }
                @if !about.is_empty() { span { (about) } }
            }
            (svg)
        }
    }
}

/// A place in an SVG, to a tenth of a pixel.
fn px(place: f64) -> String {
    format!("{place:.1}")
}

/// As much of a text as there is room for.
fn shortened(text: &str, letters: usize) -> String {
    match text.chars().count() > letters {
        true => text.chars().take(letters.saturating_sub(1)).chain(['…']).collect(),
        false => text.to_owned(),
    }
}
