//! A command as one node gives it to another.

use std::io::{self, Write};

use controller::{Command, ControllerError};

use crate::cluster::link::FRAME_BYTES_MAX;

/// What it may take: half a frame, as no connection between nodes should be held up for longer.
const BYTES_MAX: usize = (FRAME_BYTES_MAX / 2) as usize;

/// The command in JSON. No more than [`BYTES_MAX`] of it are made, whatever a client asked for.
pub(super) fn of(command: &Command) -> Result<Vec<u8>, ControllerError> {
    let mut body = Bounded { bytes: Vec::new(), max: BYTES_MAX };
    match serde_json::to_writer(&mut body, command) {
        Ok(()) => Ok(body.bytes),
        Err(why) if why.is_io() => {
            let why =
                "The request is too large to be given to the active controller: ask for less at a time.";
            Err(ControllerError::PolicyViolation(why.into()))
        }
        Err(why) => Err(ControllerError::InvalidRequest(why.to_string())),
    }
}

struct Bounded {
    bytes: Vec<u8>,
    max: usize,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.max - self.bytes.len() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use base::BrokerId;
    use controller::{CreateTopics, NewTopic};

    use super::*;

    #[test]
    fn what_fits_in_no_frame_is_refused_and_not_sent() {
        let command = |replicas: usize| {
            let topic = NewTopic {
                name: "a".into(),
                partitions: -1,
                replication_factor: -1,
                assignments: vec![(base::PartitionIndex(0), vec![BrokerId(1_000_000); replicas])],
                configs: Vec::new(),
                random: 1,
            };
            Command::CreateTopics(CreateTopics { topics: vec![topic], validate_only: false })
        };
        let fits = of(&command(1000)).expect("it fits");
        assert_eq!(fits, serde_json::to_vec(&command(1000)).expect("it can be written"));
        assert!(matches!(of(&command(BYTES_MAX / 8)), Err(ControllerError::PolicyViolation(_))));
    }
}
