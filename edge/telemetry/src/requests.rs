//! Numbers about requests, by API.

use std::time::Duration;

use base::ErrorCode;

use crate::meters::{Counter, Histogram};

/// What became of the requests of one API.
///
/// Aligned, so that threads that serve different APIs do not write to the same cache line.
#[derive(Debug)]
#[repr(align(128))]
pub struct ApiMetrics {
    pub(crate) name: &'static str,
    /// Requests that were read.
    pub requests: Counter,
    /// Requests that could not be served at all: malformed, of an unknown version, or a bug.
    pub failed: Counter,
    pub(crate) total: Histogram,
    pub(crate) local: Histogram,
}

impl ApiMetrics {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            requests: Counter::default(),
            failed: Counter::default(),
            total: Histogram::default(),
            local: Histogram::default(),
        }
    }

    /// A request was read, and worked on for so long until it was answered or had to wait.
    pub fn worked(&self, took: Duration) {
        self.requests.inc();
        self.local.observe(took);
    }

    /// A request is answered, so long after work on it began: work, and waiting for acks, records or the
    /// requests before it.
    pub fn answered(&self, took: Duration) {
        self.total.observe(took);
    }
}

/// Numbers about all requests.
#[derive(Debug)]
pub struct RequestMetrics {
    /// In the order they were named; the last one stands for keys that were not.
    pub(crate) apis: Vec<ApiMetrics>,
    /// Key to place in `apis`.
    places: Vec<u8>,
    /// By number, -1 at the front.
    errors: Vec<Counter>,
}

impl RequestMetrics {
    /// Room for these APIs, each a key and Kafka's name of it.
    pub(crate) fn new(apis: &[(i16, &'static str)]) -> Self {
        let key_max = apis.iter().map(|(key, _)| *key).max().unwrap_or(0);
        let other = u8::try_from(apis.len()).expect("Kafka has fewer than 255 APIs");
        let mut places = vec![other; usize::try_from(key_max).map_or(0, |key| key + 1)];
        for (place, (key, _)) in (0..).zip(apis) {
            places[usize::try_from(*key).expect("API keys are not negative")] = place;
        }
        let names = apis.iter().map(|(_, name)| *name).chain(["Unknown"]);
        let codes = ErrorCode::ALL.last().map_or(0, |code| code.code() + 2);
        Self {
            apis: names.map(ApiMetrics::new).collect(),
            places,
            errors: (0..codes).map(|_| Counter::default()).collect(),
        }
    }

    /// The numbers of an API.
    pub fn api(&self, key: i16) -> &ApiMetrics {
        let place = usize::try_from(key).ok().and_then(|key| self.places.get(key)).copied();
        &self.apis[place.map_or(self.apis.len() - 1, usize::from)]
    }

    /// An answer, or so many parts of one, carry an error, which is one of [`ErrorCode::ALL`].
    pub fn error(&self, code: i16, times: u64) {
        if let Some(counter) = self.errors.get(error_place(code)) {
            counter.add(times);
        }
    }

    /// The codes that were answered, and how often.
    pub(crate) fn errors(&self) -> impl Iterator<Item = (&'static str, u64)> {
        ErrorCode::ALL
            .iter()
            .map(|code| (code.name(), self.errors.get(error_place(code.code())).map_or(0, Counter::get)))
            .filter(|(_, count)| *count > 0)
    }
}

fn error_place(code: i16) -> usize {
    usize::try_from(i32::from(code) + 1).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_a_place() {
        let requests = RequestMetrics::new(&[(0, "Produce"), (1, "Fetch"), (18, "ApiVersions")]);
        requests.api(18).requests.inc();
        for key in [-1, 2, 17, 19, i16::MIN, i16::MAX] {
            requests.api(key).requests.inc();
        }
        let counts: Vec<_> = requests.apis.iter().map(|api| (api.name, api.requests.get())).collect();
        assert_eq!(counts, [("Produce", 0), ("Fetch", 0), ("ApiVersions", 1), ("Unknown", 6)]);
    }

    #[test]
    fn every_error_has_a_place() {
        let requests = RequestMetrics::new(&[]);
        for code in ErrorCode::ALL {
            requests.error(code.code(), 2);
        }
        requests.error(i16::MAX, 1);
        requests.error(i16::MIN, 1);
        assert_eq!(requests.errors().count(), ErrorCode::ALL.len());
        assert!(requests.errors().all(|(_, count)| count == 2));
    }
}
