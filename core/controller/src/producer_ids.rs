//! Producer ids: no two producers are ever given the same.

use base::ProducerId;
use metadata::{MetadataRecord, ProducerIds};

use crate::PRODUCER_IDS_PER_BLOCK;
use crate::command::{AllocateProducerIds, ProducerIdBlock, SkipProducerIds};
use crate::controller::Controller;
use crate::error::ControllerError;

impl Controller {
    pub(crate) fn allocate_producer_ids(
        &self,
        command: AllocateProducerIds,
    ) -> Result<(ProducerIdBlock, Vec<MetadataRecord>), ControllerError> {
        let broker =
            self.image.broker(command.broker).ok_or(ControllerError::UnknownBroker(command.broker))?;
        if broker.epoch != command.epoch {
            return Err(ControllerError::StaleBrokerEpoch { expected: broker.epoch, got: command.epoch });
        }
        let first = self.image.producer_id_next();
        let next =
            first.0.checked_add(PRODUCER_IDS_PER_BLOCK).ok_or(ControllerError::ProducerIdsExhausted)?;
        let record = ProducerIds { broker: broker.id, broker_epoch: broker.epoch, next: ProducerId(next) };
        let block = ProducerIdBlock { first, len: PRODUCER_IDS_PER_BLOCK as i32 };
        Ok((block, vec![MetadataRecord::ProducerIds(record)]))
    }

    pub(crate) fn skip_producer_ids(
        &self,
        command: SkipProducerIds,
    ) -> Result<Vec<MetadataRecord>, ControllerError> {
        let broker =
            self.image.broker(command.broker).ok_or(ControllerError::UnknownBroker(command.broker))?;
        if command.largest < self.image.producer_id_next() {
            return Ok(Vec::new());
        }
        let next = ProducerId(command.largest.0.saturating_add(1));
        let record = ProducerIds { broker: broker.id, broker_epoch: broker.epoch, next };
        Ok(vec![MetadataRecord::ProducerIds(record)])
    }
}
