//! Writes that enter the cache at once, copies that are made void before writes past the flash, and what is
//! made durable before a write would wait for it.

#[path = "support/journalled.rs"]
mod journalled;
mod support;

use entresol_block::{SteerOptions, Volume};
use entresol_core::Mode;
use journalled::{PAGE, Parts, filled, simulate};

const BYTES: u64 = PAGE as u64;
const PAGES: u64 = 90;
const JOURNAL_BYTES: u64 = 400 << 10;

fn parts(mode: Mode) -> Parts {
    Parts::new(mode, PAGES, JOURNAL_BYTES)
}

fn is_in(volume: &Volume, page: u64, version: u64) -> bool {
    let mut found = filled(0);
    volume.read(page * BYTES, &mut found).unwrap();
    found == filled(version)
}

/// They are visible, and a killed program loses none.
#[test]
fn a_write_that_enters_at_once_outlives_the_program() {
    let parts = parts(Mode::WriteBack);
    simulate(1, || {
        let volume = parts.create();
        assert!(!volume.try_write(0, &filled(1), false), "the label is to say first that pages may be dirty");
        volume.write(20 * BYTES, &filled(1), false).unwrap();
        for page in 0..8 {
            assert!(volume.try_write(page * BYTES, &filled(page + 1), false), "page {page}");
            assert!(is_in(&volume, page, page + 1));
        }
        assert!(!volume.try_write(BYTES / 2, &filled(9), false), "it is no whole page");
        assert!(!volume.try_write(PAGES * BYTES, &filled(9), false), "it is beyond the end");
        std::mem::forget(volume);
    });
    simulate(2, || {
        let (volume, notices) = parts.open();
        assert!((0..8).all(|page| is_in(&volume, page, page + 1)), "{notices:?}");
        volume.close().unwrap();
    });
}

/// A write that bypasses the cache enters it only where the page is dirty. In other modes none does.
#[test]
fn what_bypasses_the_cache_enters_it_only_over_a_dirty_page() {
    simulate(1, || {
        let volume = parts(Mode::WriteBack).create();
        volume.steer(SteerOptions { sequential_bypass_bytes: 1, ..SteerOptions::default() });
        assert!(!volume.try_write(0, &filled(1), true), "the cache has no copy");
        volume.write(0, &filled(1), false).unwrap();
        assert!(volume.try_write(0, &filled(2), true), "the cache has the only copy");
        assert!(is_in(&volume, 0, 2));
        volume.close().unwrap();
        let volume = parts(Mode::WriteThrough).create();
        assert!(!volume.try_write(0, &filled(1), false), "it waits for the disk");
        volume.close().unwrap();
    });
}

/// Only clean copies are made void: a dirty one stays, and is what a killed program leaves.
#[test]
fn a_dirty_copy_is_not_made_void() {
    let parts = parts(Mode::WriteBack);
    simulate(1, || {
        let volume = parts.create();
        volume.write(0, &filled(1), false).unwrap();
        volume.flush().unwrap();
        volume.void_copies((0..4).map(|page| (page * BYTES, BYTES)));
        volume.flush().unwrap();
        assert!(is_in(&volume, 0, 1));
        std::mem::forget(volume);
    });
    simulate(2, || {
        let (volume, _) = parts.open();
        assert!(is_in(&volume, 0, 1));
        volume.close().unwrap();
    });
}

/// Half of a journal is used: it is emptied before a write has to wait for that.
#[test]
fn a_journal_that_is_half_full_is_settled() {
    simulate(1, || {
        let volume = parts(Mode::WriteBack).create();
        assert!(!volume.is_settling_due());
        let mut pages = (0..PAGES).cycle();
        while !volume.is_settling_due() {
            volume.write(pages.next().unwrap() * BYTES, &filled(1), false).unwrap();
        }
        volume.settle().unwrap();
        assert!(!volume.is_settling_due());
        volume.close().unwrap();
    });
}
