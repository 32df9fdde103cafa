//! The PostgreSQL door: the engine with a C interface (`doors/postgres/entresol.h`), for the extension in
//! `doors/postgres/entresol`.
//!
//! Every process of a server has a front ([`entresol_engine::SharedFront`]). One background worker has the
//! back ([`entresol_engine::FlashTier`]), whose threads write the flash and the relation files.
//!
//! | file | what it does |
//! |---|---|
//! | `abi` | the C functions: pointers become values, failures become codes |
//! | `abi_worker` | those of the worker |
//! | `types` | the types of the C interface |
//! | `memory` | the segment in PostgreSQL's shared memory, and the board with it |
//! | `settings` | the engine's options from the extension's |
//! | `front` | the calls of a process: attach, read, forget, evict |
//! | `stage` | a page that a process hands down |
//! | `locate` | where on flash blocks are, for a server that reads them by itself |
//! | `report` | reports of a process: counters, durations |
//! | `worker` | the back: pulls, messages, ending |
//! | `opening` | whether a flash is the cluster's, and the cache on it |
//! | `change` | another size, mode, policy or flash while the server runs |
//! | `horizon` | from which checkpoint on the server's log replaces the flash, if that is lost |
//! | `keeper` | keeps so much of the log: brings older pages to their files |
//! | `lost` | a start of a cluster whose flash is lost |
//! | `moving` | the note of a flash that is being exchanged |
//! | `gate` | lets processes into the cache, but for the moment of a change |
//! | `now` | those of the settings that change |
//! | `counts` | what a process counts of its reads, and of pages that it hands down |
//! | `benefit` | what the cache has saved in the last hour |
//! | `manifest` | a file that names the pages in the cache |
//! | `budget` | how much may be written to flash |
//! | `notes` | which pages are durable in their files, for the next redo |
//! | `files` | relation files as the home of pages, by path |
//! | `locator` | names of relations' forks, and the paths of their files |
//! | `wal` | how far the server's log was, and whether a cluster's log is that one |
//! | `log` | the engine's log lines, for the server's log |
//! | `failure` | codes and sentences of failures |
//!
//! Invariants:
//!
//! - No panic crosses the C interface: it aborts the process, and the postmaster starts all anew.
//! - Nothing here calls back into PostgreSQL, but for one function that says whether to wait on. So no
//!   `longjmp` crosses Rust.
//! - Memory of the postmaster that children inherit has no locks and no threads of ours.
#![deny(unsafe_code)]

pub mod abi;
mod abi_worker;
mod benefit;
mod budget;
mod change;
mod counts;
mod failure;
mod files;
mod forecast;
mod front;
mod gate;
mod horizon;
mod keeper;
mod locate;
mod locator;
mod log;
mod lost;
mod manifest;
mod memory;
mod moving;
mod notes;
mod now;
mod opening;
mod report;
mod settings;
mod small_file;
mod stage;
pub mod types;
mod wal;
mod worker;
