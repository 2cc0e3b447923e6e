//! Numbers as charts have them: three digits and a unit that fits.

/// A count, or a rate: `1.58 M`.
pub fn count(value: f64) -> String {
    with_unit(value, &[(1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")])
}

/// Of nanoseconds: `1.5 ms`.
pub fn time(nanos: f64) -> String {
    with_unit(nanos, &[(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")])
}

/// Of bytes, in units of thousands: `3.2 GB`.
pub fn bytes(value: f64) -> String {
    with_unit(value, &[(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")])
}

/// As it is.
pub fn plain(value: f64) -> String {
    digits(value)
}

/// Of a whole: `99.9 %`.
pub fn share(value: f64) -> String {
    // What is near to one has its digits behind the nines.
    let text = format!("{:.4}", value * 100.0);
    format!("{} %", trimmed(&text))
}

/// Of something that may be exceeded: `93.4 %`.
pub fn percent(value: f64) -> String {
    format!("{} %", digits(value * 100.0))
}

/// A factor: `7.4 ×`.
pub fn times(value: f64) -> String {
    let text = match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 9.95 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    };
    format!("{text} ×")
}

fn with_unit(value: f64, units: &[(f64, &str)]) -> String {
    // What rounds to a thousand of a unit is one of the next.
    let fits = |unit: &&(f64, &str)| value.abs() >= unit.0 * 0.9995;
    let (size, unit) = units.iter().find(fits).or(units.last()).copied().unwrap_or((1.0, ""));
    if value == 0.0 && unit.len() < 2 {
        return "0".to_owned();
    }
    format!("{} {unit}", digits(value / size)).trim_end().to_owned()
}

/// Three of them, and none that says nothing.
fn digits(value: f64) -> String {
    let behind = match value.abs() {
        0.0..0.1 => 3,
        0.1..9.995 => 2,
        9.995..99.95 => 1,
        _ => 0,
    };
    let text = format!("{value:.behind$}");
    trimmed(&text).to_owned()
}

fn trimmed(text: &str) -> &str {
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_a_unit_that_fits() {
        let counts = [0.0, 7.0, 999.6, 1_000.0, 821_557.0, 1_583_000.0, 2e10];
        assert_eq!(counts.map(count), ["0", "7", "1 k", "1 k", "822 k", "1.58 M", "20 G"]);
        let times = [0.0, 950.0, 1_500.0, 12_340.0, 2_000_000.0, 6e10];
        assert_eq!(times.map(time), ["0 ns", "950 ns", "1.5 µs", "12.3 µs", "2 ms", "60 s"]);
        assert_eq!([100.0, 4_096.0, 3.2e9].map(bytes), ["100 B", "4.1 kB", "3.2 GB"]);
        assert_eq!([0.0, 0.5, 0.999, 0.999_99].map(share), ["0 %", "50 %", "99.9 %", "99.999 %"]);
        assert_eq!([0.0, 0.934_21, 3.0].map(percent), ["0 %", "93.4 %", "300 %"]);
        assert_eq!([0.514, 7.396, 12.04, 240.2].map(super::times), ["0.51 ×", "7.40 ×", "12.0 ×", "240 ×"]);
    }
}
