//! UnregisterBroker: asked of the controller.

use base::BrokerId;
use wire::messages::unregister_broker::UnregisterBrokerRequest;

use super::{Ask, Each, How, Name, Refusal, Response, Route};

/// Forgets brokers that will not come back.
#[derive(Debug)]
pub struct UnregisterBrokers;

impl Ask for UnregisterBrokers {
    type Item = BrokerId;
    type Said = ();
    type Request<'a> = UnregisterBrokerRequest;

    fn is_change(&self) -> bool {
        true
    }

    fn name<'a>(&self, broker: &'a BrokerId) -> Name<'a> {
        Name::Broker(*broker)
    }

    fn route<'a>(&self, _: &'a BrokerId) -> Route<'a> {
        Route::Controller
    }

    fn items_max(&self) -> usize {
        1
    }

    fn request<'a>(&'a self, brokers: &[&'a BrokerId], _: &How<'_>) -> UnregisterBrokerRequest {
        UnregisterBrokerRequest { broker_id: brokers[0].0 }
    }

    fn read<'f>(&self, said: &Response<'f, Self>, each: Each<'_, 'f, Self>) -> i32 {
        each(Name::All, Refusal::check(said.error_code, said.error_message));
        said.throttle_time_ms
    }
}
