//! What a request may look at, what it can come to, and what its connection remembers.

use std::sync::Arc;
use std::time::Duration;

use base::{BrokerId, Now};
use controller::{Command, ControllerError, Reply};
use metadata::settings::{BrokerSettings, Layers};
use metadata::{ConfigResource, Image};
use records::Scratch;
use storage::FileSlice;
use wire::{ApiKey, DecodeError, EncodeError, Message};

use crate::fetch_session::FetchSessions;
use crate::groups::Speakers;
use crate::host::Host;
use crate::parked::Waiter;

/// What every request on this node may look at.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// This broker.
    pub node: BrokerId,
    /// The cluster's id.
    pub cluster_id: &'a str,
    /// Its settings.
    pub settings: &'a BrokerSettings,
    /// What the cluster is, as of now.
    pub image: &'a Arc<Image>,
    /// What lives here.
    pub host: &'a dyn Host,
    /// The time.
    pub now: Now,
}

impl<'a> Context<'a> {
    /// What was set for this broker, from the nearest to the farthest.
    pub fn layers(&self) -> Layers<'a> {
        Layers {
            broker: self.image.configs(&ConfigResource::Broker(self.node)),
            default_broker: self.image.configs(&ConfigResource::DefaultBroker),
            fixed: &self.settings.fixed,
        }
    }
}

/// The state of one connection.
#[derive(Debug)]
pub struct Session {
    /// How others wake it.
    pub waiter: Waiter,
    /// Its fetch session.
    pub fetch: FetchSessions,
    /// Who is at the other end.
    pub peer: Peer,
    /// The address at the other end, as Kafka writes it in what it tells of members of groups: `/10.0.0.7`.
    pub host: Box<str>,
    /// The members of groups that speak over it.
    pub speakers: Speakers,
    /// What the client calls itself, as of its last ApiVersions request.
    pub software: Option<(Box<str>, Box<str>)>,
}

/// Who is at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Anybody, on a listener for clients.
    Client,
    /// A node of this cluster, on the listener for nodes.
    Node(BrokerId),
}

/// An answer, ready for the socket.
#[derive(Debug)]
pub struct Answer {
    /// Its bytes, with holes where records of files go.
    pub frame: wire::Frame,
    /// What fills the holes, in their order; several slices may fill one hole.
    pub slices: Vec<FileSlice>,
    /// What it answers.
    pub reply: ReplyTo,
}

/// What became of a request.
pub enum Outcome {
    /// Send this.
    Answer(Answer),
    /// Send nothing: the request wants no answer.
    Silent,
    /// Ask it again when the connection is woken or its deadline has passed.
    Parked(ParkedRequest),
    /// Hand the command to the controller, and its reply to the rest of the request.
    Submit(Submission),
    /// Close the connection.
    Close(CloseReason),
}

/// A request that waits for a partition.
pub type ParkedRequest = Box<dyn Parked>;

/// What waits for a partition, and looks again when it is told to.
pub trait Parked: Send {
    /// Which API it is a request of.
    fn key(&self) -> ApiKey;
    /// When it gives up waiting, or looks again though nobody rang, by `Now::elapsed`.
    fn deadline(&self) -> Duration;
    /// About how many bytes of memory it holds while it waits.
    fn bytes(&self) -> usize;
    /// Looks whether it can be answered. `Parked` if it has to wait on.
    fn look(self: Box<Self>, context: Context<'_>, session: &mut Session) -> Outcome;
    /// The connection is gone: stops waiting.
    fn abandon(self: Box<Self>, context: Context<'_>, session: &Session);
}

/// A request that waits for the controller.
pub struct Submission {
    /// What to decide.
    pub command: Command,
    /// Makes the answer of the decision.
    pub finish: Finish,
}

/// The rest of a request whose decision has come.
pub type Finish = Box<dyn FnOnce(&Context<'_>, Result<Reply, ControllerError>) -> Outcome + Send>;

/// Why a connection has to be closed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// The frame is not a request.
    #[error("cannot read the request: {0}")]
    Malformed(#[from] DecodeError),
    /// No such API on this listener.
    #[error("no API with key {key} is served here")]
    UnknownApi {
        /// The key that was asked for.
        key: i16,
    },
    /// Not in this version.
    #[error("{key:?} is not served in version {version}")]
    UnsupportedVersion {
        /// The API.
        key: ApiKey,
        /// The version that was asked for.
        version: i16,
    },
    /// A produce request that wants no answer failed: closing is the only way to tell.
    #[error("a produce request with acks=0 failed: {0}")]
    SilentFailure(base::ErrorCode),
    /// It names more than one request may.
    #[error("the request names {count} things, and may name {max}")]
    TooMany {
        /// How many.
        count: usize,
        /// How many it may.
        max: usize,
    },
    /// An error for which the answer has no place in the version asked for.
    #[error("{key:?} is refused, which version {version} cannot say: {code}")]
    Refused {
        /// The API.
        key: ApiKey,
        /// The version that was asked for.
        version: i16,
        /// What would have been said.
        code: base::ErrorCode,
    },
    /// An answer that cannot be said in the version asked for.
    #[error("cannot write the answer: {0}")]
    Unspeakable(#[from] EncodeError),
}

/// One request on its way through its API.
pub struct Call<'a> {
    /// What it may look at.
    pub context: Context<'a>,
    /// Its connection.
    pub session: &'a mut Session,
    /// Room to decompress in.
    pub scratch: &'a mut Scratch,
    /// How to answer it.
    pub reply: ReplyTo,
    /// What the client calls itself in this request; it may change from one to the next.
    pub client_id: &'a str,
    /// Commands for the controller that nobody waits for.
    pub background: Vec<Command>,
}

/// What an answer has to carry to find its request.
#[derive(Clone, Copy, Debug)]
pub struct ReplyTo {
    /// The API.
    pub key: ApiKey,
    /// The version that was asked for, and is answered in.
    pub version: i16,
    /// The number the client gave it.
    pub correlation_id: i32,
}

impl ReplyTo {
    /// Makes the answer of a response that has no files.
    pub fn answer<'m>(self, response: &impl Message<'m>) -> Outcome {
        self.answer_with(response, Vec::new())
    }

    /// Makes the answer of a response whose records are in files.
    pub fn answer_with<'m>(self, response: &impl Message<'m>, slices: Vec<FileSlice>) -> Outcome {
        match wire::encode_response(self.correlation_id, self.key, self.version, response) {
            Ok(frame) => Outcome::Answer(Answer { frame, slices, reply: self }),
            Err(error) => Outcome::Close(error.into()),
        }
    }
}

impl Session {
    /// A connection that has said nothing yet.
    pub fn new(waiter: Waiter, peer: Peer) -> Self {
        Self {
            waiter,
            peer,
            fetch: match peer {
                Peer::Client => FetchSessions::default(),
                Peer::Node(_) => FetchSessions::of_node(),
            },
            host: Box::default(),
            speakers: Speakers::default(),
            software: None,
        }
    }
}
