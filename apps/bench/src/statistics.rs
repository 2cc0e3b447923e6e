//! What a few runs say of a system, and whether two systems differ or only their runs.
//!
//! Runs are few, and their figures are not normal: medians instead of means, ranks instead of variances,
//! resampling instead of formulas. Nothing here knows what a figure means.

use serde::{Deserialize, Serialize};

use crate::chance::Chance;

/// The middle, and how far the others are from it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// How many there are.
    pub runs: usize,
    /// Half of them are not above it.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// `None` of nothing.
    pub fn of(values: &[f64]) -> Option<Self> {
        let sorted = sorted(values);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        Some(Self { runs: sorted.len(), median: median_of_sorted(&sorted), min, max })
    }

    /// From the least to the greatest, as a share of the median.
    pub fn relative(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { (self.max - self.min) / self.median.abs() }
    }
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The middle of some values; 0 of none.
pub fn median(values: &[f64]) -> f64 {
    median_of_sorted(&sorted(values))
}

fn median_of_sorted(sorted: &[f64]) -> f64 {
    match sorted.len() {
        0 => 0.0,
        len if len % 2 == 1 => sorted[len / 2],
        len => f64::midpoint(sorted[len / 2 - 1], sorted[len / 2]),
    }
}

/// The probability that two samples of one population differ as much as these do, either way, by the ranks of
/// their values (Mann and Whitney, 1947). 1 if one of them is empty.
///
/// Exact for up to 20 values each, also with ties; beyond, the normal approximation with its correction for those.
pub fn mann_whitney(a: &[f64], b: &[f64]) -> f64 {
    if a.is_empty() || b.is_empty() {
        return 1.0;
    }
    if a.len().max(b.len()) <= EXACT_MAX { exact(a, b) } else { approximate(a, b, pairs_below(a, b)) }
}

/// The table of all choices stays small.
const EXACT_MAX: usize = 20;

/// Mann and Whitney's U: pairs of which the value of `a` is the smaller, halves for equal ones.
fn pairs_below(a: &[f64], b: &[f64]) -> f64 {
    let pairs = a.iter().flat_map(|x| b.iter().map(move |y| x.total_cmp(y)));
    pairs
        .map(|order| match order {
            std::cmp::Ordering::Less => 1.0,
            std::cmp::Ordering::Equal => 0.5,
            std::cmp::Ordering::Greater => 0.0,
        })
        .sum()
}

/// Of all choices of as many of the ranks as `a` has, the share whose sum is as far from the middle as that of `a`.
fn exact(a: &[f64], b: &[f64]) -> f64 {
    let ranks = doubled_ranks(a, b);
    let (chosen, sum_max) = (a.len(), ranks.iter().map(|(rank, _)| rank).sum::<usize>());
    // How many choices of so many ranks have each sum.
    let mut ways = vec![vec![0.0; sum_max + 1]; chosen + 1];
    ways[0][0] = 1.0;
    for (rank, _) in &ranks {
        for count in (1..=chosen).rev() {
            for sum in *rank..=sum_max {
                ways[count][sum] += ways[count - 1][sum - rank];
            }
        }
    }
    let middle = chosen * (ranks.len() + 1);
    let found: usize = ranks.iter().filter(|(_, is_of_a)| *is_of_a).map(|(rank, _)| rank).sum();
    let is_as_far = |sum: usize| sum.abs_diff(middle) >= found.abs_diff(middle);
    let as_far = ways[chosen].iter().enumerate().filter(|(sum, _)| is_as_far(*sum));
    as_far.map(|(_, ways)| ways).sum::<f64>() / ways[chosen].iter().sum::<f64>()
}

/// Twice the rank of each value among all, and whether it is of `a`; equal values have the mean of their ranks.
fn doubled_ranks(a: &[f64], b: &[f64]) -> Vec<(usize, bool)> {
    let of_a = a.iter().map(|value| (*value, true));
    let mut all: Vec<(f64, bool)> = of_a.chain(b.iter().map(|value| (*value, false))).collect();
    all.sort_by(|x, y| x.0.total_cmp(&y.0));
    let mut ranks = Vec::with_capacity(all.len());
    for tied in all.chunk_by(|x, y| x.0 == y.0) {
        let doubled = 2 * ranks.len() + tied.len() + 1;
        ranks.extend(tied.iter().map(|(_, is_of_a)| (doubled, *is_of_a)));
    }
    ranks
}

fn approximate(a: &[f64], b: &[f64], u: f64) -> f64 {
    let (n, m) = (a.len() as f64, b.len() as f64);
    let all = sorted(&[a, b].concat());
    let count = n + m;
    let of_ties: f64 =
        all.chunk_by(|x, y| x == y).map(|tied| tied.len() as f64).map(|tied| tied.powi(3) - tied).sum();
    let variance = n * m / 12.0 * (count + 1.0 - of_ties / (count * (count - 1.0)));
    if variance <= 0.0 {
        return 1.0;
    }
    // Half a pair nearer to the middle, since U goes in steps.
    let distance = ((u - n * m / 2.0).abs() - 0.5).max(0.0);
    2.0 * above(distance / variance.sqrt())
}

/// The share of the normal distribution that lies above (Abramowitz and Stegun 26.2.17, to 7.5e-8).
fn above(z: f64) -> f64 {
    const COEFFICIENTS: [f64; 5] =
        [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let t = 1.0 / (1.0 + 0.231_641_9 * z);
    let series = COEFFICIENTS.iter().rev().fold(0.0, |sum, coefficient| (sum + coefficient) * t);
    (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * series
}

/// Between which factors `b` is to `a`, median to median, in 95 of a hundred draws: the runs are drawn again
/// and again from those there are (Efron's bootstrap). `None` if one is empty or the median of `a` is 0.
///
/// That is too narrow for few runs: no draw leaves the least and the greatest of them, and between those of four the
/// true median lies in seven of eight cases only. No judgement is made by it.
pub fn ratio_interval(a: &[f64], b: &[f64], seed: u64) -> Option<(f64, f64)> {
    const DRAWS: usize = 4_000;
    if a.is_empty() || b.is_empty() || median(a) == 0.0 {
        return None;
    }
    let mut chance = Chance::new(seed, 0);
    let mut redrawn = |values: &[f64]| {
        let drawn: Vec<f64> =
            values.iter().map(|_| values[chance.below(values.len() as u64) as usize]).collect();
        median(&drawn)
    };
    let ratios: Vec<f64> =
        (0..DRAWS).map(|_| redrawn(b) / redrawn(a)).filter(|ratio| ratio.is_finite()).collect();
    let ratios = sorted(&ratios);
    let at = |share: f64| ratios.get((ratios.len() as f64 * share) as usize).copied();
    Some((at(0.025)?, at(0.975)?))
}

/// Whether more of a figure is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// A rate.
    Higher,
    /// A time, or a cost.
    Lower,
}

/// What two samples come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Judgement {
    /// The second is better, by more than runs of one system differ.
    Better,
    /// The second is worse, by more than that.
    Worse,
    /// They differ by less than the runs of each, or by less than matters.
    Same,
    /// Nobody can tell from so few runs.
    TooFewRuns,
}

/// Two samples, compared.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The median of the second, as a multiple of that of the first.
    pub ratio: f64,
    /// The bootstrap interval of that ratio, which is too narrow for few runs.
    pub interval: Option<(f64, f64)>,
    /// How probable such a difference is between runs of one system.
    pub p: f64,
    /// What it comes to.
    pub judgement: Judgement,
}

/// Less than this share is no difference, however sure it is.
pub const MATTERS: f64 = 0.03;

/// With fewer runs of each, even runs that all lie apart are no proof: with four, chance does it once in 35 times.
pub const RUNS_MIN: usize = 4;
const P_MAX: f64 = 0.05;

/// Of differences in one direction, each with the probability that chance makes it: up to which probability they count.
/// In one case of twenty at most chance alone makes any that counts, however many are looked at (Holm, 1979). `None` if
/// none counts.
pub fn p_max_of_several(of_each: &[f64]) -> Option<f64> {
    let sorted = sorted(of_each);
    let counts = |place: usize, p: f64| p <= P_MAX / (sorted.len() - place) as f64;
    sorted.iter().copied().enumerate().take_while(|(place, p)| counts(*place, *p)).last().map(|(_, p)| p)
}

/// How many runs of each it takes at least for one difference among so many to count.
pub fn runs_for_one_of(figures: usize) -> usize {
    // Of all orders of the runs of both, the one in which all of one come first.
    let p = |runs: usize| (1..=runs).fold(1.0, |p, i| p * i as f64 / (runs + i) as f64);
    (RUNS_MIN..EXACT_MAX).find(|runs| p(*runs) * figures as f64 <= P_MAX).unwrap_or(EXACT_MAX)
}

/// Compares two samples. Less than the share `matters` is no difference, however sure it is.
pub fn compare(a: &[f64], b: &[f64], better: Better, matters: f64) -> Option<Comparison> {
    let (of_a, of_b) = (Spread::of(a)?, Spread::of(b)?);
    if of_a.median == 0.0 {
        return None;
    }
    let (ratio, p) = (of_b.median / of_a.median, mann_whitney(a, b));
    // What is drawn again and again from less than this says more of the drawing than of the system.
    let interval = if a.len().min(b.len()) < RUNS_MIN { None } else { ratio_interval(a, b, 1) };
    let judgement = if a.len().min(b.len()) < RUNS_MIN {
        Judgement::TooFewRuns
    } else if p > P_MAX || (ratio - 1.0).abs() <= matters {
        Judgement::Same
    } else if (ratio > 1.0) == (better == Better::Higher) {
        Judgement::Better
    } else {
        Judgement::Worse
    };
    Some(Comparison { ratio, interval, p, judgement })
}

/// Compares with a sample that was nothing in the median, if the second is something: no factor says how much more
/// that is.
pub fn from_nothing(a: &[f64], b: &[f64], better: Better) -> Option<Comparison> {
    if Spread::of(a)?.median != 0.0 || Spread::of(b)?.median == 0.0 {
        return None;
    }
    let p = mann_whitney(a, b);
    let judgement = match (a.len().min(b.len()) < RUNS_MIN, p > P_MAX, better) {
        (true, ..) => Judgement::TooFewRuns,
        (_, true, _) => Judgement::Same,
        (.., Better::Higher) => Judgement::Better,
        (.., Better::Lower) => Judgement::Worse,
    };
    Some(Comparison { ratio: f64::INFINITY, interval: None, p, judgement })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_the_middle() {
        let spread = Spread::of(&[3.0, 1.0, 10.0]).expect("there are three");
        assert_eq!(spread, Spread { runs: 3, median: 3.0, min: 1.0, max: 10.0 });
        assert_eq!(spread.relative(), 3.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(Spread::of(&[]), None);
    }

    /// Counted out: so many of all orders are as far from the middle.
    #[test]
    fn ranks_have_their_known_probabilities() {
        let cases: [(&[f64], &[f64], f64); 11] = [
            (&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0], 0.1),
            (&[1.0, 2.0, 3.0, 4.0], &[5.0, 6.0, 7.0, 8.0], 2.0 / 70.0),
            (&[1.0, 2.0, 3.0, 4.0, 5.0], &[6.0, 7.0, 8.0, 9.0, 10.0], 2.0 / 252.0),
            (&[1.0, 2.0, 4.0, 5.0, 6.0], &[3.0, 7.0, 8.0, 9.0, 10.0], 14.0 / 252.0),
            (&[1.0, 4.0, 5.0, 8.0], &[2.0, 3.0, 6.0, 7.0], 1.0),
            (&[1.0], &[2.0], 1.0),
            (&[], &[2.0], 1.0),
            (&[5.0; 4], &[7.0; 4], 2.0 / 70.0),
            (&[0.0; 4], &[7.0, 8.0, 9.0, 10.0], 2.0 / 70.0),
            // Six of the twenty choices of three of the ranks 1, 2.5, 2.5, 4, 5 and 6 are as far from the middle.
            (&[1.0, 2.0, 4.0], &[2.0, 5.0, 6.0], 0.3),
            (&[5.0; 6], &[5.0; 6], 1.0),
        ];
        for (a, b, expected) in cases {
            let (found, mirrored) = (mann_whitney(a, b), mann_whitney(b, a));
            assert!((found - expected).abs() < 1e-9, "{a:?} {b:?}: {found}, not {expected}");
            assert!((mirrored - found).abs() < 1e-9, "the order of the samples is nothing");
        }
    }

    #[test]
    fn many_values_go_by_the_normal_distribution() {
        for (z, expected) in [(0.0, 0.5), (1.0, 0.158_655_25), (1.959_964, 0.025), (3.0, 0.001_349_9)] {
            assert!((above(z) - expected).abs() < 1e-6, "{z}: {}", above(z));
        }
        assert_eq!(mann_whitney(&[5.0; 26], &[5.0; 26]), 1.0);
        let low: Vec<f64> = (0..30).map(f64::from).collect();
        let high: Vec<f64> = (100..130).map(f64::from).collect();
        assert!(mann_whitney(&low, &high) < 1e-9);
    }

    #[test]
    fn one_difference_of_many_has_to_be_less_probable_than_one_alone() {
        assert_eq!(p_max_of_several(&[]), None);
        assert_eq!(p_max_of_several(&[0.026, 0.2]), None);
        assert_eq!(p_max_of_several(&[0.2, 0.024]), Some(0.024));
        assert_eq!(p_max_of_several(&[0.9, 0.016, 0.024]), Some(0.024), "for the second two are left");
        assert_eq!(p_max_of_several(&[0.01, 0.03, 0.001]), Some(0.03));
        assert_eq!([1, 3, 4, 12, 20, 100].map(runs_for_one_of), [4, 4, 5, 5, 6, 7]);
        // All of one before all of the other, in one of the two directions.
        let p = mann_whitney(&[1.0, 2.0, 3.0, 4.0, 5.0], &[6.0, 7.0, 8.0, 9.0, 10.0]) / 2.0;
        assert!(p * 12.0 <= P_MAX && p * 13.0 > P_MAX, "{p}");
    }

    /// Samples of a known population: a difference is claimed about as often as it may be.
    #[test]
    fn chance_alone_is_seldom_called_a_difference() {
        let mut chance = Chance::new(17, 0);
        let mut normal = || (0..12).map(|_| chance.unit()).sum::<f64>() - 6.0;
        let mut sample = |mean: f64| (0..6).map(|_| mean + normal()).collect::<Vec<f64>>();
        let mut claimed = [0, 0];
        for _ in 0..500 {
            let of = sample(100.0);
            for (at, mean) in [100.0, 105.0].into_iter().enumerate() {
                let other = sample(mean);
                let found = compare(&of, &other, Better::Higher, 0.0).expect("there are runs");
                claimed[at] += usize::from(found.judgement != Judgement::Same);
            }
        }
        assert!(claimed[0] <= 35, "{} of 500 where there was none", claimed[0]);
        assert!(claimed[1] >= 475, "{} of 500 where there was one of five deviations", claimed[1]);
    }

    #[test]
    fn a_ratio_lies_in_its_interval_but_less_often_than_the_draws_do() {
        let mut chance = Chance::new(23, 0);
        let mut sample = |from: f64| (0..9).map(|_| from + chance.unit()).collect::<Vec<f64>>();
        let mut held = 0;
        for _ in 0..200 {
            let (a, b) = (sample(9.5), sample(19.5));
            let (low, high) = ratio_interval(&a, &b, 1).expect("there are runs");
            held += usize::from((low..=high).contains(&2.0));
        }
        assert!((176..190).contains(&held), "{held} of 200");
        assert_eq!(ratio_interval(&[], &[1.0], 1), None);
    }

    #[test]
    fn what_was_nothing_becomes_worse_without_a_factor() {
        let (none, some) = ([0.0; 5], [7.0, 8.0, 9.0, 10.0, 11.0]);
        assert_eq!(compare(&none, &some, Better::Lower, 0.03), None);
        let found = from_nothing(&none, &some, Better::Lower).expect("it is something now");
        assert_eq!((found.judgement, found.ratio), (Judgement::Worse, f64::INFINITY));
        let few = from_nothing(&none[..3], &some[..3], Better::Lower).map(|found| found.judgement);
        assert_eq!(few, Some(Judgement::TooFewRuns));
        assert_eq!(from_nothing(&none, &none, Better::Lower), None);
        assert_eq!(from_nothing(&some, &none, Better::Lower), None);
    }

    #[test]
    fn a_judgement_knows_direction_size_and_number() {
        let (slow, fast) = ([10.0, 10.1, 10.2, 10.3], [12.0, 12.1, 12.2, 12.3]);
        let judged = |a: &[f64], b: &[f64], better, matters| {
            compare(a, b, better, matters).map(|found| found.judgement)
        };
        assert_eq!(judged(&slow, &fast, Better::Higher, 0.03), Some(Judgement::Better));
        assert_eq!(judged(&slow, &fast, Better::Lower, 0.03), Some(Judgement::Worse));
        assert_eq!(judged(&slow, &fast, Better::Higher, 0.3), Some(Judgement::Same));
        assert_eq!(judged(&slow[..3], &fast[..3], Better::Higher, 0.03), Some(Judgement::TooFewRuns));
        assert_eq!(judged(&[0.0; 4], &fast, Better::Higher, 0.03), None);
    }
}
