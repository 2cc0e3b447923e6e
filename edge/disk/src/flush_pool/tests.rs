use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{self, Receiver, Sender};

use super::*;

/// A flush that tells when it begins and ends when it is told to.
struct Gate {
    began: Sender<()>,
    may_end: Mutex<Receiver<()>>,
    runs: AtomicUsize,
}

impl FlushJob for Gate {
    fn flush(&self) {
        self.runs.fetch_add(1, Ordering::SeqCst);
        self.began.send(()).unwrap();
        let _ = self.may_end.lock().unwrap().recv();
    }
}

fn gate() -> (Arc<Gate>, Receiver<()>, Sender<()>) {
    let (began, begins) = mpsc::channel();
    let (end, may_end) = mpsc::channel();
    (Arc::new(Gate { began, may_end: may_end.into(), runs: AtomicUsize::new(0) }), begins, end)
}

fn weak<J: FlushJob + 'static>(job: &Arc<J>) -> Weak<dyn FlushJob> {
    let job: Arc<dyn FlushJob> = job.clone();
    Arc::downgrade(&job)
}

#[test]
fn those_who_ask_meanwhile_share_the_next_flush() {
    let pool = FlushPool::start("d0", 2, |_| {}).unwrap();
    let (job, begins, end) = gate();
    let ticket = pool.register(weak(&job));
    assert!(!ticket.ask());
    begins.recv().unwrap();
    // It runs: the next one to ask needs another, all others share that one.
    assert!(!ticket.ask());
    for _ in 0..100 {
        assert!(ticket.clone().ask());
    }
    end.send(()).unwrap();
    begins.recv().unwrap();
    end.send(()).unwrap();
    pool.stop();
    assert_eq!(job.runs.load(Ordering::SeqCst), 2);
}

#[test]
fn a_job_that_waits_is_queued_once() {
    let pool = FlushPool::start("d0", 1, |_| {}).unwrap();
    let (busy, begins, end) = gate();
    pool.register(weak(&busy)).ask();
    begins.recv().unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let job = Arc::new({
        let runs = runs.clone();
        move || {
            runs.fetch_add(1, Ordering::SeqCst);
        }
    });
    let ticket = pool.register(weak(&job));
    assert_eq!((0..50).filter(|_| !ticket.ask()).count(), 1);
    assert_eq!(pool.waiting(), 1);
    end.send(()).unwrap();
    pool.stop();
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[test]
fn a_job_is_never_run_twice_at_once() {
    let pool = FlushPool::start("d0", 4, |_| {}).unwrap();
    let (inside, runs) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let job = Arc::new({
        let (inside, runs) = (inside.clone(), runs.clone());
        move || {
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
            std::thread::yield_now();
            runs.fetch_add(1, Ordering::SeqCst);
            inside.fetch_sub(1, Ordering::SeqCst);
        }
    });
    let ticket = pool.register(weak(&job));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..1_000).for_each(|_| _ = ticket.ask()));
        }
    });
    pool.stop();
    assert!((1..=4_000).contains(&runs.load(Ordering::SeqCst)));
    assert_eq!(inside.load(Ordering::SeqCst), 0);
}

/// What was written before asking is covered by the flush that is awaited.
#[test]
fn a_flush_covers_what_was_written_before_it_was_asked_for() {
    let pool = FlushPool::start("d0", 2, |_| {}).unwrap();
    let written = Arc::new(AtomicUsize::new(0));
    let durable = Arc::new((Mutex::new(0), Condvar::new()));
    let job = Arc::new({
        let (written, durable) = (written.clone(), durable.clone());
        move || {
            // Relaxed on purpose: the ticket orders it.
            let end = written.load(Ordering::Relaxed);
            let mut upto = durable.0.lock().unwrap();
            *upto = end.max(*upto);
            durable.1.notify_all();
        }
    });
    let ticket = pool.register(weak(&job));
    for end in 1..=2_000 {
        written.store(end, Ordering::Relaxed);
        ticket.ask();
        drop(durable.1.wait_while(durable.0.lock().unwrap(), |upto| *upto < end).unwrap());
    }
}

#[test]
fn every_flush_is_measured_and_a_panic_stays_with_its_job() {
    let measured = Arc::new(AtomicUsize::new(0));
    let pool = FlushPool::start("d0", 1, {
        let measured = measured.clone();
        move |_| {
            measured.fetch_add(1, Ordering::SeqCst);
        }
    })
    .unwrap();
    let broken = Arc::new(|| panic!("on purpose"));
    let (job, begins, end) = gate();
    pool.register(weak(&broken)).ask();
    pool.register(weak(&job)).ask();
    begins.recv().unwrap();
    end.send(()).unwrap();
    pool.stop();
    assert_eq!(measured.load(Ordering::SeqCst), 2);
}

#[test]
fn a_dropped_job_is_not_run() {
    let pool = FlushPool::start("d0", 1, |_| {}).unwrap();
    let job = Arc::new(|| panic!("nobody asked"));
    let ticket = pool.register(weak(&job));
    drop(job);
    ticket.ask();
    pool.stop();
    ticket.ask();
}
