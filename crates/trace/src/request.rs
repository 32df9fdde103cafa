//! One record of a trace, in eight bytes.
//!
//! Invariant: a request names a page by its dense number; the source's name is kept in the trace.

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// What happens to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// A reference that does not change the page (fix, read).
    Read,
    /// A reference that changes the page.
    Write,
    /// The page, referenced before, was changed. No reference of its own.
    Dirty,
}

impl Op {
    /// Whether the page is referenced, not merely reported as changed.
    pub const fn is_reference(self) -> bool {
        !matches!(self, Op::Dirty)
    }
}

/// A page reference, or the news that a page was changed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Request {
    page: u32,
    /// Bits 0–1: the operation; bit 2: `continues`.
    bits: u32,
}

const _: () = assert!(size_of::<Request>() == 8, "a request is eight bytes");

const OP: u32 = 0b011;
const CONTINUES: u32 = 0b100;

impl Request {
    /// `op` on the page with dense number `page`, a host request of its own.
    pub const fn new(page: u32, op: Op) -> Self {
        let bits = match op {
            Op::Read => 0,
            Op::Write => 1,
            Op::Dirty => 2,
        };
        Self { page, bits }
    }

    /// The same, marked as part of the host request before it (which covers several pages).
    #[must_use]
    pub const fn continued(self) -> Self {
        Self { bits: self.bits | CONTINUES, ..self }
    }

    /// Dense page number, `0 .. Trace::unique_pages()`.
    #[inline]
    pub const fn page(self) -> u32 {
        self.page
    }

    /// What happens to the page.
    #[inline]
    pub const fn op(self) -> Op {
        match self.bits & OP {
            0 => Op::Read,
            1 => Op::Write,
            _ => Op::Dirty,
        }
    }

    /// Whether it belongs to the same host request as the one before.
    #[inline]
    pub const fn continues(self) -> bool {
        self.bits & CONTINUES != 0
    }

    /// Whether the page is referenced ([`Op::Read`], [`Op::Write`]), not merely reported as changed.
    #[inline]
    pub const fn is_reference(self) -> bool {
        self.bits & OP < 2
    }

    /// Whether the page is changed ([`Op::Write`], [`Op::Dirty`]).
    #[inline]
    pub const fn changes(self) -> bool {
        self.bits & OP != 0
    }
}

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {}{}", self.op(), self.page, if self.continues() { " (continues)" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_back() {
        for op in [Op::Read, Op::Write, Op::Dirty] {
            let first = Request::new(u32::MAX - 1, op);
            assert_eq!((first.page(), first.op(), first.continues()), (u32::MAX - 1, op, false));
            let next = first.continued();
            assert_eq!((next.page(), next.op(), next.continues()), (u32::MAX - 1, op, true));
            assert_eq!(next.is_reference(), op != Op::Dirty);
            assert_eq!(next.changes(), op != Op::Read);
        }
    }
}
