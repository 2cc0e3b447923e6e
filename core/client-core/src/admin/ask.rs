//! What an admin asks, and how an answer names what it is about.

use std::fmt;

use base::{BrokerId, ErrorCode, PartitionIndex, TopicId};
use wire::Request;

use super::resource::Resource;
use crate::cluster::Cluster;

/// An API that an admin calls: whom, what it says, and what is said of each item.
pub trait Ask: fmt::Debug + Send + 'static {
    /// What it is about: one of possibly many in a request, each with a result of its own.
    type Item: fmt::Debug + Send + 'static;
    /// What is said of an item.
    type Said: fmt::Debug + Send + 'static;
    /// The request.
    type Request<'a>: Request<'a>;

    /// Whether it changes something, so that it matters if it was carried out.
    fn is_change(&self) -> bool;

    /// What an item is called.
    fn name<'a>(&self, item: &'a Self::Item) -> Name<'a>;

    /// Whom to ask about it.
    fn route<'a>(&'a self, item: &'a Self::Item) -> Route<'a>;

    /// The first version that can say it.
    fn version_min(&self, _item: &Self::Item) -> i16 {
        0
    }

    /// The last version that can say it.
    fn version_max(&self) -> i16 {
        i16::MAX
    }

    /// How many items one request can be about; at least one.
    fn items_max(&self) -> usize {
        usize::MAX
    }

    /// A request about items that share their broker; never about none.
    fn request<'a>(&'a self, items: &[&'a Self::Item], how: &How<'_>) -> Self::Request<'a>;

    /// Tells what an answer says, item by item. For how long the broker wants to be left alone, in
    /// milliseconds.
    fn read<'f>(&self, said: &Response<'f, Self>, each: Each<'_, 'f, Self>) -> i32;
}

/// The answer to an [`Ask`].
pub type Response<'f, A> = <<A as Ask>::Request<'f> as Request<'f>>::Response<'f>;

/// Takes what an answer says of one item.
pub type Each<'e, 'f, A> = &'e mut dyn FnMut(Name<'f>, Result<<A as Ask>::Said, Refusal>);

/// What a request depends on beside its items.
#[derive(Debug)]
pub struct How<'a> {
    /// The version it is said in.
    pub version: i16,
    /// How long the broker may take over it.
    pub timeout_ms: i32,
    /// What is known of the cluster.
    pub cluster: &'a Cluster,
}

/// Whom to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route<'a> {
    /// Whoever answers.
    Any,
    /// The broker that takes commands.
    Controller,
    /// Who leads this partition.
    Leader(&'a str, PartitionIndex),
    /// This broker and no other.
    Broker(BrokerId),
    /// Who keeps this group.
    Coordinator(&'a str),
}

/// What an item is called, by the client and in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name<'a> {
    /// Whatever the request was about; only in answers.
    All,
    /// What there is one of, in words.
    Whole(&'static str),
    /// A topic.
    Topic(&'a str),
    /// A topic, by its id.
    TopicId(TopicId),
    /// A partition.
    Partition(&'a str, PartitionIndex),
    /// A broker.
    Broker(BrokerId),
    /// What has settings: Kafka's number for its kind, and its name.
    Resource(i8, &'a str),
    /// A group.
    Group(&'a str),
    /// A member of a group, by what its coordinator calls it.
    Member(&'a str),
    /// A static member of a group, by its instance id.
    Instance(&'a str),
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::All => f.write_str("the request"),
            Self::Whole(what) => f.write_str(what),
            Self::Topic(name) => write!(f, "topic {name}"),
            Self::TopicId(id) => write!(f, "the topic with the id {id}"),
            Self::Partition(topic, index) => write!(f, "partition {topic}-{index}"),
            Self::Broker(id) => write!(f, "broker {id}"),
            Self::Resource(kind, name) => Resource::describe(kind, name, f),
            Self::Group(id) => write!(f, "group {id}"),
            Self::Member(id) => write!(f, "member {id}"),
            Self::Instance(id) => write!(f, "the member with the instance id {id}"),
        }
    }
}

/// A broker's no.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Kafka's code.
    pub code: ErrorCode,
    /// What the broker says about it.
    pub message: Option<String>,
}

impl Refusal {
    /// Nothing if the code says that there is no error.
    pub fn check(code: i16, message: Option<&str>) -> Result<(), Self> {
        let code = ErrorCode::from_i16(code).unwrap_or(ErrorCode::UnknownServerError);
        if code.is_none() {
            return Ok(());
        }
        let message = message.filter(|text| !text.is_empty()).map(str::to_owned);
        Err(Self { code, message })
    }
}
