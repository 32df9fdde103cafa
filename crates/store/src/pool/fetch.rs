//! Fetches of pages from the layer into free frames.

use super::evict::Evictor;
use super::frame::FrameId;
use super::frames::{Claim, Frames};
use super::guard::{PageWrite, Pin};
use super::wal_rule::WalRule;
use crate::{PageNumber, StoreError};
use entresol_core::Lsn;
use entresol_engine::{Fetched, Layer, Source};
use entresol_format::page;
use entresol_runtime::sync::RwLockWriteGuard;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// See the module's header.
pub(super) struct Fetcher {
    layer: Arc<dyn Layer>,
    frames: Arc<Frames>,
    rule: Arc<WalRule>,
    evictor: Arc<Evictor>,
    fetched: AtomicU64,
    fetched_from_flash: AtomicU64,
}

impl Fetcher {
    pub(super) fn new(
        layer: Arc<dyn Layer>,
        frames: Arc<Frames>,
        rule: Arc<WalRule>,
        evictor: Arc<Evictor>,
    ) -> Fetcher {
        let (fetched, fetched_from_flash) = (AtomicU64::new(0), AtomicU64::new(0));
        Fetcher { layer, frames, rule, evictor, fetched, fetched_from_flash }
    }

    /// Pages fetched from the layer, and those from flash or staging.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.fetched.load(Relaxed), self.fetched_from_flash.load(Relaxed))
    }

    /// Pins a page that was not in DRAM a moment ago.
    pub(super) fn pin(&self, page: PageNumber) -> Result<Pin<'_>, StoreError> {
        let free = self.take_frame()?;
        let (pin, data) = match self.frames.claim(free, page) {
            Claim::Lost(other) => return Ok(Pin::new(&self.frames, other, page)),
            Claim::Won(data) => (Pin::new(&self.frames, free, page), data),
        };
        let mut loading = Loading { data, pin: Some(pin) };
        let fetched = self.fetch(page, &mut loading.data)?;
        self.fetched.fetch_add(1, Relaxed);
        if fetched.source != Source::Disk {
            self.fetched_from_flash.fetch_add(1, Relaxed);
        }
        Ok(loading.succeeded(fetched))
    }

    /// Latches a page exclusively without a fetch, unless another task has brought it into DRAM meanwhile.
    pub(super) fn blank(&self, page: PageNumber) -> Result<Option<PageWrite<'_>>, StoreError> {
        let free = self.take_frame()?;
        match self.frames.claim(free, page) {
            Claim::Won(mut data) => {
                data.fill(0);
                self.frames.get(free).loaded(Lsn(0), false, false);
                Ok(Some(PageWrite::blank(data, Pin::new(&self.frames, free, page))))
            }
            Claim::Lost(other) => {
                drop(Pin::new(&self.frames, other, page));
                Ok(None)
            }
        }
    }

    fn fetch(&self, page: PageNumber, data: &mut [u8]) -> Result<Fetched, StoreError> {
        let fetched = self.layer.fetch(page.id(), data)?;
        self.rule.refuse_beyond_log(page, page::lsn(data))?;
        if crate::page::is_sound(data) {
            return Ok(fetched);
        }
        Err(StoreError::Corrupt {
            place: format!("page {page}"),
            expected: "cells that lie within the page and add up".into(),
            found: "others, although its checksum is right".into(),
        })
    }

    /// Takes a free frame from the reserve, or by eviction; waits while all frames are pinned.
    fn take_frame(&self) -> Result<FrameId, StoreError> {
        loop {
            let reserve = self.frames.free().take();
            if let Some(id) = reserve {
                return Ok(id);
            }
            if let Some(id) = self.evictor.evict_one()? {
                return Ok(id);
            }
            self.frames.wait_for_one();
        }
    }
}

/// A page that is being fetched. If the fetch fails or panics, the page is removed from its frame. Tasks that
/// wait for the latch then find the frame without their page, and fetch the page themselves.
struct Loading<'a> {
    /// Released before the pin.
    data: RwLockWriteGuard<'a, Box<[u8]>>,
    /// `None`: the page has been read.
    pin: Option<Pin<'a>>,
}

impl<'a> Loading<'a> {
    fn succeeded(mut self, fetched: Fetched) -> Pin<'a> {
        let pin = self.pin.take().expect("a page is there once");
        pin.frame().loaded(page::lsn(&self.data), fetched.dirty, fetched.fdirty);
        pin
    }
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        if let Some(pin) = &self.pin {
            pin.withdraw();
        }
    }
}
