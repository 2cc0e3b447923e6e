//! One connection to one broker: requests out, answers in, in the same order.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::marker::PhantomData;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use wire::{ApiKey, Decoder, Message, Request, decode_response_header, encode_request, frame_len};

use crate::error::ClientError;
use client_core::Versions;

/// How much of an answer is read at once: a buffer grows with what arrives, not with what is declared.
const CHUNK_BYTES: usize = 64 * 1024;

/// How to connect and how to behave then.
#[derive(Debug, Clone)]
pub struct ConnectOptions {
    /// What the client calls itself.
    pub client_id: String,
    /// How long to wait for the connection, and for each answer.
    pub timeout: Duration,
    /// An answer longer than this is an error.
    pub answer_bytes_max: usize,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            client_id: "vltava".to_owned(),
            // As long as Java's request.timeout.ms: a broker may wait for others before it answers.
            timeout: Duration::from_secs(30),
            answer_bytes_max: 256 << 20,
        }
    }
}

/// A request whose answer was not read yet.
#[derive(Debug, Clone, Copy)]
struct InFlight {
    correlation_id: i32,
    key: ApiKey,
    version: i16,
}

/// A connection to a broker.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    address: String,
    options: ConnectOptions,
    correlation_id_next: i32,
    in_flight: VecDeque<InFlight>,
    versions: Versions,
    /// Whether something failed on it: then bytes of one answer would be taken for those of another.
    given_up: bool,
}

/// The answer to a request, still in the bytes it came in.
#[derive(Debug, Clone)]
pub struct Answer {
    frame: Vec<u8>,
    key: ApiKey,
    version: i16,
}

/// An answer whose request is known by its type.
#[derive(Debug, Clone)]
pub struct AnswerTo<R> {
    answer: Answer,
    request: PhantomData<R>,
}

impl Connection {
    /// Connects and sends nothing: every version is the caller's choice.
    pub fn connect_silent(address: &str, options: ConnectOptions) -> Result<Self, ClientError> {
        let stream = open(address, options.timeout)
            .map_err(|reason| ClientError::Connect { address: address.to_owned(), reason })?;
        Ok(Self {
            stream,
            address: address.to_owned(),
            options,
            correlation_id_next: 0,
            in_flight: VecDeque::new(),
            versions: Versions::default(),
            given_up: false,
        })
    }

    /// The address as it was given.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// What the broker said it speaks; empty if it was not asked.
    pub fn versions(&self) -> &Versions {
        &self.versions
    }

    pub(crate) fn set_versions(&mut self, versions: Versions) {
        self.versions = versions;
    }

    /// The highest version of an API that both sides speak.
    pub fn version(&self, key: ApiKey) -> Result<i16, ClientError> {
        let unsupported = || ClientError::Unsupported { address: self.address.clone(), api: key };
        self.versions.common(key).ok_or_else(unsupported)
    }

    /// Changes how long each answer is waited for.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.options.timeout = timeout;
    }

    /// How many answers are due.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Sends a request in the highest common version and waits for its answer.
    pub fn ask<'a, R: Request<'a>>(&mut self, request: &R) -> Result<AnswerTo<R>, ClientError> {
        let version = self.version(R::KEY)?;
        self.call(request, version)
    }

    /// Sends a request and waits for its answer, which must be the only one that is due.
    pub fn call<'a, R: Request<'a>>(
        &mut self,
        request: &R,
        version: i16,
    ) -> Result<AnswerTo<R>, ClientError> {
        let answer = self.exchange(request, version)?;
        Ok(AnswerTo { answer, request: PhantomData })
    }

    pub(crate) fn exchange<'a, R: Request<'a>>(
        &mut self,
        request: &R,
        version: i16,
    ) -> Result<Answer, ClientError> {
        if !self.in_flight.is_empty() {
            return Err(ClientError::InFlight(self.in_flight.len()));
        }
        self.send(request, version)?;
        self.receive()
    }

    /// Sends a request; [`Connection::receive`] gives its answer after those of earlier requests.
    /// Returns its correlation id.
    pub fn send<'a, R: Request<'a>>(&mut self, request: &R, version: i16) -> Result<i32, ClientError> {
        let correlation_id = self.send_unanswered(request, version)?;
        self.in_flight.push_back(InFlight { correlation_id, key: R::KEY, version });
        Ok(correlation_id)
    }

    /// Sends a request that gets no answer: Produce with acks=0.
    pub fn send_unanswered<'a, R: Request<'a>>(
        &mut self,
        request: &R,
        version: i16,
    ) -> Result<i32, ClientError> {
        let correlation_id = self.correlation_id_next;
        let frame = encode_request(correlation_id, Some(&self.options.client_id), version, request)?;
        assert!(frame.holes.is_empty(), "a client has all the bytes of its requests");
        self.correlation_id_next = self.correlation_id_next.wrapping_add(1) & i32::MAX;
        self.send_bytes(&frame.bytes)?;
        Ok(correlation_id)
    }

    fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        self.check_usable()?;
        let sent = self.stream.set_write_timeout(Some(self.options.timeout));
        let sent = sent.and_then(|()| self.stream.write_all(bytes)).map_err(|error| self.failed(error));
        self.given_up |= sent.is_err();
        sent
    }

    fn check_usable(&self) -> Result<(), ClientError> {
        if self.given_up { Err(ClientError::GivenUp { address: self.address.clone() }) } else { Ok(()) }
    }

    /// Waits for the next answer. After an error, a late answer above all, the connection is of no use.
    pub fn receive(&mut self) -> Result<Answer, ClientError> {
        self.check_usable()?;
        let due = *self.in_flight.front().ok_or(ClientError::NothingInFlight)?;
        let answer = self.receive_due(due);
        self.given_up |= answer.is_err();
        answer
    }

    fn receive_due(&mut self, due: InFlight) -> Result<Answer, ClientError> {
        let frame = self.receive_frame()?;
        self.in_flight.pop_front();
        let (found, _) = decode_response_header(&frame, due.key, due.version)?;
        if found != due.correlation_id {
            return Err(ClientError::OutOfOrder { expected: due.correlation_id, found });
        }
        Ok(Answer { frame, key: due.key, version: due.version })
    }

    /// Waits for the next frame; without its size.
    fn receive_frame(&mut self) -> Result<Vec<u8>, ClientError> {
        let deadline = Instant::now() + self.options.timeout;
        let mut prefix = Vec::new();
        self.read_until(&mut prefix, 4, deadline)?;
        let prefix = *prefix.first_chunk().expect("four bytes were read");
        let len = frame_len(prefix, self.options.answer_bytes_max)?;
        let mut frame = Vec::new();
        self.read_until(&mut frame, len, deadline)?;
        Ok(frame)
    }

    fn read_until(&mut self, bytes: &mut Vec<u8>, len: usize, deadline: Instant) -> Result<(), ClientError> {
        while bytes.len() < len {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(self.timed_out());
            }
            let start = bytes.len();
            bytes.resize(len.min(start + CHUNK_BYTES), 0);
            let read =
                self.stream.set_read_timeout(Some(left)).and_then(|()| self.stream.read(&mut bytes[start..]));
            bytes.truncate(start + read.as_ref().map_or(0, |read| *read));
            match read {
                Ok(0) => return Err(self.closed()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(())
    }

    fn failed(&self, reason: io::Error) -> ClientError {
        match reason.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => self.timed_out(),
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => self.closed(),
            _ => ClientError::Broken { address: self.address.clone(), reason },
        }
    }

    fn closed(&self) -> ClientError {
        ClientError::Closed { address: self.address.clone(), unanswered: self.in_flight.len() }
    }

    fn timed_out(&self) -> ClientError {
        ClientError::TimedOut { address: self.address.clone(), after: self.options.timeout }
    }
}

/// Connects to the first of a name's addresses that answers.
fn open(address: &str, timeout: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl Answer {
    /// Which API it is an answer of.
    pub fn key(&self) -> ApiKey {
        self.key
    }

    /// Its version.
    pub fn version(&self) -> i16 {
        self.version
    }

    /// The bytes, header included, size excluded.
    pub fn bytes(&self) -> &[u8] {
        &self.frame
    }

    /// The body, behind the header.
    pub(crate) fn body(&self) -> Result<Decoder<'_>, ClientError> {
        Ok(decode_response_header(&self.frame, self.key, self.version)?.1)
    }

    /// Reads the body as a message, which must fill it.
    pub fn read<'r, M: Message<'r>>(&'r self) -> Result<M, ClientError> {
        let mut decoder = self.body()?;
        let message = M::decode(&mut decoder, self.version)?;
        decoder.finish()?;
        Ok(message)
    }
}

impl<R> AnswerTo<R> {
    /// Reads the body.
    pub fn read<'a, 'r>(&'r self) -> Result<R::Response<'r>, ClientError>
    where
        R: Request<'a>,
    {
        self.answer.read::<R::Response<'r>>()
    }

    /// The bytes and the version they are in.
    pub fn raw(&self) -> &Answer {
        &self.answer
    }
}
