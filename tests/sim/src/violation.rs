//! What a property finds when it does not hold.

/// Something that must not be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The property that does not hold.
    pub invariant: &'static str,
    /// What is wrong, with the numbers.
    pub what: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.invariant, self.what)
    }
}

/// What is to be run to see a seed once more. `world` names its world, unless it is the first one.
pub fn again(world: &str, seed: u64, plant: Option<&str>) -> String {
    let world = if world.is_empty() { String::new() } else { format!("{world} ") };
    let plant = plant.map(|plant| format!(" --plant {plant}")).unwrap_or_default();
    format!("again: cargo run -p vltava-sim -- {world}--seed {seed}{plant}")
}
