//! Does to brokers what a workload says, while somebody else makes the load.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use serde::{Deserialize, Serialize};

use super::Cluster;
use crate::workload::fault::{Fault, Faults, Kind};

/// What was done.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Deed {
    /// When: seconds after the start.
    pub at: f64,
    /// What, and to whom.
    pub what: String,
}

/// Tells when the load has begun.
pub struct Began(Option<Sender<Instant>>);

impl Began {
    /// It was then; who says it again is not heard. Said once a second, and taken in between two deeds.
    pub fn at(&self, time: Instant) {
        if let Some(began) = &self.0 {
            // Nobody listens any more once all is done.
            let _ = began.send(time);
        }
    }
}

/// What begins or ends, and when.
struct Due {
    at: f64,
    fault: Fault,
    is_end: bool,
}

impl Cluster {
    /// Does that to its brokers, from when the load begins until whoever makes it is done. What comes of both; an
    /// error if a broker ended otherwise.
    pub fn under<T>(
        &mut self,
        faults: &Faults,
        act: impl FnOnce(&Began) -> Result<T>,
    ) -> Result<(T, Vec<Deed>)> {
        if faults.is_empty() {
            let acted = act(&Began(None));
            return both(acted, self.must_run().map(|()| Vec::new()));
        }
        ensure!(
            !self.processes.is_empty(),
            "faults: {faults}: whoever started the brokers of a cluster that is there has to do it"
        );
        let (began, begins) = channel();
        thread::scope(|scope| {
            let troubler = scope.spawn(move || self.trouble(faults, &begins));
            let began = Began(Some(began));
            let acted = act(&began);
            drop(began);
            both(acted, troubler.join().map_err(|_| anyhow!("what does it to the brokers panicked"))?)
        })
    }

    fn trouble(&mut self, faults: &Faults, begins: &Receiver<Instant>) -> Result<Vec<Deed>> {
        let deeds = self.deal_all(faults, begins).context("faults");
        // Brokers end with the thread that started them: this one stays until the load is over.
        while begins.recv().is_ok() {}
        self.must_run()?;
        deeds
    }

    fn deal_all(&mut self, faults: &Faults, begins: &Receiver<Instant>) -> Result<Vec<Deed>> {
        let mut deeds = Vec::new();
        let Ok(began) = begins.recv() else { return Ok(deeds) };
        for due in due(faults) {
            let at = began + Duration::from_secs_f64(due.at);
            let is_over = is_over(begins, at);
            if is_over && !due.is_end {
                deeds.push(Deed {
                    at: began.elapsed().as_secs_f64(),
                    what: format!("not done: {}", due.fault),
                });
                continue;
            }
            if let Some(what) = self.deal(&due, is_over)? {
                deeds.push(Deed { at: began.elapsed().as_secs_f64(), what });
            }
        }
        Ok(deeds)
    }

    /// Nothing is started any more once all is over; but one that is paused does not even end.
    fn deal(&mut self, due: &Due, is_over: bool) -> Result<Option<String>> {
        let Fault { kind, broker, .. } = due.fault;
        let place = usize::from(broker) - 1;
        let process =
            self.processes.get_mut(place).with_context(|| format!("there is no broker {broker}"))?;
        if !due.is_end {
            // One that ended by itself would not be missed behind it.
            process.must_run()?;
        }
        let what = match (kind, due.is_end) {
            (Kind::Kill, false) => {
                process.kill();
                format!("kill -9 of broker {broker}")
            }
            (Kind::Pause, false) => {
                process.pause();
                format!("broker {broker} paused")
            }
            (Kind::Pause, true) => {
                process.resume();
                if is_over {
                    return Ok(None);
                }
                format!("broker {broker} goes on")
            }
            (Kind::Restart, false) => {
                process.end();
                process.wait()?;
                format!("broker {broker} ended in order")
            }
            (Kind::Kill | Kind::Restart, true) if is_over => return Ok(None),
            (Kind::Kill | Kind::Restart, true) => {
                process.start_again()?;
                self.number(place);
                format!("broker {broker} started again")
            }
        };
        Ok(Some(what))
    }

    /// Tells who looks at what brokers use which process one is.
    fn number(&self, place: usize) {
        if let (Some(tally), Some(process)) = (self.tallies.get(place), self.processes.get(place)) {
            tally.moved_to(process.pid());
        }
    }
}

/// An error of the load may come of one of the brokers, which says more.
fn both<T>(acted: Result<T>, deeds: Result<Vec<Deed>>) -> Result<(T, Vec<Deed>)> {
    match (acted, deeds) {
        (Ok(acted), deeds) => Ok((acted, deeds?)),
        (Err(error), Ok(_)) => Err(error),
        (Err(error), Err(cause)) => Err(cause.context(format!("{error:#}"))),
    }
}

/// Beginnings and ends by their times; of two at one time, what was said first.
fn due(faults: &Faults) -> Vec<Due> {
    let both = |fault: &Fault| {
        let begin = Due { at: fault.at, fault: *fault, is_end: false };
        [begin, Due { at: fault.at + fault.seconds, fault: *fault, is_end: true }]
    };
    let mut due: Vec<Due> = faults.iter().flat_map(both).collect();
    due.sort_by(|one, other| one.at.total_cmp(&other.at));
    due
}

/// Waits until a time, and says whether the load was over before.
fn is_over(begins: &Receiver<Instant>, at: Instant) -> bool {
    loop {
        match begins.recv_timeout(at.saturating_duration_since(Instant::now())) {
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) => return false,
            Err(RecvTimeoutError::Disconnected) => return true,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

    use super::super::process::Process;
    use super::*;

    /// All records may be there, by the other brokers; what it took is not what all of them take. It is not forgiven if a
    /// fault was to hit it later.
    #[test]
    fn a_broker_that_ends_by_itself_fails_the_run() {
        let folder = tempfile::tempdir().expect("there is a place for files");
        let program = |id| {
            Process::start(
                Path::new("sleep"),
                vec!["600".to_owned()],
                &folder.path().join(format!("{id}.log")),
            )
            .expect("there is such a program")
        };
        for (faults, dies) in
            [("", false), ("", true), ("kill 2 at 2 for 600", false), ("kill 2 at 2 for 1", true)]
        {
            let mut cluster = Cluster {
                processes: [1, 2].map(program).into(),
                tallies: Arc::default(),
                home: None,
                servers: String::new(),
                metrics: Vec::new(),
            };
            let pid = Pid::from_raw(cluster.processes[1].pid() as i32).expect("it is above 0");
            let faults =
                if faults.is_empty() { Faults::default() } else { faults.parse().expect("they are some") };
            let done = cluster.under(&faults, |began| {
                if dies {
                    kill_process(pid, Signal::KILL)?;
                    // It is there to be waited for.
                    waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
                }
                let began_at =
                    Instant::now().checked_sub(Duration::from_secs(5)).expect("the machine ran before");
                began.at(began_at);
                Ok(())
            });
            let said = done.err().map(|error| format!("{error:#}")).unwrap_or_default();
            assert_eq!(said.contains("a broker ended; its log, "), dies, "{faults}: {said}");
        }
    }
}
