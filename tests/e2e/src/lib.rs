//! Real processes: crash, power cut, hostile input.
