//! Which values of a workload make sense, and which do together.
//!
//! What would have no effect is refused: whoever writes it believes that it has one, and so does who reads the result.

use anyhow::{Result, ensure};

use super::{Pace, Workload};

impl Workload {
    /// Fails if values make no sense, or not together.
    pub(super) fn check(&self) -> Result<()> {
        ensure!(!self.name.is_empty(), "name: it has none");
        self.check_bounds()?;
        ensure!(["0", "1", "all"].contains(&&*self.acks), "acks: {} is neither 0, 1 nor all", self.acks);
        self.keys()?;
        ensure!(
            self.ceiling.is_none_or(|extent| extent.disk_bytes > 0 && extent.stream_bytes > 0),
            "ceiling: nothing is measured with no bytes"
        );
        ensure!(
            !self.stop_on_time || self.records.is_none(),
            "stop_on_time: how long it sends has to be said with `seconds`, and not with `records`"
        );
        self.check_arrivals()?;
        self.check_stored()?;
        self.faults.check(self.brokers)?;
        ensure!(
            self.faults.is_empty() || self.search.is_none() && !self.is_overload() && !self.stored,
            "faults: they have their times in one run: no search, rate in percent or stored"
        );
        self.check_search()?;
        self.check_one_at_a_time()
    }

    fn check_bounds(&self) -> Result<()> {
        let bounds: [(&str, u64, u64); 9] = [
            ("brokers", self.brokers.into(), 16),
            ("topics", self.topics.into(), 1_000_000),
            ("partitions", self.partitions.into(), 100_000),
            ("replication_factor", self.replication_factor.into(), self.brokers.into()),
            ("record_bytes", self.record_bytes as u64, 1 << 27),
            ("producers", self.producers.into(), 256),
            ("subscriptions", self.subscriptions.into(), 256),
            ("records", self.records.unwrap_or(1), 1 << 40),
            ("records_max", self.records_max.unwrap_or(1), 1 << 40),
        ];
        for (field, value, max) in bounds {
            ensure!((1..=max).contains(&value), "{field}: {value} is not between 1 and {max}");
        }
        ensure!(self.consumers <= 256, "consumers: {} is more than 256", self.consumers);
        for (field, seconds) in [("warmup_seconds", self.warmup_seconds), ("seconds", self.seconds)] {
            ensure!((0.0..=86_400.0).contains(&seconds), "{field}: {seconds} is not between 0 and a day");
        }
        ensure!(self.records.is_some() || self.seconds > 0.0, "seconds: nothing is measured in no time");
        Ok(())
    }

    fn check_arrivals(&self) -> Result<()> {
        ensure!(
            ["fixed", "poisson"].contains(&&*self.arrivals),
            "arrivals: {} is neither fixed nor poisson",
            self.arrivals
        );
        // A search, and a share of full speed, come to a rate.
        let has_rate = self.rate != Pace::Max || self.search.is_some();
        ensure!(
            self.arrivals == "fixed" || has_rate,
            "arrivals: {} is of records that are due at a rate, and with `rate: max` each is sent as soon as it is \
             taken: say a rate, or leave it out",
            self.arrivals
        );
        Ok(())
    }

    fn check_stored(&self) -> Result<()> {
        if !self.stored {
            return Ok(());
        }
        ensure!(self.consumers > 0, "stored: nobody reads what is stored: consumers is 0");
        ensure!(self.records.is_some(), "stored: how much is stored has to be said with `records`");
        ensure!(
            self.rate == Pace::Max,
            "stored: what is stored is written and read as fast as can be, and not at a rate of {}: leave one of the \
             two out",
            self.rate
        );
        Ok(())
    }

    fn check_search(&self) -> Result<()> {
        let Some(goal) = &self.search else { return Ok(()) };
        ensure!(
            self.rate == Pace::Max && !self.stored && !self.one_at_a_time && self.records.is_none(),
            "search: it finds the rate, and tries each for some seconds: no rate, records, stored or one_at_a_time"
        );
        ensure!((1.0..=3_600.0).contains(&goal.seconds), "search: seconds: not between 1 and an hour");
        ensure!((0.001..0.5).contains(&goal.within), "search: within: not between 0.001 and 0.5");
        ensure!(goal.p99_ms > 0.0, "search: p99_ms: not above 0");
        Ok(())
    }

    fn check_one_at_a_time(&self) -> Result<()> {
        if !self.one_at_a_time {
            return Ok(());
        }
        let are_two = self.producers == 1 && self.consumers == 1 && self.subscriptions == 1;
        ensure!(are_two, "one_at_a_time: it takes one producer and one consumer");
        ensure!(
            self.rate == Pace::Max && !self.stored,
            "one_at_a_time: it has no rate, and nothing is stored"
        );
        ensure!(
            self.topics == 1,
            "one_at_a_time: all records go to one topic, and none to the others of {}: say `topics: 1`",
            self.topics
        );
        ensure!(
            self.records_max.is_none(),
            "one_at_a_time: records_max would not end it: say how many with `records`, or how long with `seconds`"
        );
        ensure!(
            !self.may_give_up,
            "one_at_a_time: may_give_up would change nothing: it ends with the first record that does not come back"
        );
        Ok(())
    }
}
