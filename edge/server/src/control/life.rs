//! The life of this broker, as the control thread leads it: registered, unfenced, serving, and to its end.
//!
//! **Invariant:** a node serves once it has acted on the metadata that let it: who asks finds what it leads.

use base::{Effects, Offset};
use broker::lifecycle::{self, Lifecycle};
use controller::ControllerError;
use tracing::{info, warn};

use super::waiting::Asker;
use super::{ControlFailed, ControlThread, Decision, Step};

impl ControlThread {
    /// Steps the life of this broker, and does what it says.
    pub(super) fn live(
        &mut self,
        act: impl FnOnce(&mut Lifecycle, &mut Effects<lifecycle::Effect>),
    ) -> Result<(), ControlFailed> {
        let mut out = Effects::new();
        let Some(lifecycle) = &mut self.lifecycle else { return Ok(()) };
        act(lifecycle, &mut out);
        self.control.set_in_touch_until(lifecycle.in_touch_until());
        for effect in out.drain() {
            match effect {
                lifecycle::Effect::Send(command) => self.give(Asker::Lifecycle, *command)?,
                lifecycle::Effect::Registered(epoch) => {
                    info!(%epoch, "registered");
                    let _ = self.hosting.send(Step::Registered(epoch));
                }
                lifecycle::Effect::Serving => self.state.serves_from = Some(Offset::ZERO),
                lifecycle::Effect::MayStop { leads_on } => {
                    if leads_on {
                        warn!("nobody said in time that others lead what this node led: they will find out");
                    } else {
                        info!("others lead what they can of what this node led");
                    }
                    self.on_may_stop.take().map(|told| told.send(()));
                }
                lifecycle::Effect::Replaced(why) => return Err(why.into()),
            }
        }
        Ok(())
    }

    /// A broker that is not taken in asks again; a person may have to do something until it is.
    pub(super) fn say_why_not(&mut self, result: &Decision) {
        let is_refused = matches!(
            result,
            Err(ControllerError::DuplicateBroker(_)
                | ControllerError::InvalidRegistration(_)
                | ControllerError::InconsistentClusterId { .. }
                | ControllerError::PolicyViolation(_))
        );
        if is_refused
            && !std::mem::replace(&mut self.state.was_refused, true)
            && let Err(why) = result
        {
            warn!(node = %self.node, %why, "the cluster does not take this broker in yet: give each node its own node.id, or wait until the one before it is known to be gone");
        }
    }

    /// Tells the life of this broker something, if it is one.
    pub(super) fn of_life(&mut self, tell: impl FnOnce(&mut Lifecycle)) {
        let Some(lifecycle) = &mut self.lifecycle else { return };
        tell(lifecycle);
        self.control.set_in_touch_until(lifecycle.in_touch_until());
    }

    /// Who asks this node from here on finds what it leads.
    pub(super) fn serve_if_applied(&mut self) {
        if self.state.serves_from.take_if(|from| *from <= self.state.applied).is_some() {
            self.serving();
        }
    }

    /// This node does what it is for.
    pub(super) fn serving(&mut self) {
        self.on_serving.take().map(|told| told.send(()));
    }
}
