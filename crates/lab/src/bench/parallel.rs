//! Independent jobs on all cores.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Applies `job` to each item, on as many threads as there are cores, starting them in order. Returns the
/// results in order, or the first error in order.
pub fn map<T: Sync, R: Send>(
    items: &[T],
    job: impl Fn(usize, &T) -> anyhow::Result<R> + Sync,
) -> anyhow::Result<Vec<R>> {
    map_on(std::thread::available_parallelism().map_or(1, usize::from), items, job)
}

/// As [`map`], on at most so many threads.
pub fn map_on<T: Sync, R: Send>(
    threads: usize,
    items: &[T],
    job: impl Fn(usize, &T) -> anyhow::Result<R> + Sync,
) -> anyhow::Result<Vec<R>> {
    let threads = threads.min(items.len());
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<anyhow::Result<R>>>> = items.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { return };
                    *results[index].lock() = Some(job(index, item));
                }
            });
        }
    });
    results.into_iter().map(|result| result.into_inner().expect("every job has run")).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_keep_their_order_and_the_first_error_wins() {
        let squares = super::map(&[1, 2, 3], |index, n| Ok(index * 10 + n * n)).expect("no job fails");
        assert_eq!(squares, [1, 14, 29]);
        let failed = super::map(&[1, 2, 3], |_, n| if *n > 1 { anyhow::bail!("{n}") } else { Ok(()) });
        assert_eq!(failed.expect_err("two jobs fail").to_string(), "2");
    }
}
