//! Reduces a run of a store with a violation: one chapter, fewer transactions, clients and accounts.
//!
//! Invariant: the returned run has a violation, too, but perhaps another one.

use super::{Chapter, StoreRun};
use crate::torture::run::Found;

/// Maximum number of runs for this.
const ATTEMPTS_MAX: usize = 120;
/// Minimum number of accounts of a bank, so that transfers find another account.
const ACCOUNTS_MIN: u32 = 8;

/// The smallest run found, and its violation.
pub(in crate::torture) fn shrink(run: StoreRun, found: Found) -> (StoreRun, Found) {
    shrink_by(run, found, |smaller| smaller.run().1)
}

fn shrink_by(
    mut run: StoreRun,
    mut found: Found,
    go_wrong: impl Fn(&StoreRun) -> Option<Found>,
) -> (StoreRun, Found) {
    let mut attempts = 0;
    loop {
        let mut smaller = smaller(&run).into_iter().take(ATTEMPTS_MAX - attempts);
        let wrong = smaller.find_map(|smaller| {
            attempts += 1;
            go_wrong(&smaller).map(|found| (smaller, found))
        });
        let Some(wrong) = wrong else { return (run, found) };
        (run, found) = wrong;
    }
}

/// Slightly smaller runs, the fastest first.
fn smaller(run: &StoreRun) -> Vec<StoreRun> {
    let chapters = if run.only.is_none() { Chapter::ALL.as_slice() } else { &[] };
    let of_chapters = chapters.iter().map(|chapter| StoreRun { only: Some(*chapter), ..*run });
    let less = |change: fn(&mut StoreRun)| {
        let mut less = *run;
        change(&mut less);
        less
    };
    let changes: [fn(&mut StoreRun); 8] = [
        |run| run.bank.clients = 1,
        |run| run.transactions = (run.transactions / 2).max(1),
        |run| run.bank.long = 0,
        |run| run.bank.checkpoint_interval = None,
        |run| run.bank.accounts = (run.bank.accounts / 2).max(ACCOUNTS_MIN),
        |run| run.bank.clients = (run.bank.clients / 2).max(1),
        |run| run.transactions = (run.transactions - 1).max(1),
        |run| run.bank.clients = (run.bank.clients - 1).max(1),
    ];
    let changed = changes.map(less).into_iter();
    of_chapters.chain(changed).filter(|smaller| smaller != run).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::torture::fault::FaultKind;
    use crate::torture::target::Target;

    fn found() -> Found {
        Found { kind: FaultKind::Crash, message: "lost".to_owned() }
    }

    #[test]
    fn what_has_nothing_to_do_with_it_is_left_out() {
        let runs = (0..50).filter_map(|seed| StoreRun::draw(seed, &Target::all()));
        let big = runs.filter(|run| run.transactions >= 5 && run.bank.clients >= 3);
        for run in big.take(10) {
            let go_wrong = |run: &StoreRun| {
                let wrong = run.transactions >= 5
                    && run.bank.clients >= 2
                    && run.only.is_none_or(|only| only == Chapter::Damaged);
                wrong.then(found)
            };
            let (small, _) = shrink_by(run, found(), go_wrong);
            assert_eq!((small.transactions, small.bank.clients), (5, 2), "{small}");
            assert_eq!(small.only, Some(Chapter::Damaged));
            assert_eq!((small.bank.long, small.bank.accounts), (0, ACCOUNTS_MIN));
            assert!(small.to_string().contains("2 clients with 5 transactions"), "{small}");
        }
    }

    #[test]
    fn what_goes_wrong_no_more_when_it_is_smaller_stays() {
        let run = StoreRun::draw(1, &Target::all()).expect("all systems are there");
        let (same, _) = shrink_by(run, found(), |_| None);
        assert_eq!(same, run);
    }
}
