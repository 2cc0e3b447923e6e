//! Whose turn it is: systems take turns, so that nobody always finds the machine as the other left it.
//!
//! ```text
//!   fresh brokers   point 1   run 1: vltava, kafka   run 2: kafka, vltava   …
//!   for each run    point 2   …
//!
//!   brokers that    run 1     vltava: point 1, 2, …   kafka: point 1, 2, …
//!   take long to    run 2     kafka: point 1, 2, …    vltava: …
//!   warm up are kept from one point to the next
//! ```

/// One run of a system at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turn {
    /// Of which point.
    pub(super) point: usize,
    /// The how-manieth of its system there.
    pub(super) run: usize,
    /// Of which system.
    pub(super) system: usize,
}

/// All of them, in order; `keeps` is whether brokers are kept from one point to the next.
pub(super) fn turns(points: usize, runs: usize, systems: usize, keeps: bool) -> Vec<Turn> {
    let of_run = |run: usize| in_turn(run, systems).into_iter().map(move |system| (run, system));
    if keeps {
        let at = |(run, system)| (0..points).map(move |point| Turn { point, run, system });
        return (0..runs).flat_map(of_run).flat_map(at).collect();
    }
    let at = |point| (0..runs).flat_map(of_run).map(move |(run, system)| Turn { point, run, system });
    (0..points).flat_map(at).collect()
}

/// Whose turn it is in a run, one after the other.
fn in_turn(run: usize, systems: usize) -> Vec<usize> {
    let forward = 0..systems;
    if run.is_multiple_of(2) { forward.collect() } else { forward.rev().collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_turn_around() {
        assert_eq!([in_turn(0, 3), in_turn(1, 3), in_turn(2, 3)], [[0, 1, 2], [2, 1, 0], [0, 1, 2]]);
        let of = |keeps| {
            turns(2, 2, 2, keeps).into_iter().map(|it| (it.point, it.run, it.system)).collect::<Vec<_>>()
        };
        let all = [(0, 0, 0), (0, 0, 1), (0, 1, 1), (0, 1, 0), (1, 0, 0), (1, 0, 1), (1, 1, 1), (1, 1, 0)];
        assert_eq!(of(false), all);
        let kept = [(0, 0, 0), (1, 0, 0), (0, 0, 1), (1, 0, 1), (0, 1, 1), (1, 1, 1), (0, 1, 0), (1, 1, 0)];
        assert_eq!(of(true), kept);
    }
}
