//! Metrics as text.
//!
//! The encoder writes OpenMetrics. The older Prometheus text, which everything understands, differs
//! in three lines: it names a counter with its `_total`, and knows neither units nor an end mark.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::meters::Histogram;

/// The two texts that Prometheus reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextFormat {
    /// `text/plain; version=0.0.4`.
    Prometheus,
    /// `application/openmetrics-text; version=1.0.0`.
    OpenMetrics,
}

impl TextFormat {
    /// What to put in an HTTP header.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// A page, of what `write` puts onto it.
    pub fn page(self, write: impl Fn(&mut Page<'_>) -> fmt::Result + Send + Sync + 'static) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Written(write)));
        let mut text = String::with_capacity(16 << 10);
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("a string takes any text");
        self.convert(text)
    }

    /// The text, given the one in OpenMetrics.
    fn convert(self, text: String) -> String {
        match self {
            Self::OpenMetrics => text,
            Self::Prometheus => prometheus_text(&text),
        }
    }
}

fn prometheus_text(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len() + 256);
    let mut lines = open_metrics.lines().peekable();
    while let Some(line) = lines.next() {
        if line == "# EOF" || line.starts_with("# UNIT ") {
            continue;
        }
        let is_counter = line.starts_with("# TYPE ") && line.ends_with(" counter");
        let is_help_of_counter = line.starts_with("# HELP ")
            && lines.peek().is_some_and(|next| next.starts_with("# TYPE ") && next.ends_with(" counter"));
        if is_counter || is_help_of_counter {
            let mut words = line.splitn(4, ' ');
            let mut word = || words.next().unwrap_or_default();
            let (hash, kind, name, rest) = (word(), word(), word(), word());
            text.push_str(&format!("{hash} {kind} {name}_total {rest}"));
        } else {
            text.push_str(line);
        }
        text.push('\n');
    }
    text
}

/// What is written onto a page, as the encoder asks for it.
struct Written<W>(W);

impl<W> fmt::Debug for Written<W> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Written").finish_non_exhaustive()
    }
}

impl<W: Fn(&mut Page<'_>) -> fmt::Result + Send + Sync + 'static> Collector for Written<W> {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        (self.0)(&mut Page(encoder))
    }
}

/// Writes metrics, one after the other.
pub struct Page<'a>(DescriptorEncoder<'a>);

impl fmt::Debug for Page<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Page").finish_non_exhaustive()
    }
}

impl Page<'_> {
    /// A counter without labels. Its name is written without `_total`.
    pub fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let mut encoder = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        encode_counter(&mut encoder, value)
    }

    /// A counter of seconds, without labels.
    pub fn counter_seconds(&mut self, name: &str, help: &str, seconds: f64) -> fmt::Result {
        let mut encoder = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        encoder.encode_counter::<NoLabelSet, _, u64>(&seconds, None)
    }

    /// A gauge without labels.
    pub fn gauge(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let mut encoder = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        encode_gauge(&mut encoder, value)
    }

    /// A histogram without labels.
    pub fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) -> fmt::Result {
        let mut encoder = self.0.encode_descriptor(name, help, None, MetricType::Histogram)?;
        encode_histogram(&mut encoder, histogram)
    }

    /// Counters with labels.
    pub fn counters<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = (L, u64)>,
    ) -> fmt::Result {
        let mut encoder = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in rows {
            encode_counter(&mut encoder.encode_family(&labels)?, value)?;
        }
        Ok(())
    }

    /// Counters of seconds, with labels.
    pub fn counters_seconds<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = (L, f64)>,
    ) -> fmt::Result {
        let mut encoder = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, seconds) in rows {
            encoder.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&seconds, None)?;
        }
        Ok(())
    }

    /// Gauges with labels.
    pub fn gauges<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = (L, u64)>,
    ) -> fmt::Result {
        let mut encoder = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in rows {
            encode_gauge(&mut encoder.encode_family(&labels)?, value)?;
        }
        Ok(())
    }

    /// Histograms with labels.
    pub fn histograms<'h, L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = (L, &'h Histogram)>,
    ) -> fmt::Result {
        let mut encoder = self.0.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (labels, histogram) in rows {
            encode_histogram(&mut encoder.encode_family(&labels)?, histogram)?;
        }
        Ok(())
    }
}

fn encode_counter(encoder: &mut MetricEncoder<'_>, value: u64) -> fmt::Result {
    encoder.encode_counter::<NoLabelSet, _, u64>(&value, None)
}

fn encode_gauge(encoder: &mut MetricEncoder<'_>, value: u64) -> fmt::Result {
    encoder.encode_gauge(&i64::try_from(value).unwrap_or(i64::MAX))
}

fn encode_histogram(encoder: &mut MetricEncoder<'_>, histogram: &Histogram) -> fmt::Result {
    // Read once, so that the count is the sum of the buckets that are shown.
    let buckets = histogram.buckets();
    let count = buckets.iter().map(|(_, count)| count).sum();
    encoder.encode_histogram::<NoLabelSet>(histogram.sum().as_secs_f64(), count, &buckets, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_older_text_names_counters_in_full() {
        let open = "# HELP a_bytes All of a.\n# TYPE a_bytes counter\n# UNIT a_bytes bytes\na_bytes_total 1\n\
                    # HELP b # TYPE b counter\n# TYPE b gauge\nb{x=\"# TYPE c counter\"} 2\n# EOF\n";
        assert_eq!(
            TextFormat::Prometheus.convert(open.to_owned()),
            "# HELP a_bytes_total All of a.\n# TYPE a_bytes_total counter\na_bytes_total 1\n\
             # HELP b # TYPE b counter\n# TYPE b gauge\nb{x=\"# TYPE c counter\"} 2\n"
        );
        assert_eq!(TextFormat::OpenMetrics.convert(open.to_owned()), open);
    }
}
