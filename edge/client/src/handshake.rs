//! The first words of a connection: which versions does the broker speak?

use base::ErrorCode;
use wire::messages::api_versions::ApiVersionsRequest;
use wire::{ApiKey, Message, Request};

use crate::connection::{ConnectOptions, Connection};
use crate::error::ClientError;
use client_core::Versions;

/// The version that a broker too old for ours answers in.
const OLDEST_VERSION: i16 = 0;

impl Connection {
    /// Connects and asks the broker which versions it speaks.
    pub fn connect(address: &str, options: ConnectOptions) -> Result<Self, ClientError> {
        let mut connection = Self::connect_silent(address, options)?;
        let versions = ask(&mut connection)?;
        connection.set_versions(versions);
        Ok(connection)
    }
}

/// Asks a broker what it speaks, in the newest version both sides know.
///
/// A broker that does not know our version answers in the oldest one, with an error and with what it
/// does know, and can be asked again.
fn ask(connection: &mut Connection) -> Result<Versions, ClientError> {
    let mut version = *ApiKey::ApiVersions.versions().end();
    loop {
        let request = ApiVersionsRequest {
            client_software_name: "vltava",
            client_software_version: env!("CARGO_PKG_VERSION"),
            ..ApiVersionsRequest::default()
        };
        let answer = connection.call(&request, version)?;
        let answer = answer.raw();
        let (code, versions) = match read(answer.body()?, version) {
            Ok((ErrorCode::UnsupportedVersion, _)) | Err(_) if version != OLDEST_VERSION => {
                let (_, offered) = read(answer.body()?, OLDEST_VERSION)?;
                let known = offered.common(ApiKey::ApiVersions).unwrap_or(OLDEST_VERSION);
                version = if known < version { known } else { OLDEST_VERSION };
                continue;
            }
            read => read?,
        };
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
