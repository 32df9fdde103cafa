//! What all translation layers have in common.

use crate::counters::Counters;
use crate::id::Lpn;
use crate::nand::Nand;

/// A flash translation layer: logical pages on a chip that is programmed page by page and erased block by
/// block.
///
/// # Panics
/// All methods, for a page that is not below [`Ftl::logical_pages`].
pub trait Ftl {
    /// Size of the logical address space, pages.
    fn logical_pages(&self) -> u32;
    /// Whether `page` has content.
    fn is_mapped(&self, page: Lpn) -> bool;
    /// Reads a page; whether it had content.
    fn read(&mut self, page: Lpn) -> bool;
    /// Writes a page. Answers with the pages that were dropped to make room; only a layer made for caches
    /// (silent eviction) ever drops any, and its answer may name `page` itself: then it was not taken.
    fn write(&mut self, page: Lpn) -> &[Lpn];
    /// The page's content is not needed any more (trim). A page without content stays without.
    fn discard(&mut self, page: Lpn);
    /// The chip, with its wear.
    fn nand(&self) -> &Nand;
    /// The work so far.
    fn counters(&self) -> Counters;
    /// Asserts the layer's invariants.
    ///
    /// # Panics
    /// If one is broken.
    fn check(&self);
}
