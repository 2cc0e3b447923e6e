//! Features: the levels that the whole cluster keeps to (KIP-584).

use std::collections::BTreeSet;

use metadata::{FEATURES, FeatureLevel, MetadataRecord};

use crate::command::{FeatureDirection, FeatureUpdate, Outcomes, UpdateFeatures};
use crate::controller::Controller;
use crate::error::ControllerError;

impl Controller {
    /// The levels of features that the cluster was founded without, and that every broker speaks by now.
    pub(crate) fn features_missing(&self) -> Vec<MetadataRecord> {
        let speaks = |name: &str| {
            let is_spoken = |(it, ..): &(String, i16, i16)| it == name;
            self.image.brokers().all(|broker| broker.features.iter().any(is_spoken))
        };
        let is_missing = |name: &str| !self.image.features().contains_key(name) && speaks(name);
        let missing = FEATURES.iter().filter(|(name, ..)| is_missing(name));
        let level = |(name, _, level): &(&str, i16, i16)| {
            MetadataRecord::FeatureLevel(FeatureLevel { name: (*name).to_owned(), level: *level })
        };
        missing.map(level).collect()
    }

    pub(crate) fn update_features(&self, command: &UpdateFeatures) -> (Outcomes<()>, Vec<MetadataRecord>) {
        let mut seen = BTreeSet::new();
        let mut records = Vec::new();
        let outcomes = command.updates.iter().map(|update| {
            if !seen.insert(&update.name) {
                let why = format!("The feature {} is in the command more than once.", update.name);
                return Err(ControllerError::InvalidRequest(why));
            }
            let has = self.image.features().get(&update.name).copied().unwrap_or(0);
            self.check_feature(update, has)?;
            if update.level != has && !command.validate_only {
                let level = FeatureLevel { name: update.name.clone(), level: update.level };
                records.push(MetadataRecord::FeatureLevel(level));
            }
            Ok(())
        });
        let outcomes: Outcomes<()> = outcomes.collect();
        if outcomes.iter().any(Result::is_err) {
            // One that cannot be changed stops all (KIP-1022).
            records.clear();
        }
        (outcomes, records)
    }

    fn check_feature(&self, update: &FeatureUpdate, has: i16) -> Result<(), ControllerError> {
        let FeatureUpdate { name, level, direction } = update;
        let refused = |why: String| {
            Err(ControllerError::InvalidFeature(format!(
                "Invalid update version {level} for feature {name}. {why}"
            )))
        };
        let Some((_, low, high)) = FEATURES.iter().find(|(known, ..)| known == name) else {
            return refused("The controller does not support the given feature.".into());
        };
        assert_eq!(low, high, "of every feature there is one level");
        if level != high {
            return refused(format!("The controller supports only version {high}."));
        }
        if *level > has && *direction != FeatureDirection::Upgrade {
            return refused(format!("Can't downgrade to a version above {has}."));
        }
        if *level < has && *direction == FeatureDirection::Upgrade {
            return refused(format!(
                "Can't downgrade the version from {has} without setting the upgrade type."
            ));
        }
        let speaks =
            |(feature, low, high): &(String, i16, i16)| feature != name || (*low..=*high).contains(level);
        let mute = self.image.brokers().find(|broker| !broker.features.iter().all(speaks));
        match mute {
            Some(broker) => refused(format!("Broker {} does not support this version.", broker.id)),
            None => Ok(()),
        }
    }
}
