//! The same work for many things, on several threads.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

/// Does `work` for every item, on at most `threads` threads; the results are in no order.
pub(crate) fn on_threads<T: Sync, R: Send>(
    threads: usize,
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::with_capacity(items.len()));
    std::thread::scope(|scope| {
        for _ in 0..threads.min(items.len()) {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = work(item);
                    results.lock().push(result);
                }
            });
        }
    });
    results.into_inner()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_done_once() {
        let mut done = on_threads(4, &(0..100).collect::<Vec<_>>(), |item| item * 2);
        done.sort_unstable();
        assert_eq!(done, (0..100).map(|item| item * 2).collect::<Vec<_>>());
        assert!(on_threads(4, &[] as &[i32], |item| *item).is_empty());
    }
}
