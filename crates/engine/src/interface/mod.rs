//! What users of a cache call: one family of traits, so that a method has one name and one documentation
//! wherever it is.
//!
//! | trait | for | implemented by |
//! |---|---|---|
//! | [`Layer`](crate::Layer) | a buffer pool above the cache: it fetches and evicts pages | both caches, the disk alone, the lab's models |
//! | [`Deletes`] | an owner that names dead pages | both caches, and a front in another process |
//! | [`PageCache`] | a caller without memory of its own for pages: a volume | both caches |
//!
//! A front in another process ([`SharedFront`](crate::SharedFront)) is no `Layer`: its owner reads and writes
//! the disk, so `fetch` may have nothing and `evict` may give the page back.

mod around_write;
mod deletes;
mod looked_up;
mod page_cache;

pub use around_write::AroundWrite;
pub use deletes::Deletes;
pub use looked_up::{FLASH_READ_PAGES_MAX, LookedUp};
pub use page_cache::PageCache;
