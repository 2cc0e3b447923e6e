//! A chart of lines between two axes.

use std::fmt::Write;

use maud::{Markup, html};

use super::{Axis, Mark, class, figure, px, shortened};

/// Lines between two axes.
#[derive(Debug, Clone)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// What is to be known of it.
    pub about: String,
    /// To the right.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// What is behind the lines.
    pub bands: Vec<Band>,
    /// Each with what it is.
    pub lines: Vec<Line>,
    /// Values to compare with.
    pub marks: Vec<Mark>,
    /// What happened, and when.
    pub events: Vec<(f64, String)>,
    /// What is otherwise than the rest: from the left until there.
    pub shade: Option<(f64, String)>,
    /// How large it is.
    pub size: Size,
}

/// Points that belong together.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Whose.
    pub series: usize,
    /// What it is; written at its end if it is a main one.
    pub label: String,
    /// From the left to the right.
    pub points: Vec<(f64, f64)>,
    /// How it is drawn.
    pub weight: Weight,
}

/// How a line is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// What it is about.
    Main,
    /// The same, and each of its points.
    Marked,
    /// One of several runs, behind what it is about.
    Run,
}

/// Between which values something lies.
#[derive(Debug, Clone, PartialEq)]
pub struct Band {
    /// Whose.
    pub series: usize,
    /// Where, from, and to.
    pub points: Vec<(f64, f64, f64)>,
}

/// How much room a chart has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Two beside each other.
    Half,
    /// As wide as the page.
    Wide,
}

const LEFT: f64 = 66.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 44.0;
/// Where what a line is, is written.
const LABELS: f64 = 132.0;
const LABEL_LETTERS: usize = 14;
/// From one line of text to the next.
const LINE: f64 = 15.0;
/// A line with more points is thinned out: there is not a pixel for each.
const POINTS_MAX: usize = 900;
/// So many points tell their value when they are pointed at.
const TOLD_MAX: usize = 240;

impl Chart {
    /// With its headline.
    pub fn figure(&self) -> Markup {
        figure(&self.title, &self.about, self.size == Size::Wide, &self.svg())
    }

    fn width(&self) -> f64 {
        if self.size == Size::Wide { 1160.0 } else { 570.0 }
    }

    fn height(&self) -> f64 {
        if self.size == Size::Wide { 340.0 } else { 310.0 }
    }

    fn at(&self, x: f64, y: f64) -> (f64, f64) {
        (
            LEFT + self.x.scale.place(x) * (self.width() - LEFT - LABELS),
            self.height() - BOTTOM - self.y.scale.place(y) * (self.height() - TOP - BOTTOM),
        )
    }

    fn svg(&self) -> Markup {
        let view = format!("0 0 {} {}", self.width(), self.height());
        html! {
            svg viewBox=(view) role="img" aria-label=(self.title) {
                (self.background())
                @for band in &self.bands { path class=(format!("band {}", class(band.series))) d=(self.area(band)) {} }
                @for mark in &self.marks { (self.mark(mark)) }
                @for (place, event) in self.events.iter().enumerate() { (self.event(place, event)) }
                @for line in &self.lines { (self.line(line)) }
                (self.labels())
            }
        }
    }

    /// The grid, with the values beside it.
    fn background(&self) -> Markup {
        let (right, bottom) = (self.width() - LABELS, self.height() - BOTTOM);
        html! {
            @if let Some((until, what)) = &self.shade {
                @let width = self.at(*until, 0.0).0 - LEFT;
                rect class="shade" x=(LEFT) y=(TOP) width=(px(width)) height=(px(bottom - TOP)) { title { (what) } }
                @if width > 8.0 * what.chars().count() as f64 {
                    text class="quiet" x=(px(LEFT + 5.0)) y=(px(bottom - 7.0)) { (what) }
                }
            }
            @for tick in self.y.scale.ticks() {
                @let y = self.at(0.0, tick).1;
                line class="grid" x1=(LEFT) x2=(px(right)) y1=(px(y)) y2=(px(y)) {}
                text class="tick" x=(px(LEFT - 7.0)) y=(px(y + 4.0)) text-anchor="end" { ((self.y.show)(tick)) }
            }
            @for tick in self.x.scale.ticks() {
                @let x = self.at(tick, 0.0).0;
                line class="tickmark" x1=(px(x)) x2=(px(x)) y1=(px(bottom)) y2=(px(bottom + 5.0)) {}
                text class="tick" x=(px(x)) y=(px(bottom + 18.0)) text-anchor="middle" { ((self.x.show)(tick)) }
            }
            line class="axis" x1=(LEFT) x2=(px(right)) y1=(px(bottom)) y2=(px(bottom)) {}
            text class="title" x="4" y="14" { (self.y.title) }
            text class="title" x=(px(right)) y=(px(self.height() - 6.0)) text-anchor="end" { (self.x.title) }
        }
    }

    fn mark(&self, mark: &Mark) -> Markup {
        let (right, y) = (self.width() - LABELS, self.at(0.0, mark.value).1);
        html! {
            line class="mark" x1=(LEFT) x2=(px(right)) y1=(px(y)) y2=(px(y)) { title { (mark.label) } }
            text class="marked" x=(px(LEFT + 6.0)) y=(px((y - 5.0).max(TOP + 10.0))) { (mark.label) }
        }
    }

    /// What follows soon is written a line lower.
    fn event(&self, place: usize, (at, what): &(f64, String)) -> Markup {
        const LINES: usize = 4;
        let (x, bottom) = (self.at(*at, 0.0).0, self.height() - BOTTOM);
        let y = TOP + 10.0 + LINE * (place % LINES) as f64;
        html! {
            line class="mark event" x1=(px(x)) x2=(px(x)) y1=(TOP) y2=(px(bottom)) { title { (what) } }
            text class="marked" x=(px(x + 4.0)) y=(px(y)) { (what) }
        }
    }

    fn line(&self, line: &Line) -> Markup {
        let weight = if line.weight == Weight::Run { "run" } else { "line" };
        let is_marked = line.weight == Weight::Marked || line.points.len() == 1;
        let is_told = line.weight != Weight::Run && line.points.len() <= TOLD_MAX;
        html! {
            path class=(format!("{weight} {}", class(line.series))) d=(self.path(&thinned(&line.points))) {
                title { (line.label) }
            }
            @if is_marked || is_told {
                @for point in &line.points {
                    @let (x, y) = self.at(point.0, point.1);
                    g class=(format!("{} {}", if is_marked { "dot" } else { "told" }, class(line.series))) {
                        @if is_marked { (symbol(line.series, x, y)) } @else { circle cx=(px(x)) cy=(px(y)) r="6" {} }
                        title { (line.label) ": " ((self.y.show)(point.1)) " (" (self.x.title) ": " ((self.x.show)(point.0)) ")" }
                    }
                }
            }
        }
    }

    fn path(&self, points: &[(f64, f64)]) -> String {
        let mut path = String::new();
        for (at, point) in points.iter().enumerate() {
            let (x, y) = self.at(point.0, point.1);
            // Text in memory takes what is written.
            let _ = write!(path, "{}{x:.1} {y:.1}", if at == 0 { 'M' } else { 'L' });
        }
        path
    }

    fn area(&self, band: &Band) -> String {
        let above = band.points.iter().map(|(x, _, high)| (*x, *high));
        let below = band.points.iter().rev().map(|(x, low, _)| (*x, *low));
        let around: Vec<(f64, f64)> = above.chain(below).collect();
        self.path(&around) + "Z"
    }

    /// What each main line is, at its end and under each other.
    fn labels(&self) -> Markup {
        let mut ends: Vec<(f64, &Line)> = Vec::new();
        for line in self.lines.iter().filter(|line| line.weight != Weight::Run) {
            let Some(last) = line.points.last() else { continue };
            ends.push((self.at(last.0, last.1).1 + 4.0, line));
        }
        ends.sort_by(|one, other| one.0.total_cmp(&other.0));
        let places = apart(&ends.iter().map(|end| end.0).collect::<Vec<_>>(), self.height() - BOTTOM);
        let x = self.width() - LABELS + 7.0;
        html! {
            @for ((_, line), y) in ends.iter().zip(places) {
                text class=(format!("label {}", class(line.series))) x=(px(x)) y=(px(y)) {
                    (shortened(&line.label, LABEL_LETTERS))
                    title { (line.label) }
                }
            }
        }
    }
}

/// The same places, moved so that none is on another and none below the last that there may be.
fn apart(places: &[f64], last: f64) -> Vec<f64> {
    let mut apart: Vec<f64> = Vec::with_capacity(places.len());
    for place in places {
        let least = apart.last().map_or(TOP, |above| above + LINE);
        apart.push(place.max(least));
    }
    let mut most = last;
    for place in apart.iter_mut().rev() {
        *place = place.min(most);
        most = *place - LINE;
    }
    apart
}

/// Of each stretch of a line the least and the greatest, where it has more points than can be seen.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= POINTS_MAX {
        return points.to_vec();
    }
    let stretch = points.len().div_ceil(POINTS_MAX / 2);
    let of_stretch = |points: &[(f64, f64)]| {
        let least = points.iter().min_by(|one, other| one.1.total_cmp(&other.1)).copied();
        let greatest = points.iter().max_by(|one, other| one.1.total_cmp(&other.1)).copied();
        let mut both: Vec<(f64, f64)> = least.into_iter().chain(greatest).collect();
        both.sort_by(|one, other| one.0.total_cmp(&other.0));
        both
    };
    points.chunks(stretch).flat_map(of_stretch).collect()
}

/// Of another shape for each series.
fn symbol(series: usize, x: f64, y: f64) -> Markup {
    let polygon = |points: &[(f64, f64)]| {
        let points: Vec<String> =
            points.iter().map(|(dx, dy)| format!("{:.1},{:.1}", x + dx, y + dy)).collect();
        html! { polygon points=(points.join(" ")) {} }
    };
    match series % 4 {
        0 => html! { circle cx=(px(x)) cy=(px(y)) r="4.5" {} },
        1 => polygon(&[(-4.2, -4.2), (4.2, -4.2), (4.2, 4.2), (-4.2, 4.2)]),
        2 => polygon(&[(0.0, -5.5), (5.0, 4.0), (-5.0, 4.0)]),
        _ => polygon(&[(0.0, -6.0), (6.0, 0.0), (0.0, 6.0), (-6.0, 0.0)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_do_not_lie_on_each_other() {
        assert_eq!(apart(&[50.0, 52.0, 100.0], 300.0), [50.0, 65.0, 100.0]);
        assert_eq!(apart(&[290.0, 295.0, 300.0], 300.0), [270.0, 285.0, 300.0]);
    }

    #[test]
    fn a_long_line_keeps_what_stands_out() {
        let points: Vec<(f64, f64)> =
            (0..50_000).map(|at| (f64::from(at), if at == 31_007 { 9.0 } else { 1.0 })).collect();
        let thinned = thinned(&points);
        assert!(thinned.len() <= POINTS_MAX + 2 && thinned.contains(&(31_007.0, 9.0)), "{}", thinned.len());
        assert!(thinned.is_sorted_by(|one, other| one.0 <= other.0));
    }
}
