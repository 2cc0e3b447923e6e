//! Brokers, in bytes.

use base::{BrokerEpoch, BrokerId};

use super::{RecordError, wrong};
use crate::metadata_record::{BrokerChange, MetadataRecord};
use crate::parts::{Broker, Endpoint};
use crate::record::register_broker_record::{BrokerEndpoint, BrokerFeature};
use crate::record::{BrokerRegistrationChangeRecord, RegisterBrokerRecord};

impl From<&Broker> for RegisterBrokerRecord {
    fn from(broker: &Broker) -> Self {
        let endpoint = |endpoint: &Endpoint| BrokerEndpoint {
            name: endpoint.listener.clone(),
            host: endpoint.host.clone(),
            port: endpoint.port,
            security_protocol: endpoint.security_protocol,
        };
        let feature = |(name, low, high): &(String, i16, i16)| BrokerFeature {
            name: name.clone(),
            min_supported_version: *low,
            max_supported_version: *high,
        };
        Self {
            broker_id: broker.id.0,
            is_migrating_zk_broker: false,
            incarnation_id: broker.incarnation,
            broker_epoch: broker.epoch.0,
            end_points: broker.endpoints.iter().map(endpoint).collect(),
            features: broker.features.iter().map(feature).collect(),
            rack: broker.rack.clone(),
            fenced: broker.fenced,
            in_controlled_shutdown: broker.in_controlled_shutdown,
            log_dirs: broker.log_dirs.clone(),
            cordoned_log_dirs: None,
        }
    }
}

pub(super) fn registered(it: RegisterBrokerRecord) -> Result<MetadataRecord, RecordError> {
    if it.broker_id < 0 {
        return Err(wrong("RegisterBrokerRecord.brokerId", it.broker_id));
    }
    let endpoint = |it: BrokerEndpoint| Endpoint {
        listener: it.name,
        host: it.host,
        port: it.port,
        security_protocol: it.security_protocol,
    };
    let feature = |it: BrokerFeature| (it.name, it.min_supported_version, it.max_supported_version);
    Ok(MetadataRecord::RegisterBroker(Broker {
        id: BrokerId(it.broker_id),
        epoch: BrokerEpoch(it.broker_epoch),
        incarnation: it.incarnation_id,
        endpoints: it.end_points.into_iter().map(endpoint).collect(),
        features: it.features.into_iter().map(feature).collect(),
        rack: it.rack,
        fenced: it.fenced,
        in_controlled_shutdown: it.in_controlled_shutdown,
        log_dirs: it.log_dirs,
    }))
}

impl From<&BrokerChange> for BrokerRegistrationChangeRecord {
    fn from(change: &BrokerChange) -> Self {
        Self {
            broker_id: change.broker.0,
            broker_epoch: change.epoch.0,
            fenced: change.fenced.map_or(0, |fenced| if fenced { 1 } else { -1 }),
            in_controlled_shutdown: change.in_controlled_shutdown.into(),
            // An empty list is "as it was": a broker always has a directory, or it is fenced.
            log_dirs: change.log_dirs.clone().unwrap_or_default(),
            cordoned_log_dirs: None,
        }
    }
}

pub(super) fn changed(it: BrokerRegistrationChangeRecord) -> Result<MetadataRecord, RecordError> {
    let fenced = match it.fenced {
        0 => None,
        1 => Some(true),
        -1 => Some(false),
        other => return Err(wrong("BrokerRegistrationChangeRecord.fenced", other)),
    };
    Ok(MetadataRecord::BrokerChange(BrokerChange {
        broker: BrokerId(it.broker_id),
        epoch: BrokerEpoch(it.broker_epoch),
        fenced,
        in_controlled_shutdown: it.in_controlled_shutdown == 1,
        log_dirs: (!it.log_dirs.is_empty()).then_some(it.log_dirs),
    }))
}
