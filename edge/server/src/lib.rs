//! Composition root: settings, threads, wiring.
