//! One switch that everything which waits can watch.

use tokio::sync::watch;

/// Tells all its [`Stop`]s at once.
#[derive(Debug)]
pub struct StopSwitch(watch::Sender<bool>);

impl StopSwitch {
    /// A switch that is not thrown.
    pub fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    /// A view of this switch.
    pub fn watch(&self) -> Stop {
        Stop(self.0.subscribe())
    }

    /// Throws the switch; it stays thrown.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Default for StopSwitch {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether, and when, to stop. A switch that was dropped counts as thrown.
#[derive(Debug, Clone)]
pub struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Waits until the switch is thrown.
    pub async fn stopped(&mut self) {
        let _ = self.0.wait_for(|stopped| *stopped).await;
    }

    /// Whether the switch was thrown.
    pub fn is_stopped(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }
}
