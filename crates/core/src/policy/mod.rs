//! The policies: pure decisions. A policy is one file here, one row of the table below, and one row in
//! `docs/POLICIES.md`. It reads the directory, keeps its notes in the region, and never touches bytes or
//! devices.

mod clock;
mod exadata;
mod face;
mod facts;
mod fifo;
mod flashcache;
mod ghost;
mod glb;
mod interface;
mod kind;
mod lc;
mod loc;
mod lru;
mod memory;
mod one_list;
mod reuse;
mod s3_fifo;
pub(crate) mod sce;
mod shared;
mod sieve;
mod state;
mod tac;

pub use facts::{
    Directory, Facts, Lists, LogFacts, Placement, PlacementFacts, SecondChances, SlotFacts, Survives,
};
pub(crate) use interface::{Decision, LogPolicy, Offer, Policy, SlotPolicy};
pub use kind::PolicyKind;
pub(crate) use kind::{match_policy, of_placement, policies, with_policy};
pub(crate) use memory::Memory;
pub(crate) use one_list::ONLY_LIST;
use one_list::OneList;
pub(crate) use state::{PolicyState, ask, ask_log, ask_slots, match_state, misplaced};

/// The table of policies: name in the code, placement, number on flash, and file, in the order of the papers'
/// tables. [`PolicyKind`] and the dispatch to a policy's code ([`with_policy`], [`ask`]) are generated from
/// it. A row keeps its number, and a new row takes a number that no policy ever had.
///
/// The macro `$then` gets the rows, after `$arguments`.
macro_rules! policy_table {
    ([$($then:tt)*] $($arguments:tt)*) => {
        $($then)*! { ($($arguments)*)
            /// Lazy Cleaning: LRU-2, write-back, background cleaner (FaCE §2.3, 5.3; Do et al., SIGMOD 2011).
            Lc: Slots = 4 in lc,
            /// mvFIFO, page by page (FaCE §3.3, algorithm 1).
            Face: Log = 1 in face,
            /// mvFIFO with Group Replacement (FaCE §3.3).
            FaceGr: Log = 2 in face,
            /// mvFIFO with Group Second Chance (FaCE §3.3).
            FaceGsc: Log = 3 in face,
            /// Temperature-aware caching: on entry, write-through, the coldest region is evicted (FaCE §2.3,
            /// SBP §3).
            Tac: Slots = 5 in tac,
            /// As in Oracle Exadata: on entry, clean pages only, LRU (FaCE table 2).
            Exadata: Slots = 6 in exadata,
            /// Local LRU; writes that miss go to disk (3LA §3.1, algorithm 1).
            Loc: Slots = 7 in loc,
            /// Global LRU: a page is in DRAM or on flash (3LA §3.2).
            Glb: Slots = 8 in glb,
            /// flashcache: set-associative, populated on every miss (SCE §2).
            Flashcache: Slots = 9 in flashcache,
            /// LRU, populated on every miss, for comparison.
            Lru: Slots = 10 in lru,
            /// FIFO, populated on every miss, for comparison.
            Fifo: Slots = 11 in fifo,
            /// CLOCK, populated on every miss, for comparison.
            Clock: Slots = 12 in clock,
            /// S3-FIFO, on exit, for comparison (Yang et al., SOSP 2023).
            S3Fifo: Slots = 13 in s3_fifo,
            /// By learned probabilities of reuse, in the ring.
            Reuse: Log = 14 in reuse,
            /// By learned probabilities of reuse, in place.
            ReuseSlots: Slots = 15 in reuse,
            /// SIEVE, populated on every miss, for comparison (Zhang et al., NSDI 2024).
            Sieve: Slots = 16 in sieve,
        }
    };
}
pub(crate) use policy_table;
