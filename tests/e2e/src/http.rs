//! The least that asks an HTTP server for a page.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

const TIME_MAX: Duration = Duration::from_secs(5);

/// A page.
#[derive(Debug, Clone)]
pub struct Page {
    /// 200 if all is well.
    pub status: u16,
    /// What it says.
    pub body: String,
}

/// Asks for a page.
pub fn get(address: SocketAddr, path: &str) -> Result<Page> {
    let mut stream = TcpStream::connect_timeout(&address, TIME_MAX)?;
    stream.set_read_timeout(Some(TIME_MAX))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("the answer has no end of head")?;
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).context("no status")?;
    ensure!(!head.to_ascii_lowercase().contains("transfer-encoding"), "the answer is in chunks:\n{head}");
    Ok(Page { status, body: body.to_owned() })
}

/// Reads Prometheus' text format strictly: every series with its labels, and its value.
pub fn metrics(text: &str) -> Result<BTreeMap<String, f64>> {
    let mut series = BTreeMap::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        if let Some(comment) = line.strip_prefix('#') {
            let mut words = comment.split_whitespace();
            let known = matches!(words.next(), Some("HELP" | "TYPE" | "UNIT" | "EOF"));
            ensure!(known, "no comment of the format: {line}");
            continue;
        }
        // A label may hold a blank, a value may not; there are no timestamps in what we write.
        let (name, value) = line.rsplit_once(' ').with_context(|| format!("no value: {line}"))?;
        let letters = name.split('{').next().unwrap_or_default();
        let sound = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == ':';
        ensure!(!letters.is_empty() && letters.chars().all(sound), "no name of a metric: {line}");
        ensure!(!name.contains('{') || name.ends_with('}'), "labels without an end: {line}");
        let value = value.parse().with_context(|| format!("no number: {line}"))?;
        ensure!(series.insert(name.to_owned(), value).is_none(), "twice: {name}");
    }
    Ok(series)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_read_and_nonsense_is_refused() {
        let text = "# HELP a b\n# TYPE a counter\na_total{x=\"1 2\"} 3\nb 0.5\n# EOF\n";
        let series = metrics(text).unwrap();
        assert_eq!(series.get("a_total{x=\"1 2\"}"), Some(&3.0));
        assert_eq!(series.get("b"), Some(&0.5));
        for wrong in ["a", "a b", "a 1\na 2", "a{x=\"1\" 2", "# nonsense", " 1"] {
            assert!(metrics(wrong).is_err(), "{wrong:?}");
        }
    }
}
