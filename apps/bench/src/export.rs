//! What a load does while it does it, as numbers for Prometheus.
//!
//! Counters only grow, from one run to the next; what runs at the moment is in the labels of a number of its own,
//! so that each of the others stays one line.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use http::{HttpState, Readiness};
use telemetry::{Counter, Gauge, Histogram, Page, TextFormat};

use crate::load::Window;

/// See the module.
#[derive(Debug, Default)]
pub struct Export {
    running: Gauge,
    warming_up: Gauge,
    runs: Counter,
    runs_wrong: Counter,
    written_records: Counter,
    written_bytes: Counter,
    read_records: Counter,
    read_bytes: Counter,
    failed_records: Counter,
    response: Histogram,
    end_to_end: Histogram,
    cpu_ms: Counter,
    memory_bytes: Gauge,
    /// The workload that runs, or ran last, and what it runs on.
    run: Mutex<(String, String)>,
}

impl Export {
    /// A run begins.
    pub fn on_run(&self, workload: &str, system: &str) {
        *self.run.lock().unwrap_or_else(PoisonError::into_inner) = (workload.to_owned(), system.to_owned());
        self.running.set(1);
    }

    /// A second of it is over.
    pub fn on_window(&self, window: &Window<'_>) {
        let Window { second, written, read, .. } = window;
        self.warming_up.set(u64::from(second.is_warmup));
        self.written_records.add(written.counts.records);
        self.written_bytes.add(written.counts.bytes);
        self.read_records.add(read.counts.records);
        self.read_bytes.add(read.counts.bytes);
        self.failed_records.add(written.failed);
        for (shown, counted) in [(&self.response, &written.response), (&self.end_to_end, &read.response)] {
            for found in counted.iter_recorded() {
                let took = Duration::from_nanos(found.value_iterated_to());
                shown.observe_n(took, found.count_at_value());
            }
        }
        self.cpu_ms.add((second.used.client.cpu_seconds * 1e3).round() as u64);
        self.memory_bytes.set(second.used.client.rss_bytes);
    }

    /// The run is over.
    pub fn on_done(&self, is_wrong: bool) {
        self.runs.add(1);
        self.runs_wrong.add(u64::from(is_wrong));
        self.running.set(0);
        self.warming_up.set(0);
    }

    /// The page that Prometheus reads.
    pub fn page(self: &Arc<Self>, format: TextFormat) -> String {
        let export = self.clone();
        format.page(move |page| export.encode(page))
    }

    fn encode(&self, page: &mut Page<'_>) -> fmt::Result {
        let (workload, system) = self.run.lock().unwrap_or_else(PoisonError::into_inner).clone();
        page.gauges(
            "vltava_bench_run",
            "Whether a run is going on; the labels say of what, and on what system.",
            [([("workload", &*workload), ("system", &*system)], self.running.get())],
        )?;
        for (name, help, gauge) in [
            ("vltava_bench_warming_up", "Whether what is done does not count yet.", &self.warming_up),
            ("vltava_bench_memory_bytes", "Memory of the clients.", &self.memory_bytes),
        ] {
            page.gauge(name, help, gauge.get())?;
        }
        for (name, help, counter) in [
            ("vltava_bench_runs", "Runs that are over, and tries before them.", &self.runs),
            (
                "vltava_bench_runs_wrong",
                "Of these, those that failed, or of which records were not as sent; that a worker does not know.",
                &self.runs_wrong,
            ),
            ("vltava_bench_written_records", "Records that were acknowledged.", &self.written_records),
            ("vltava_bench_written_bytes", "Bytes of their values.", &self.written_bytes),
            ("vltava_bench_read_records", "Records that were read.", &self.read_records),
            ("vltava_bench_read_bytes", "Bytes of their values.", &self.read_bytes),
            ("vltava_bench_failed_records", "Records that were given up.", &self.failed_records),
        ] {
            page.counter(name, help, counter.get())?;
        }
        page.counter_seconds(
            "vltava_bench_cpu_seconds",
            "Processor time of the clients.",
            self.cpu_ms.get() as f64 / 1e3,
        )?;
        page.histogram(
            "vltava_bench_response_seconds",
            "From when a record was due to its acknowledgement.",
            &self.response,
        )?;
        page.histogram(
            "vltava_bench_end_to_end_seconds",
            "From when a record was due until it was read, by the clock of the machine that read it.",
            &self.end_to_end,
        )
    }

    /// Shows the page at an address, as `/metrics`, as long as this process lives; where, with port 0.
    pub fn serve(self: &Arc<Self>, address: &str) -> Result<SocketAddr> {
        let address = address.to_socket_addrs().ok().and_then(|mut found| found.next());
        let address = address.context("--metrics: expected HOST:PORT")?;
        let export = self.clone();
        let state = HttpState {
            ready: Arc::new(|| Readiness::Ready),
            metrics: Arc::new(move |format| export.page(format)),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = runtime.block_on(http::bind(address))?;
        let bound = listener.local_addr()?;
        let (serving, served) = mpsc::channel();
        thread::Builder::new().name("metrics".to_owned()).spawn(move || {
            let _ = serving.send(());
            runtime.block_on(http::serve(listener, state, std::future::pending()));
        })?;
        served.recv().context("the thread for metrics did not start")?;
        Ok(bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Second;
    use crate::meter::{Counts, Measured};

    #[test]
    fn what_was_measured_is_shown() {
        let export = Arc::new(Export::default());
        export.on_run("quick", "vltava");
        let mut written = Measured { counts: Counts { records: 3, bytes: 300 }, ..Measured::default() };
        for nanos in [40_000, 3_000_000, 20_000_000] {
            written.response.saturating_record(nanos);
        }
        written.failed = 2;
        let (second, read) = (Second::default(), Measured::default());
        export.on_window(&Window { second: &second, written: &written, read: &read, is_whole: true });
        let page = export.page(TextFormat::Prometheus);
        for line in [
            "vltava_bench_run{workload=\"quick\",system=\"vltava\"} 1",
            "vltava_bench_written_records_total 3",
            "vltava_bench_failed_records_total 2",
            "vltava_bench_response_seconds_bucket{le=\"0.00005\"} 1",
            "vltava_bench_response_seconds_bucket{le=\"0.005\"} 2",
            "vltava_bench_response_seconds_count 3",
            "vltava_bench_end_to_end_seconds_count 0",
        ] {
            assert!(page.lines().any(|found| found == line), "{line}\n{page}");
        }
        export.on_done(true);
        let page = export.page(TextFormat::Prometheus);
        assert!(
            page.contains("system=\"vltava\"} 0\n") && page.contains("vltava_bench_runs_wrong_total 1\n")
        );
    }
}
