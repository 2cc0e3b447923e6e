//! What a client counted, as Kafka's tools print it.

use std::io::Write;

use anyhow::Result;

/// Prints names and values, below each other.
pub(super) fn print(rows: &[(String, f64)], out: &mut dyn Write) -> Result<()> {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    writeln!(out, "\n{:<width$}   Value", "Metric Name")?;
    for (name, value) in rows {
        writeln!(out, "{name:<width$} : {value:.3}")?;
    }
    Ok(out.flush()?)
}
