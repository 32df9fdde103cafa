//! Numbers of the store as types.

use entresol_core::PageId;

/// A page of the store. Its page id is object 0 and this number. Page 0 is the meta page; in a link, 0 means
/// "none".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageNumber(pub u32);

impl PageNumber {
    /// In a link: no page.
    pub const NONE: PageNumber = PageNumber(0);

    /// The page's id for the layer below.
    pub const fn id(self) -> PageId {
        PageId::new(0, self.0)
    }

    /// False for the link to no page.
    pub const fn is_some(self) -> bool {
        self.0 != 0
    }
}

impl std::fmt::Display for PageNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A transaction. 0 represents the system itself: structure modifications, which are redone but never undone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxnId(pub u64);

impl TxnId {
    /// The system itself.
    pub const SYSTEM: TxnId = TxnId(0);
}

impl std::fmt::Display for TxnId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}
