//! From values to places: how far along its axis a value lies, and which round values are written beside it.

/// An axis without its looks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scale {
    /// Equal distances are equal differences.
    Linear {
        /// Where it begins.
        from: f64,
        /// Where it ends.
        to: f64,
        /// From one round value to the next.
        step: f64,
    },
    /// Equal distances are equal factors.
    Log {
        /// Where it begins; above zero.
        from: f64,
        /// Where it ends.
        to: f64,
    },
    /// Shares of all, as HdrHistogram draws them: 90 % is as far from 99 % as that is from 99.9 %.
    Quantiles {
        /// How many nines there is room for.
        nines: f64,
    },
}

/// Values that are written beside an axis, about.
const TICKS: f64 = 5.0;
/// Beyond these, a logarithmic axis has a value for each decade only.
const DECADES_IN_PARTS: f64 = 1.7;
/// Beyond these, not even for each.
const DECADES_MAX: f64 = 7.0;

/// Nothing that is measured is as little as this and not zero.
const LOG_MIN: f64 = 1e-12;

impl Scale {
    /// From zero to a round value that is not below any of these.
    pub fn from_zero(values: impl IntoIterator<Item = f64>) -> Self {
        let max = values.into_iter().filter(|value| value.is_finite()).fold(0.0, f64::max);
        let max = if max > 0.0 { max } else { 1.0 };
        let step = round_up(max / TICKS, &[1.0, 2.0, 2.5, 5.0, 10.0]);
        Self::Linear { from: 0.0, to: (max / step - 1e-9).ceil() * step, step }
    }

    /// From the least to the greatest, and no further.
    pub fn tight(values: impl IntoIterator<Item = f64>) -> Self {
        let (from, to) = bounds(values).unwrap_or((0.0, 1.0));
        let to = if to > from { to } else { from + 1.0 };
        Self::Linear { from, to, step: round_up((to - from) / TICKS, &[1.0, 2.0, 5.0, 10.0]) }
    }

    /// Around all that are above zero, from one of 1, 2 and 5 of a decade to another.
    pub fn log(values: impl IntoIterator<Item = f64>) -> Self {
        let (min, max) = bounds(values.into_iter().filter(|value| *value > LOG_MIN)).unwrap_or((1.0, 10.0));
        let from = round_down(min * (1.0 + 1e-9), &[1.0, 2.0, 5.0]);
        let to = round_up(max * (1.0 - 1e-9), &[1.0, 2.0, 5.0, 10.0]);
        Self::Log { from, to: if to > from { to } else { from * 10.0 } }
    }

    /// For so many values: what they do not reach has no place.
    pub fn quantiles(count: u64) -> Self {
        Self::Quantiles { nines: (count.max(10) as f64).log10().clamp(1.0, 6.0) }
    }

    /// How far along the axis, from 0 to 1; what lies outside is put to the end that it is beyond.
    pub fn place(&self, value: f64) -> f64 {
        let place = match *self {
            Self::Linear { from, to, .. } => (value - from) / (to - from),
            Self::Log { from, to } => (value.max(from) / from).ln() / (to / from).ln(),
            Self::Quantiles { nines } => -(1.0 - value.min(1.0 - 1e-9)).log10() / nines,
        };
        place.clamp(0.0, 1.0)
    }

    /// Round values, in order.
    pub fn ticks(&self) -> Vec<f64> {
        match *self {
            Self::Linear { from, to, step } => {
                let (first, last) = ((from / step - 1e-9).ceil() as i64, (to / step + 1e-9).floor() as i64);
                (first..=last).map(|at| at as f64 * step).collect()
            }
            Self::Log { from, to } => log_ticks(from, to),
            Self::Quantiles { nines } => {
                let shares = [0.0_f64, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999_999];
                shares.into_iter().filter(|share| -(1.0 - share).log10() <= nines + 1e-9).collect()
            }
        }
    }
}

fn bounds(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    let finite = values.into_iter().filter(|value| value.is_finite());
    finite.fold(None, |found, value| {
        let (min, max) = found.unwrap_or((value, value));
        Some((value.min(min), value.max(max)))
    })
}

fn log_ticks(from: f64, to: f64) -> Vec<f64> {
    let decades = (to / from).log10();
    let parts: &[f64] = if decades <= DECADES_IN_PARTS { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let every = if decades > DECADES_MAX { 2 } else { 1 };
    let (first, last) = (from.log10().floor() as i32, to.log10().ceil() as i32);
    let within = |value: &f64| *value >= from * (1.0 - 1e-9) && *value <= to * (1.0 + 1e-9);
    let of_decade = |decade: i32| parts.iter().map(move |part| part * 10_f64.powi(decade));
    (first..=last).step_by(every).flat_map(of_decade).filter(within).collect()
}

/// The least of these parts of a decade that is not below the value.
fn round_up(value: f64, parts: &[f64]) -> f64 {
    let decade = 10_f64.powi(value.log10().floor() as i32);
    let part = parts.iter().find(|part| **part * decade >= value * (1.0 - 1e-9));
    part.copied().unwrap_or(10.0) * decade
}

/// The greatest of these parts of a decade that is not above the value.
fn round_down(value: f64, parts: &[f64]) -> f64 {
    let decade = 10_f64.powi(value.log10().floor() as i32);
    let part = parts.iter().rev().find(|part| **part * decade <= value * (1.0 + 1e-9));
    part.copied().unwrap_or(1.0) * decade
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_round() {
        let ends = |scale: Scale| match scale {
            Scale::Linear { from, to, .. } | Scale::Log { from, to } => (from, to),
            Scale::Quantiles { nines } => (0.0, nines),
        };
        assert_eq!(ends(Scale::from_zero([214_000.0, 1_583_000.0])), (0.0, 2_000_000.0));
        assert_eq!(ends(Scale::from_zero([])), (0.0, 1.0));
        assert_eq!(ends(Scale::tight([3.0, 8.0])), (3.0, 8.0));
        assert_eq!(ends(Scale::log([130.0, 0.0, 4_100.0])), (100.0, 5_000.0));
        assert_eq!(ends(Scale::log([100.0])), (100.0, 1_000.0), "one value has room around it");
        assert_eq!(ends(Scale::quantiles(1_000_000_000)), (0.0, 6.0));
    }

    #[test]
    fn ticks_are_within_and_in_order() {
        assert_eq!(Scale::log([130.0, 900_000.0]).ticks(), [100.0, 1e3, 1e4, 1e5, 1e6]);
        assert_eq!(Scale::log([11.0, 190.0]).ticks(), [10.0, 20.0, 50.0, 100.0, 200.0]);
        assert_eq!(Scale::quantiles(2_000).ticks(), [0.0, 0.5, 0.9, 0.99, 0.999]);
        let mut chance = crate::chance::Chance::new(3, 0);
        for _ in 0..2_000 {
            let mut value = || 10_f64.powf(chance.unit() * 18.0 - 6.0);
            let values = [value(), value(), value()];
            for scale in [Scale::from_zero(values), Scale::tight(values), Scale::log(values)] {
                let ticks = scale.ticks();
                assert!((1..=12).contains(&ticks.len()), "{values:?} {scale:?} {ticks:?}");
                let mut places = ticks.iter().map(|tick| scale.place(*tick)).collect::<Vec<_>>();
                assert!(places.is_sorted() && places.iter().all(|place| (0.0..=1.0).contains(place)));
                places.dedup();
                assert_eq!(places.len(), ticks.len(), "{values:?} {scale:?}: each has its own place");
                let shown = values.map(|value| scale.place(value));
                assert!(shown.iter().all(|place| place.is_finite()), "{values:?} {scale:?}");
            }
        }
    }

    #[test]
    fn each_nine_is_as_far_as_the_one_before() {
        let scale = Scale::quantiles(100_000);
        let places: Vec<f64> = [0.9, 0.99, 0.999].into_iter().map(|share| scale.place(share)).collect();
        assert!((places[0] - 0.2).abs() < 1e-9 && (places[1] - 0.4).abs() < 1e-9, "{places:?}");
        assert!((places[2] - 0.6).abs() < 1e-9 && scale.place(1.0) == 1.0, "{places:?}");
    }
}
