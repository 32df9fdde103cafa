//! No list and no assertions: every type is empty, and every function does nothing.

use crate::sync::{Rank, Wait};
use std::marker::PhantomData;

pub(crate) struct List;

impl List {
    pub(crate) const EMPTY: List = List;
}

#[inline(always)]
pub(crate) fn swap(_: &mut List) {}

#[derive(Debug)]
pub(crate) struct Tag;

impl Tag {
    #[inline(always)]
    pub(crate) const fn new(_: Rank, _: Wait) -> Tag {
        Tag
    }
    #[inline(always)]
    pub(crate) fn may_wait(&self) {}
    #[inline(always)]
    pub(crate) fn taken(&self) {}
    #[inline(always)]
    pub(crate) fn released(&self) {}
    #[inline(always)]
    pub(crate) fn hold(&self) -> TagHold<'_> {
        TagHold(PhantomData)
    }
}

#[derive(Debug)]
pub(crate) struct TagHold<'a>(PhantomData<&'a Tag>);

/// Something that is held and waited for as a lock is, but is none of this module's. Nothing in this build.
#[derive(Debug)]
pub struct Hold;

impl Hold {
    /// Does nothing in this build.
    #[inline(always)]
    pub fn may_wait(_: Rank) {}

    /// Does nothing in this build.
    #[inline(always)]
    pub fn taken(_: Rank) -> Hold {
        Hold
    }
}

#[inline(always)]
pub(crate) fn assert_may_park() {}

/// Does nothing in this build.
#[inline(always)]
pub fn assert_nothing_held(_: &str) {}

/// `None` in this build, which does not know.
#[inline(always)]
pub fn allocation_is_forbidden() -> Option<Rank> {
    None
}

/// Runs `check`.
#[inline(always)]
pub fn allowing_allocation<T>(check: impl FnOnce() -> T) -> T {
    check()
}

const _: () =
    assert!(size_of::<(List, Tag, TagHold<'_>, Hold)>() == 0, "a build without assertions pays nothing");
