//! The worker's side: it waits for a coordinator, and does what that has it do.

use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::Token;
use super::frame::{self, BEAT, HELLO_BYTES_MAX, MESSAGE_BYTES_MAX, SILENCE_MAX, is_silence};
use super::message::{Answer, FORM, Order, Tick};
use crate::export::Export;
use crate::load::{Clock, Done, Ends, Job, Progress, Shift, Start, Told};
use crate::machine::Machine;

/// A stranger says who it is by then.
const HELLO_MAX: Duration = Duration::from_secs(5);
/// Strangers that are listened to at a time.
const STRANGERS_MAX: usize = 8;
/// Until the next try to accept one, where that failed, if nobody goes away before: without descriptors it fails until
/// somebody does.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// A worker that does nothing yet.
pub struct Worker {
    token: Token,
    export: Option<Arc<Export>>,
}

/// A worker that can be reached.
pub struct Listening {
    listener: TcpListener,
    seat: Arc<Seat>,
}

/// For one coordinator.
struct Seat {
    token: Token,
    export: Option<Arc<Export>>,
    /// Who has it.
    taken: Mutex<Option<SocketAddr>>,
    strangers: AtomicUsize,
    clock: Clock,
}

impl Worker {
    /// Works for whoever has the token; for everybody who reaches it, if none is set.
    pub const fn new(token: Token, export: Option<Arc<Export>>) -> Self {
        Self { token, export }
    }

    /// Can be reached from now on; from other machines only by those who have a token.
    pub fn listen(self, address: &str) -> Result<Listening> {
        let Self { token, export } = self;
        let addresses: Vec<SocketAddr> =
            address.to_socket_addrs().with_context(|| format!("{address} is no address"))?.collect();
        ensure!(
            token.is_set() || addresses.iter().all(|address| is_here(address.ip())),
            "{address} can be reached from other machines: a worker that is needs a token (--token-file, \
             or VLTAVA_BENCH_TOKEN), or anybody could have it send as much as it can wherever it can"
        );
        let listener =
            TcpListener::bind(&addresses[..]).with_context(|| format!("cannot listen at {address}"))?;
        let (taken, strangers, clock) = (Mutex::default(), AtomicUsize::new(0), Clock::start());
        Ok(Listening { listener, seat: Arc::new(Seat { token, export, taken, strangers, clock }) })
    }
}

fn is_here(address: IpAddr) -> bool {
    address.is_loopback()
}

impl Listening {
    /// Where.
    pub fn address(&self) -> Result<SocketAddr> {
        Ok(self.listener.local_addr()?)
    }

    /// Works for one coordinator after the other, and tells in words how it goes.
    pub fn serve(self, tell: impl Fn(&str) + Send + Sync + 'static) -> ! {
        let tell = Arc::new(tell);
        let (leave, left) = mpsc::sync_channel::<()>(1);
        loop {
            let (stream, peer) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Whoever has it now goes on.
                    tell(&format!("cannot accept a connection: {error}"));
                    let _ = left.recv_timeout(ACCEPT_AGAIN);
                    continue;
                }
            };
            let (seat, tell) = (self.seat.clone(), tell.clone());
            if seat.strangers.fetch_add(1, Ordering::Relaxed) >= STRANGERS_MAX {
                seat.strangers.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let leave = leave.clone();
            thread::spawn(move || {
                if let Err(error) = seat.receive(stream, peer, &*tell) {
                    tell(&format!("{peer}: {error:#}"));
                }
                // One that is told already is enough.
                let _ = leave.try_send(());
            });
        }
    }
}

impl Seat {
    fn receive(&self, mut stream: TcpStream, peer: SocketAddr, tell: &dyn Fn(&str)) -> Result<()> {
        let hello = hello(&stream);
        let taken = hello.and_then(|hello| self.admit(hello, peer));
        self.strangers.fetch_sub(1, Ordering::Relaxed);
        let version = env!("CARGO_PKG_VERSION").to_owned();
        match taken {
            Ok(()) => {
                let machine = Machine::here(None).json();
                let welcome = Answer::Welcome { version, machine };
                frame::write(&mut stream, &welcome).inspect_err(|_| self.leave())?
            }
            Err(error) => {
                // Whoever is refused and does not listen needs not be told.
                let _ = frame::write(&mut stream, &Answer::Refused { why: format!("{error:#}") });
                return Err(error.context("refused"));
            }
        }
        tell(&format!("{peer}: this worker is its own now"));
        let served = self.serve(stream);
        self.leave();
        served.context("the coordinator is lost: what it had done was ended")?;
        tell(&format!("{peer}: it is done"));
        Ok(())
    }

    fn admit(&self, hello: Order, peer: SocketAddr) -> Result<()> {
        let Order::Hello { form, version, token } = hello else { bail!("it did not say hello") };
        let ours = env!("CARGO_PKG_VERSION");
        ensure!(
            form == FORM && version == ours,
            "it is version {version} of this program, and this one is {ours}"
        );
        ensure!(!self.token.is_set() || token.is_some_and(|token| self.token.is(&token)), "wrong token");
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(other) = *taken {
            bail!("it works for {other}");
        }
        *taken = Some(peer);
        Ok(())
    }

    fn leave(&self) {
        *self.taken.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn serve(&self, mut stream: TcpStream) -> Result<()> {
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        let link = Arc::new(Mutex::new(stream.try_clone()?));
        let (living, gone) = mpsc::channel::<()>();
        let beating = link.clone();
        thread::spawn(move || {
            while gone.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout)
                && say(&beating, &Answer::Alive).is_ok()
            {}
        });
        let mut session = Session { link, export: self.export.clone(), part: None };
        let done = self.obey(&mut stream, &mut session);
        drop(living);
        session.end();
        done
    }

    fn obey(&self, stream: &mut TcpStream, session: &mut Session) -> Result<()> {
        loop {
            let order = match frame::read(stream, MESSAGE_BYTES_MAX) {
                Ok(Some(order)) => order,
                Ok(None) => {
                    ensure!(!session.works(), "it went away in the middle of a run");
                    return Ok(());
                }
                Err(error) if is_silence(&error) => bail!("it said nothing for {} s", SILENCE_MAX.as_secs()),
                Err(error) => return Err(error),
            };
            match order {
                Order::Hello { .. } => bail!("it said hello twice"),
                Order::Ping { number } => say(&session.link, &Answer::Pong { number, at: self.clock.now() })?,
                Order::Alive => {}
                Order::Prepare(job) => session.prepare(*job)?,
                Order::Start { at, shift_ns } => {
                    session.tell_part(|part| {
                        part.start.send(Start { at, shift: Shift::of(shift_ns) }).is_ok()
                    })?;
                }
                Order::End { ends } => session.tell_part(|part| part.ends.send(ends).is_ok())?,
                Order::Stop => {
                    if let Some(part) = &session.part {
                        part.stop.store(true, Ordering::Relaxed);
                    }
                }
                Order::Abandon => {
                    session.end();
                    say(&session.link, &Answer::Abandoned)?;
                }
            }
        }
    }
}

fn hello(stream: &TcpStream) -> Result<Order> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(SILENCE_MAX))?;
    let mut stream = Until { stream, deadline: Instant::now() + HELLO_MAX };
    frame::read(&mut stream, HELLO_BYTES_MAX)?.context("it went away")
}

/// What comes until then, however slowly.
struct Until<'a> {
    stream: &'a TcpStream,
    deadline: Instant,
}

impl Read for Until<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(into)
    }
}

fn say(link: &Mutex<TcpStream>, answer: &Answer) -> Result<()> {
    frame::write(&mut *link.lock().unwrap_or_else(PoisonError::into_inner), answer)
}

/// What a coordinator has done here.
struct Session {
    link: Arc<Mutex<TcpStream>>,
    export: Option<Arc<Export>>,
    part: Option<Part>,
}

/// A part of a run, on a thread of its own.
struct Part {
    start: Sender<Start>,
    ends: Sender<Ends>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Session {
    fn works(&self) -> bool {
        self.part.as_ref().is_some_and(|part| !part.thread.is_finished())
    }

    fn prepare(&mut self, job: Job) -> Result<()> {
        ensure!(!self.works(), "it has this worker do two things at a time");
        self.end();
        let (start, starts) = mpsc::channel();
        let (ends, ended) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let (link, export, stopped) = (self.link.clone(), self.export.clone(), stop.clone());
        let thread = thread::spawn(move || {
            let told = Told { start: starts, ends: ended, stop: &stopped };
            let work = || perform(job, &told, &link, export.as_deref());
            let done =
                catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| bail!("it panicked; see its output"));
            if let Err(error) = done {
                // If this does not arrive, nobody is there to whom it matters.
                let _ = say(&link, &Answer::Failed { why: format!("{error:#}") });
            }
        });
        self.part = Some(Part { start, ends, stop, thread });
        Ok(())
    }

    /// Tells what is going on here; not if it failed meanwhile, of which the other side hears by itself.
    fn tell_part(&self, tell: impl FnOnce(&Part) -> bool) -> Result<()> {
        let part = self.part.as_ref().context("it had nothing prepared")?;
        let _is_heard = tell(part);
        Ok(())
    }

    /// Ends what is still done.
    fn end(&mut self) {
        let Some(Part { start, ends, stop, thread }) = self.part.take() else { return };
        stop.store(true, Ordering::Relaxed);
        drop((start, ends));
        // It was caught if it panicked.
        let _ = thread.join();
    }
}

/// Does a part of a run, and tells of it as it goes on.
fn perform(job: Job, told: &Told<'_>, link: &Mutex<TcpStream>, export: Option<&Export>) -> Result<()> {
    if let Some(export) = export {
        export.on_run(&job.workload.name, &job.driver.name);
    }
    let done = job.perform(told, &mut |progress| match progress {
        Progress::Ready => say(link, &Answer::Ready),
        Progress::Window(window) => {
            if let Some(export) = export {
                export.on_window(window);
            }
            say(link, &Answer::Second(Box::new(Tick::of(window))))
        }
        Progress::Sent(sent) => say(link, &Answer::Sent(Box::new(sent.clone()))),
        Progress::Done(Done { written, read, seen }) => {
            for (subscription, (checker, records)) in (0..).zip(seen) {
                // How many there were is told once.
                for (at, piece) in checker.into_pieces().enumerate() {
                    let records = if at == 0 { records } else { 0 };
                    say(link, &Answer::Seen { subscription, records, piece: Box::new(piece) })?;
                }
            }
            say(link, &Answer::Done { written: Box::new(written), read: Box::new(read) })
        }
    });
    if let Some(export) = export {
        export.on_done(done.is_err());
    }
    done
}
