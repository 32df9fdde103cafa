//! The journal: acknowledged writes that may not be durable, for the program after a kill of this one.

use super::{Cache, CacheOptions, Volume, VolumeError};
use crate::journal::{Journal, Kind, Left, LeftError, Origin, Record};
use entresol_core::PageId;
use entresol_device::{Device, DeviceError};
use entresol_engine::{
    AlignedBuffer, Binding, Layer, Mode, Session, TierError, Uuid, disk_binding, flash_has_failed,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A cache that is served without a journal: none from before may be carried out later. True: the label named
/// one.
pub(crate) fn follow_no_journal(layer: &dyn Layer) -> Result<bool, TierError> {
    if layer.binding()?.log == Uuid::NIL {
        return Ok(false);
    }
    layer.bind_log(Uuid::NIL, Session::default()).map(|()| true)
}

/// The notice for the owner if the label names a journal that is gone. `same_boot`: whether the machine was
/// started since; `None`: not known.
pub(crate) fn journal_is_gone(same_boot: Option<bool>) -> String {
    let what = match same_boot {
        Some(true) => {
            "a server was killed, and the journal of its acknowledged writes is gone, though the machine was not started \
             since: those that were not flushed may be missing; check what is on the volume (fsck, or the check of the program \
             that uses it)"
        }
        Some(false) => {
            "the machine was started anew while a server ran (a power failure, say), and the journal in memory is gone \
             with it: acknowledged writes that were not flushed may be missing, as after a power failure of any disk; \
             what was flushed is there"
        }
        None => {
            "a server was killed, or the machine failed, and the journal that the disk's label names is gone: \
             acknowledged writes that were not flushed may be missing; what was flushed is there. If the machine did \
             not fail, check what is on the volume"
        }
    };
    what.to_owned()
}

fn is_same_boot(binding: &Binding, boot: u64) -> Option<bool> {
    (binding.session.nonce != 0 && boot != 0).then_some(binding.session.nonce == boot)
}

pub(super) fn in_tier(error: DeviceError) -> TierError {
    TierError::Refused(format!("journal: {error}"))
}

impl Volume {
    /// Whether the open has not found the journal that the label named: acknowledged writes that were not
    /// flushed may be missing.
    pub fn journal_missing(&self) -> bool {
        self.at_start.journal_missing
    }

    /// As [`Volume::open`], with the journal on `journal`, a device that outlives the program, but need not
    /// outlive a power failure: its records of before the machine's last start do not count. The acknowledged
    /// writes of an earlier program are carried out first, durably.
    ///
    /// # Errors
    /// As [`Volume::open`]; [`VolumeError::NotOurs`] if the journal is of another volume (nothing was changed
    /// then); the volume's, if the writes cannot be carried out: they stay in the journal.
    pub fn open_with_journal(
        disk: Arc<dyn Device>,
        label: Arc<dyn Device>,
        flash: Arc<dyn Device>,
        options: impl Into<CacheOptions>,
        (journal, origin): (Arc<dyn Device>, impl Into<Origin>),
    ) -> Result<(Self, Vec<String>), VolumeError> {
        let (journal, left) = Self::left(journal, origin, &*label)?;
        let mut options = options.into();
        if let CacheOptions::Pages(options) = &mut options {
            options.flushed = journal.flushed();
        }
        let (volume, notices) = Self::open_as_it_is(disk, label, flash, options)?;
        volume.go_on_from(journal, left, notices)
    }

    /// As [`Volume::open_without_cache`], with the journal: its records are carried out if the flash has
    /// failed, and refused otherwise.
    ///
    /// # Errors
    /// As [`Volume::open_without_cache`] and [`Volume::open_with_journal`].
    pub fn open_without_cache_with_journal(
        disk: Arc<dyn Device>,
        label: Arc<dyn Device>,
        options: impl Into<CacheOptions>,
        (journal, origin): (Arc<dyn Device>, impl Into<Origin>),
    ) -> Result<(Self, Vec<String>), VolumeError> {
        let (journal, left) = Self::left(journal, origin, &*label)?;
        let has_failed = flash_has_failed(&*label)?;
        if let (Left::Records(records), _) = &left
            && !has_failed
        {
            return Err(VolumeError::Tier(TierError::Refused(format!(
                "the journal has {} writes that a killed server had acknowledged, and they are carried out through the \
                 cache: set `cache = true` and start the server once, or run `entresol volume detach CONFIG`",
                records.len()
            ))));
        }
        let (volume, notices, _) = Self::open_disk_alone(disk, label, options.into(), has_failed)?;
        volume.go_on_from(journal, left, notices)
    }

    /// The journal on this device, and its records for the disk with this label, before anything is changed.
    fn left(
        journal: Arc<dyn Device>,
        origin: impl Into<Origin>,
        label: &dyn Device,
    ) -> Result<(Journal, (Left, Option<bool>)), VolumeError> {
        let journal = Journal::open(journal, origin).map_err(VolumeError::Journal)?;
        // The open that follows tells of a label that cannot be read.
        let Some(binding) = disk_binding(label)? else { return Ok((journal, (Left::Nothing, None))) };
        let left = journal.left(binding.log).map_err(|error| match error {
            LeftError::Device(error) => VolumeError::Journal(error),
            LeftError::NotOurs(error) => VolumeError::NotOurs(error),
        })?;
        let same_boot = is_same_boot(&binding, journal.boot_number());
        Ok((journal, (left, same_boot)))
    }

    /// Carries out the records of an earlier program, and keeps the journal from now on.
    fn go_on_from(
        mut self,
        journal: Journal,
        (left, same_boot): (Left, Option<bool>),
        mut notices: Vec<String>,
    ) -> Result<(Self, Vec<String>), VolumeError> {
        let stale = |count| {
            format!(
                "the journal has {count} writes of an earlier time: the volume was opened without it since, and they were \
                 not carried out"
            )
        };
        match left {
            Left::Nothing => {}
            Left::Records(records) => notices.push(self.carry_out_left(&journal, &records)?),
            Left::Stale(count) => notices.push(stale(count)),
            Left::Missing(count) => {
                if count > 0 {
                    notices.push(stale(count));
                }
                notices.push(self.lacks_its_journal(same_boot));
            }
        }
        self.keep(journal)?;
        Ok((self, notices))
    }

    /// Remembers that the journal is gone that the label names. Returns the notice for the owner.
    pub(super) fn lacks_its_journal(&mut self, same_boot: Option<bool>) -> String {
        self.at_start.journal_missing = true;
        journal_is_gone(same_boot)
    }

    /// Keeps a journal on `journal` from now on. Its content is dropped: the volume was just made.
    ///
    /// # Errors
    /// The device's, or those of the disk's label.
    pub fn keep_journal(
        &mut self,
        journal: Arc<dyn Device>,
        origin: impl Into<Origin>,
    ) -> Result<(), VolumeError> {
        self.keep(Journal::open(journal, origin).map_err(VolumeError::Journal)?)
    }

    fn keep(&mut self, journal: Journal) -> Result<(), VolumeError> {
        self.journal = Some(journal);
        let held = self.cache.read();
        match &*held {
            Some(cache) => Ok(self.begin_journal(&*cache.tier, cache.options.mode())?),
            None => self.end_journal().map_err(VolumeError::Journal),
        }
    }

    /// The journal begins anew, for this cache: everything is durable. The label names it only in the mode
    /// that needs it, with the machine's start.
    pub(super) fn begin_journal(&self, tier: &dyn Layer, mode: Mode) -> Result<(), TierError> {
        let journal = self.journal.as_ref().filter(|_| mode == Mode::WriteBack);
        let Some(journal) = journal else {
            // Not before: until then the label names the journal's records.
            follow_no_journal(tier)?;
            return self.end_journal().map_err(in_tier);
        };
        let life = journal.begin().map_err(in_tier)?;
        tier.bind_log(life, Session { number: 0, nonce: journal.boot_number() })
    }

    /// The volume ends, and everything is durable: the next open misses no journal.
    pub(super) fn unname_journal(&self, tier: &dyn Layer) -> Result<(), VolumeError> {
        let Some(journal) = &self.journal else { return Ok(()) };
        // None of them is found by an open after this, whatever the label says.
        journal.release(journal.mark(), None).map_err(VolumeError::Journal)?;
        follow_no_journal(tier)?;
        Ok(())
    }

    /// The journal has nothing from now on: everything is durable, and the disk alone serves.
    pub(super) fn end_journal(&self) -> Result<(), DeviceError> {
        self.journal.as_ref().map_or(Ok(()), Journal::end)
    }

    /// A write is visible, its pages are held, and it is to be acknowledged.
    pub(super) fn record(
        &self,
        cache: &Cache,
        kind: Kind,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), VolumeError> {
        let data = if kind == Kind::Data { bytes } else { &[] };
        self.append(cache, (kind, offset, bytes.len() as u64), data)
    }

    /// The disk has these bytes: earlier records of them are void.
    pub(super) fn record_elsewhere(
        &self,
        cache: &Cache,
        offset: u64,
        length: u64,
    ) -> Result<(), VolumeError> {
        self.append(cache, (Kind::Elsewhere, offset, length), &[])
    }

    /// As [`Volume::record_elsewhere`], without waiting for room. False: it could not be recorded.
    pub(super) fn try_record_elsewhere(&self, offset: u64, length: u64) -> bool {
        let append = |journal: &Journal| journal.append(Kind::Elsewhere, offset, length, &[]);
        self.journal.as_ref().is_none_or(|journal| append(journal).unwrap_or(false))
    }

    /// A write is visible, its pages are held, and it is to be acknowledged in write-back mode. Never waits
    /// for room. False: it could not be recorded.
    pub(super) fn try_record(&self, offset: u64, data: &[u8]) -> bool {
        let append = |journal: &Journal| journal.append(Kind::Data, offset, data.len() as u64, data);
        self.journal.as_ref().is_none_or(|journal| append(journal).unwrap_or(false))
    }

    fn append(
        &self,
        cache: &Cache,
        (kind, offset, length): (Kind, u64, u64),
        data: &[u8],
    ) -> Result<(), VolumeError> {
        let Some(journal) = &self.journal else { return Ok(()) };
        if cache.options.mode() != Mode::WriteBack {
            return Ok(());
        }
        while !journal.append(kind, offset, length, data).map_err(VolumeError::Journal)? {
            self.flush_to(Some(cache))?;
        }
        Ok(())
    }

    /// The writes before this mark are durable.
    pub(super) fn release(
        &self,
        cache: Option<&Cache>,
        visible: Option<crate::journal::Mark>,
    ) -> Result<(), VolumeError> {
        let (Some(journal), Some(visible)) = (&self.journal, visible) else { return Ok(()) };
        let flushed = cache.and_then(|cache| cache.tier.flushed());
        journal.release(visible, flushed).map_err(VolumeError::Journal)
    }

    /// Carries out the acknowledged writes of an earlier program. Returns a message for the owner.
    fn carry_out_left(&self, journal: &Journal, records: &[Record]) -> Result<String, VolumeError> {
        let held = self.cache.read();
        let mut lost = BTreeSet::new();
        for (at, record) in records.iter().enumerate() {
            if let Some(cache) = &*held
                && record.kind == Kind::Data
            {
                self.carry_out_again(cache, journal, record, &records[at + 1..], &mut lost)?;
            }
        }
        self.flush_to(held.as_ref())?;
        let mut notice = format!(
            "a server was killed: {} writes that it had acknowledged were carried out again",
            records.len()
        );
        if !lost.is_empty() {
            let pages: Vec<String> = lost
                .iter()
                .map(|page| format!("{} bytes at {}", self.page_bytes, page * self.page_bytes))
                .collect();
            notice += &format!("; not those of parts of pages that are lost: {}", pages.join(", "));
        }
        Ok(notice)
    }

    /// Writes what `record` says, but for pages that were written past the flash `later`: the disk has them.
    /// A part of a page that cannot be read cannot be written. The page is lost then, and is named: its
    /// version of before the write, which may be readable another time, is not to follow an acknowledged one.
    fn carry_out_again(
        &self,
        cache: &Cache,
        journal: &Journal,
        record: &Record,
        later: &[Record],
        lost: &mut BTreeSet<u64>,
    ) -> Result<(), VolumeError> {
        let mut data = AlignedBuffer::new(record.length as usize);
        journal.data(record, &mut data).map_err(VolumeError::Journal)?;
        for piece in self.pieces_of(record.offset, record.length, 1) {
            let at = piece.page * self.page_bytes + piece.within as u64;
            let is_on_disk = |later: &Record| {
                later.kind == Kind::Elsewhere && (later.offset..later.offset + later.length).contains(&at)
            };
            if !later.iter().any(is_on_disk) {
                match self.write_some(Some(cache), at, &data[piece.place], false) {
                    Err(VolumeError::Tier(TierError::Lost { .. } | TierError::Damaged { .. })) => {
                        cache.tier.give_up(PageId(piece.page))?;
                        lost.insert(piece.page);
                    }
                    written => {
                        written?;
                        lost.remove(&piece.page);
                    }
                }
            }
        }
        Ok(())
    }
}
