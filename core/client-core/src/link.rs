//! One connection to one broker: first words, requests out, answers in.
//!
//! ```text
//!   connected ── ApiVersions ──▶ greeted ── requests, answered in their order ──▶ closed
//! ```
//!
//! Authentication has its place between greeting and the first request.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use base::ErrorCode;
use wire::messages::api_versions::{ApiVersionsRequest, ApiVersionsResponse};
use wire::{
    ApiKey, DecodeError, Decoder, EncodeError, Frame, Message, Request, decode_response_header,
    encode_request,
};

use crate::versions::Versions;

/// Why a connection is of no use any more, or a request could not be made for it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// Broker and client have no version of the API in common.
    #[error("the broker does not speak any version of {0} that this client knows")]
    Unsupported(ApiKey),
    /// Answers come in the order of the requests; this one did not.
    #[error("the answer to request {expected} was due, but that to {found} came")]
    OutOfOrder {
        /// The correlation id that was due.
        expected: i32,
        /// The one that came.
        found: i32,
    },
    /// An answer came that no request asked for.
    #[error("an answer came that was not asked for")]
    NotAsked,
    /// The broker refuses to say what it speaks.
    #[error("the broker does not say which versions it speaks: {}", .0.name())]
    Refused(ErrorCode),
    /// The answer cannot be read.
    #[error("the answer cannot be read: {0}")]
    Decode(#[from] DecodeError),
    /// The request cannot be said in the version.
    #[error("the request cannot be written: {0}")]
    Encode(#[from] EncodeError),
}

/// An answer to a request.
#[derive(Debug)]
pub struct Answer<'f, T> {
    /// What was said of the request when it was sent.
    pub about: T,
    /// The version of request and answer.
    pub version: i16,
    body: Decoder<'f>,
}

impl<'f, T> Answer<'f, T> {
    /// What the request was about, and the body, which must be filled by the message.
    pub fn read<M: Message<'f>>(self) -> (T, Result<M, LinkError>) {
        let mut body = self.body;
        let message = M::decode(&mut body, self.version).and_then(|message| {
            body.finish()?;
            Ok(message)
        });
        (self.about, message.map_err(LinkError::Decode))
    }
}

/// What a frame from the broker meant.
#[derive(Debug)]
pub enum Heard<'f, T> {
    /// It was part of the first words; this is to be said next, if anything.
    Greeting(Option<Frame>),
    /// It answers a request.
    Answer(Answer<'f, T>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing was said.
    Silent,
    /// ApiVersions was asked in this version. Who the client is (SaslHandshake, SaslAuthenticate) would be
    /// said next.
    Greeting(i16),
    /// Requests may be sent.
    Greeted,
}

/// How long an answer may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waits {
    /// When a peer that is well has answered, but for the way: at once, unless it was asked to wait.
    pub(crate) from: Duration,
    /// When the answer is late.
    pub(crate) until: Duration,
}

/// A request without its answer.
#[derive(Debug)]
struct Due<T> {
    correlation_id: i32,
    key: ApiKey,
    version: i16,
    waits: Waits,
    /// `None`: the greeting.
    about: Option<T>,
}

/// A connection, from its opening to its end. `T` is what its owner wants to know of each request.
#[derive(Debug)]
pub(crate) struct Link<T> {
    state: State,
    client_id: Arc<str>,
    correlation_id_next: i32,
    due: VecDeque<Due<T>>,
    versions: Versions,
}

/// What a broker too old for our first question answers in.
const VERSIONS_OLDEST: i16 = 0;

impl<T> Link<T> {
    pub(crate) fn new(client_id: Arc<str>) -> Self {
        let (versions, due) = (Versions::default(), VecDeque::new());
        Self { state: State::Silent, client_id, correlation_id_next: 0, due, versions }
    }

    /// The connection stands: the first words to say, and until when an answer is waited for.
    pub(crate) fn greet(&mut self, until: Duration) -> Result<Frame, LinkError> {
        self.ask_versions(*ApiKey::ApiVersions.versions().end(), until)
    }

    fn ask_versions(&mut self, version: i16, until: Duration) -> Result<Frame, LinkError> {
        let request = ApiVersionsRequest {
            client_software_name: "vltava",
            client_software_version: env!("CARGO_PKG_VERSION"),
            ..ApiVersionsRequest::default()
        };
        self.state = State::Greeting(version);
        self.encode(&request, version, Waits { from: until, until }, Some(None))
    }

    /// Whether requests may be sent.
    pub(crate) fn is_greeted(&self) -> bool {
        self.state == State::Greeted
    }

    /// How many answers are due.
    pub(crate) fn in_flight(&self) -> usize {
        self.due.len()
    }

    /// What was asked and is not answered.
    pub(crate) fn asked(&self) -> impl Iterator<Item = &T> {
        self.due.iter().filter_map(|due| due.about.as_ref())
    }

    /// When the oldest answer is late.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.due.front().map(|due| due.waits.until)
    }

    /// When a peer that is well would have given the oldest answer.
    pub(crate) fn waits_from(&self) -> Option<Duration> {
        self.due.front().map(|due| due.waits.from)
    }

    /// The version in which to ask.
    pub(crate) fn version(&self, key: ApiKey) -> Result<i16, LinkError> {
        self.versions.common(key).ok_or(LinkError::Unsupported(key))
    }

    /// A request to send; its answer comes back with `about`.
    pub(crate) fn request<'a, R: Request<'a>>(
        &mut self,
        request: &R,
        version: i16,
        waits: Waits,
        about: T,
    ) -> Result<Frame, LinkError> {
        self.encode(request, version, waits, Some(Some(about)))
    }

    /// A request to send that gets no answer: Produce with acks=0.
    pub(crate) fn request_unanswered<'a, R: Request<'a>>(
        &mut self,
        request: &R,
        version: i16,
    ) -> Result<Frame, LinkError> {
        self.encode(request, version, Waits { from: Duration::ZERO, until: Duration::ZERO }, None)
    }

    fn encode<'a, R: Request<'a>>(
        &mut self,
        request: &R,
        version: i16,
        waits: Waits,
        due: Option<Option<T>>,
    ) -> Result<Frame, LinkError> {
        let correlation_id = self.correlation_id_next;
        let frame = encode_request(correlation_id, Some(&self.client_id), version, request)?;
        self.correlation_id_next = correlation_id.wrapping_add(1) & i32::MAX;
        if let Some(about) = due {
            // What was asked before is answered before.
            let before = self.due.back().map_or(Duration::ZERO, |last| last.waits.from);
            let waits = Waits { from: waits.from.max(before), ..waits };
            self.due.push_back(Due { correlation_id, key: R::KEY, version, waits, about });
        }
        Ok(frame)
    }

    /// A frame came, without its size.
    pub(crate) fn on_frame<'f>(&mut self, frame: &'f [u8]) -> Result<Heard<'f, T>, LinkError> {
        let due = self.due.front().ok_or(LinkError::NotAsked)?;
        let (found, body) = decode_response_header(frame, due.key, due.version)?;
        if found != due.correlation_id {
            return Err(LinkError::OutOfOrder { expected: due.correlation_id, found });
        }
        let due = self.due.pop_front().expect("it was looked at");
        match due.about {
            Some(about) => Ok(Heard::Answer(Answer { about, version: due.version, body })),
            None => self.on_versions(body, due.version, due.waits.until).map(Heard::Greeting),
        }
    }

    /// A broker that does not know the version we asked in answers in the oldest one, with an error and
    /// with what it does know, and can be asked again.
    fn on_versions(
        &mut self,
        body: Decoder<'_>,
        asked: i16,
        until: Duration,
    ) -> Result<Option<Frame>, LinkError> {
        let read = read_versions(body.clone(), asked);
        if asked != VERSIONS_OLDEST && !matches!(read, Ok((ErrorCode::None, _))) {
            let (_, offered) = read_versions(body, VERSIONS_OLDEST)?;
            let known = offered.common(ApiKey::ApiVersions).filter(|&known| known < asked);
            return self.ask_versions(known.unwrap_or(VERSIONS_OLDEST), until).map(Some);
        }
        let (code, versions) = read?;
        if !code.is_none() {
            return Err(LinkError::Refused(code));
        }
        self.versions = versions;
        self.state = State::Greeted;
        Ok(None)
    }

    /// What will get no answer on this connection any more, oldest first.
    pub(crate) fn into_unanswered(self) -> impl Iterator<Item = T> {
        self.due.into_iter().filter_map(|due| due.about)
    }
}

fn read_versions(mut body: Decoder<'_>, version: i16) -> Result<(ErrorCode, Versions), LinkError> {
    let answer = ApiVersionsResponse::decode(&mut body, version)?;
    let code = ErrorCode::from_i16(answer.error_code).unwrap_or(ErrorCode::UnknownServerError);
    let mut versions = Versions::default();
    for api in &answer.api_keys {
        versions.insert(api.api_key, api.min_version, api.max_version);
    }
    Ok((code, versions))
}

#[cfg(test)]
mod tests {
    use wire::messages::api_versions::ApiVersion;
    use wire::messages::metadata::{MetadataRequest, MetadataResponse};
    use wire::{decode_request_header, encode_response};

    use super::*;

    /// What a broker answers that speaks ApiVersions up to a version, and Metadata 9.
    fn broker(frame: &Frame, newest: i16) -> Vec<u8> {
        let (header, _) = decode_request_header(&frame.bytes[4..]).expect("the link writes requests");
        let speaks =
            |key: ApiKey, max_version| ApiVersion { api_key: key.code(), min_version: 0, max_version };
        let is_known = header.api_version <= newest;
        let code = if is_known { ErrorCode::None } else { ErrorCode::UnsupportedVersion };
        let answer = ApiVersionsResponse {
            error_code: code.code(),
            api_keys: vec![speaks(ApiKey::ApiVersions, newest), speaks(ApiKey::Metadata, 9)],
            ..ApiVersionsResponse::default()
        };
        let version = if is_known { header.api_version } else { 0 };
        let framed = encode_response(header.correlation_id, ApiKey::ApiVersions, version, &answer);
        framed.expect("it can be said").bytes.split_off(4)
    }

    #[test]
    fn a_broker_of_any_age_is_greeted() {
        for newest in [0, 2, 3, 4, 5] {
            let mut link: Link<()> = Link::new("test".into());
            let mut said = Some(link.greet(Duration::ZERO).expect("it can be said"));
            for round in 0.. {
                let Some(frame) = said else { break };
                assert!(round < 3, "version {newest}: it asks for ever");
                let Ok(Heard::Greeting(next)) = link.on_frame(&broker(&frame, newest)) else {
                    panic!("{newest}")
                };
                said = next;
            }
            assert!(link.is_greeted());
            assert_eq!(link.version(ApiKey::Metadata), Ok(9));
            assert_eq!(link.version(ApiKey::Fetch), Err(LinkError::Unsupported(ApiKey::Fetch)));
        }
    }

    #[test]
    fn answers_come_in_their_order_and_none_is_forgotten() {
        let mut link: Link<u8> = Link::new("test".into());
        let frame = link.greet(Duration::ZERO).expect("it can be said");
        assert!(matches!(link.on_frame(&broker(&frame, 5)), Ok(Heard::Greeting(None))));
        for about in [1, 2] {
            let waits = Waits { from: Duration::ZERO, until: Duration::ZERO };
            link.request(&MetadataRequest::default(), 9, waits, about).expect("it can be said");
        }
        let answer = |id| {
            let framed = encode_response(id, ApiKey::Metadata, 9, &MetadataResponse::default());
            framed.expect("it can be said").bytes.split_off(4)
        };
        // The greeting was 0; the first request is 1.
        assert_eq!(link.on_frame(&answer(2)).err(), Some(LinkError::OutOfOrder { expected: 1, found: 2 }));
        let frame = answer(1);
        let Ok(Heard::Answer(heard)) = link.on_frame(&frame) else { panic!("it is the answer") };
        let (about, read) = heard.read::<MetadataResponse<'_>>();
        assert_eq!((about, read.is_ok()), (1, true));
        assert_eq!(link.into_unanswered().collect::<Vec<_>>(), [2]);
        let mut silent: Link<()> = Link::new("test".into());
        assert_eq!(silent.on_frame(&[]).err(), Some(LinkError::NotAsked));
    }
}
