//! UpdateFeatures: asked of the controller. All of them change, or none.

use wire::messages::update_features::{FeatureUpdateKey, UpdateFeaturesRequest};

use super::{Ask, Each, How, Name, Refusal, Response, Route};

/// The first version that can try without doing, and go down unsafely.
const TRIAL_VERSION: i16 = 1;

/// How a feature shall change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeatureChange {
    /// Its name.
    pub name: String,
    /// Its level; 0 turns it off.
    pub level: i16,
    /// Which way it may go.
    pub way: FeatureWay,
}

/// Which way the level of a feature may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeatureWay {
    /// Up.
    Up,
    /// Down, if nothing is lost by it.
    Down,
    /// Down, whatever is lost by it.
    DownUnsafely,
}

/// Changes the levels of features.
#[derive(Debug)]
pub struct UpdateFeatures {
    /// Only says whether it could be done.
    pub is_dry_run: bool,
}

impl Ask for UpdateFeatures {
    type Item = Vec<FeatureChange>;
    type Said = ();
    type Request<'a> = UpdateFeaturesRequest<'a>;

    fn is_change(&self) -> bool {
        !self.is_dry_run
    }

    fn name<'a>(&self, _: &'a Vec<FeatureChange>) -> Name<'a> {
        Name::Whole("the features")
    }

    fn route<'a>(&self, _: &'a Vec<FeatureChange>) -> Route<'a> {
        Route::Controller
    }

    fn version_min(&self, changes: &Vec<FeatureChange>) -> i16 {
        let is_unsafe = changes.iter().any(|change| change.way == FeatureWay::DownUnsafely);
        if self.is_dry_run || is_unsafe { TRIAL_VERSION } else { 0 }
    }

    fn request<'a>(&'a self, changes: &[&'a Vec<FeatureChange>], how: &How<'_>) -> UpdateFeaturesRequest<'a> {
        let is_old = how.version < TRIAL_VERSION;
        let updates = changes.iter().flat_map(|changes| changes.iter()).map(|change| FeatureUpdateKey {
            feature: &change.name,
            max_version_level: change.level,
            allow_downgrade: is_old && change.way != FeatureWay::Up,
            upgrade_type: match change.way {
                _ if is_old => FeatureUpdateKey::default().upgrade_type,
                FeatureWay::Up => 1,
                FeatureWay::Down => 2,
                FeatureWay::DownUnsafely => 3,
            },
        });
        UpdateFeaturesRequest {
            timeout_ms: how.timeout_ms,
            feature_updates: updates.collect(),
            validate_only: self.is_dry_run,
        }
    }

    fn read<'f>(&self, said: &Response<'f, Self>, each: Each<'_, 'f, Self>) -> i32 {
        let whole = Refusal::check(said.error_code, said.error_message);
        let of_each =
            || said.results.iter().try_for_each(|it| Refusal::check(it.error_code, it.error_message));
        each(Name::All, whole.and_then(|()| of_each()));
        said.throttle_time_ms
    }
}
