//! Bars beside each other, each with the runs that it stands for.

use maud::{Markup, html};

use super::{Axis, Mark, class, figure, px, shortened};
use crate::statistics::Spread;

/// Bars under each other, in groups.
#[derive(Debug, Clone)]
pub struct Bars {
    /// What they show.
    pub title: String,
    /// What is to be known of it.
    pub about: String,
    /// To the right.
    pub axis: Axis,
    /// From the top.
    pub bars: Vec<Bar>,
    /// A value to compare with.
    pub mark: Option<Mark>,
}

/// The median of some runs, and each of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// What it is about; said once for those that follow each other.
    pub group: String,
    /// Whose.
    pub series: usize,
    /// Who that is.
    pub name: String,
    /// Of each run.
    pub values: Vec<f64>,
    /// In words, behind it.
    pub said: String,
}

const WIDTH: f64 = 570.0;
const LEFT: f64 = 118.0;
/// Where values are written.
const RIGHT: f64 = 150.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 40.0;
const BAR: f64 = 17.0;
/// From one bar to the next.
const STEP: f64 = 25.0;
/// A group has its name above it.
const GROUP: f64 = 22.0;
const NAME_LETTERS: usize = 17;
/// With more runs than this, they are no longer drawn one by one.
const RUNS_SHOWN: usize = 40;

impl Bars {
    /// With their headline.
    pub fn figure(&self) -> Markup {
        figure(&self.title, &self.about, false, &self.svg())
    }

    fn x(&self, value: f64) -> f64 {
        LEFT + self.axis.scale.place(value) * (WIDTH - LEFT - RIGHT)
    }

    /// The top of each bar, and where the last one ends.
    fn tops(&self) -> (Vec<f64>, f64) {
        let (mut y, mut group) = (TOP, "");
        let mut tops = Vec::with_capacity(self.bars.len());
        for bar in &self.bars {
            if bar.group != group {
                group = &bar.group;
                y += GROUP;
            }
            tops.push(y);
            y += STEP;
        }
        (tops, y)
    }

    fn svg(&self) -> Markup {
        let (tops, bottom) = self.tops();
        let mut groups: Vec<(f64, &str)> = Vec::new();
        for (bar, top) in self.bars.iter().zip(&tops) {
            if !bar.group.is_empty() && groups.last().is_none_or(|(_, last)| *last != bar.group) {
                groups.push((top - 6.0, &bar.group));
            }
        }
        html! {
            svg viewBox=(format!("0 0 {WIDTH} {}", bottom + BOTTOM)) role="img" aria-label=(self.title) {
                @for tick in self.axis.scale.ticks() {
                    @let x = self.x(tick);
                    line class="grid" x1=(px(x)) x2=(px(x)) y1=(px(TOP - 4.0)) y2=(px(bottom)) {}
                    text class="tick" x=(px(x)) y=(px(bottom + 15.0)) text-anchor="middle" { ((self.axis.show)(tick)) }
                }
                line class="axis" x1=(LEFT) x2=(LEFT) y1=(px(TOP - 4.0)) y2=(px(bottom)) {}
                text class="title" x=(px(WIDTH - RIGHT)) y=(px(bottom + 32.0)) text-anchor="end" { (self.axis.title) }
                @for (y, group) in groups { text class="group" x="4" y=(px(y)) { (shortened(group, 60)) } }
                @for (bar, top) in self.bars.iter().zip(&tops) { (self.bar(bar, *top)) }
                @if let Some(mark) = &self.mark {
                    @let x = self.x(mark.value);
                    line class="mark" x1=(px(x)) x2=(px(x)) y1=(px(TOP - 6.0)) y2=(px(bottom)) { title { (mark.label) } }
                    @let is_left = x < WIDTH / 2.0;
                    text class="marked" x=(px(x)) y=(px(TOP - 12.0)) text-anchor=(if is_left { "start" } else { "end" }) { (mark.label) }
                }
            }
        }
    }

    fn bar(&self, bar: &Bar, top: f64) -> Markup {
        let Some(spread) = Spread::of(&bar.values) else { return html! {} };
        let (from, middle, to) = (self.x(spread.min), top + BAR / 2.0, self.x(spread.max));
        let runs = if bar.values.len() <= RUNS_SHOWN { &bar.values[..] } else { &[] };
        html! {
            g class=(format!("bar {}", class(bar.series))) {
                title { (bar.name) ": " (bar.said) }
                rect x=(LEFT) y=(px(top)) width=(px((self.x(spread.median) - LEFT).max(1.0))) height=(BAR) rx="2" {}
            }
            text class="name" x=(px(LEFT - 8.0)) y=(px(middle + 4.5)) text-anchor="end" { (shortened(&bar.name, NAME_LETTERS)) }
            @if spread.runs > 1 {
                path class="whisker" d=(format!(
                    "M{from:.1} {0:.1}V{1:.1}M{from:.1} {middle:.1}H{to:.1}M{to:.1} {0:.1}V{1:.1}", middle - 4.0, middle + 4.0
                )) {}
                @for value in runs {
                    circle class="each" cx=(px(self.x(*value))) cy=(px(middle)) r="2.2" { title { ((self.axis.show)(*value)) } }
                }
            }
            text class="value" x=(px(to.max(self.x(spread.median)) + 8.0)) y=(px(middle + 4.5)) { (bar.said) }
        }
    }
}
