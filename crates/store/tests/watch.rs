//! A watched store tells of every page access that it counts, and of changes after the access that made them.

mod support;

use entresol_core::PageId;
use entresol_store::{Lock, Options, PageWatcher};
use std::sync::{Arc, Mutex};
use support::{plain_store, small};

#[derive(Debug, Default)]
struct Watcher(Mutex<Vec<(PageId, bool)>>);

impl PageWatcher for Watcher {
    fn fixed(&self, page: PageId) {
        self.0.lock().expect("no other panicked").push((page, false));
    }
    fn changed(&self, page: PageId) {
        self.0.lock().expect("no other panicked").push((page, true));
    }
}

#[test]
fn every_access_is_told_once() {
    let watcher = Arc::new(Watcher::default());
    let store = plain_store(Options { watcher: Some(watcher.clone()), ..small() });
    let told = |changes: bool| -> Vec<PageId> {
        let all = watcher.0.lock().expect("no other panicked");
        all.iter().filter(|(_, changed)| *changed == changes).map(|(page, _)| *page).collect()
    };
    let table = store.create_table("t").expect("a new table");
    let mut value = Vec::new();
    for key in 0_u32..3000 {
        let mut txn = store.begin();
        txn.insert(table, &key.to_be_bytes(), &[7; 100]).expect("a new row");
        txn.commit().expect("committed");
    }
    let mut txn = store.begin();
    let changes = told(true).len();
    for key in (0_u32..3000).step_by(7) {
        assert!(txn.get(table, &key.to_be_bytes(), Lock::None, &mut value).expect("readable"));
    }
    txn.commit().expect("committed");
    assert_eq!(told(true).len(), changes, "reading changes nothing");
    assert!(changes >= 3000, "each insert changed a page: {changes}");
    let metrics = store.metrics();
    assert_eq!(told(false).len() as u64, metrics.fixes);
    assert!(metrics.fixes > metrics.hits && metrics.hits > 0, "{metrics:?}");

    // The table's pages say so, and there are several.
    let mut pages = told(true);
    pages.sort();
    pages.dedup();
    let of_table =
        pages.iter().filter(|page| store.table_of(**page).expect("readable") == Some(table)).count();
    assert!(of_table > 50 && of_table < pages.len(), "{of_table} of {}", pages.len());
}
