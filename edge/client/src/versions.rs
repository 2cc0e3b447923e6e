//! Which versions two sides of a connection have in common.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use base::ErrorCode;
use wire::messages::api_versions::ApiVersionsRequest;
use wire::{ApiKey, Message, Request};

use crate::connection::Connection;
use crate::error::ClientError;

/// The first version that a broker too old for ours must be able to answer.
const OLDEST_VERSION: i16 = 0;

/// The versions of each API that a broker said it speaks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Versions(BTreeMap<i16, (i16, i16)>);

impl Versions {
    /// Notes what a broker says of one API.
    pub(crate) fn insert(&mut self, key: i16, lowest: i16, highest: i16) {
        self.0.insert(key, (lowest, highest));
    }

    /// What the broker says of an API; `None` if it does not speak it.
    pub fn of(&self, key: ApiKey) -> Option<RangeInclusive<i16>> {
        self.0.get(&key.code()).map(|&(lowest, highest)| lowest..=highest)
    }

    /// The highest version of an API that both sides speak.
    pub fn common(&self, key: ApiKey) -> Option<i16> {
        let (theirs, ours) = (self.of(key)?, key.versions());
        let highest = *theirs.end().min(ours.end());
        (highest >= *theirs.start().max(ours.start())).then_some(highest)
    }

    /// Every API the broker named, known to us or not, with its lowest and highest version.
    pub fn iter(&self) -> impl Iterator<Item = (i16, i16, i16)> + '_ {
        self.0.iter().map(|(&key, &(lowest, highest))| (key, lowest, highest))
    }
}

/// Asks a broker what it speaks, in the newest version both sides know.
///
/// A broker that does not know our version answers in the oldest one, with an error and with what it
/// does know, and can be asked again.
pub(crate) fn ask(connection: &mut Connection) -> Result<Versions, ClientError> {
    let mut version = *ApiKey::ApiVersions.versions().end();
    loop {
        let request = ApiVersionsRequest {
            client_software_name: "vltava",
            client_software_version: env!("CARGO_PKG_VERSION"),
            ..ApiVersionsRequest::default()
        };
        let answer = connection.call(&request, version)?;
        let answer = answer.raw();
        let versions = match read(answer.body()?, version) {
            Ok((ErrorCode::UnsupportedVersion, _)) | Err(_) if version != OLDEST_VERSION => {
                let (_, offered) = read(answer.body()?, OLDEST_VERSION)?;
                let known = offered.common(ApiKey::ApiVersions).unwrap_or(OLDEST_VERSION);
                version = if known < version { known } else { OLDEST_VERSION };
                continue;
            }
            read => read?,
        };
        let (code, versions) = versions;
        ClientError::check(|| "the versions of the broker".to_owned(), code.code(), None)?;
        return Ok(versions);
    }
}

fn read(mut body: wire::Decoder<'_>, version: i16) -> Result<(ErrorCode, Versions), ClientError> {
    let answer = <ApiVersionsRequest<'_> as Request<'_>>::Response::decode(&mut body, version)?;
    let code = ErrorCode::from_i16(answer.error_code).unwrap_or(ErrorCode::UnknownServerError);
    let mut versions = Versions::default();
    for api in &answer.api_keys {
        versions.insert(api.api_key, api.min_version, api.max_version);
    }
    Ok((code, versions))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_common_version_is_taken() {
        let ours = ApiKey::Metadata.versions();
        let (low, high) = (*ours.start(), *ours.end());
        for (theirs, common) in [
            ((low, high), Some(high)),
            ((low, high - 1), Some(high - 1)),
            ((high, high + 3), Some(high)),
            ((high + 1, high + 2), None),
        ] {
            let mut versions = Versions::default();
            versions.insert(ApiKey::Metadata.code(), theirs.0, theirs.1);
            assert_eq!(versions.common(ApiKey::Metadata), common, "{theirs:?}");
        }
        assert_eq!(Versions::default().common(ApiKey::Fetch), None);
    }
}
