//! The journal: acknowledged writes that may not be durable, for the program after a kill of this one.

use super::{Cache, CacheOptions, Volume, VolumeError};
use crate::journal::{Journal, Kind, Left, Record};
use entresol_core::mutant;
use entresol_device::{Device, DeviceError};
use entresol_engine::{AlignedBuffer, Layer, Mode, Session, TierError, Uuid};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A cache that is served without a journal: none from before may be carried out later.
pub(crate) fn follow_no_journal(layer: &dyn Layer) -> Result<(), TierError> {
    if layer.binding()?.log == Uuid::NIL {
        return Ok(());
    }
    layer.bind_log(Uuid::NIL, Session::default())
}

pub(super) fn in_tier(error: DeviceError) -> TierError {
    TierError::Refused(format!("journal: {error}"))
}

impl Volume {
    /// As [`Volume::open`], with the journal on `journal`, a device that outlives the program, but need not
    /// outlive a power failure: what it has from before the machine's start `boot` does not count. What an
    /// earlier program has acknowledged is carried out first, durably.
    ///
    /// # Errors
    /// As [`Volume::open`]; the volume's, if the writes cannot be carried out: they stay in the journal.
    pub fn open_with_journal(
        disk: Arc<dyn Device>,
        label: Arc<dyn Device>,
        flash: Arc<dyn Device>,
        options: impl Into<CacheOptions>,
        (journal, boot): (Arc<dyn Device>, Uuid),
    ) -> Result<(Self, Vec<String>), VolumeError> {
        let journal = Journal::open(journal, boot).map_err(VolumeError::Journal)?;
        let (mut volume, mut notices) = Self::open_as_it_is(disk, label, flash, options.into())?;
        if !mutant!("journal-not-carried-out") {
            notices.extend(volume.carry_out_left(&journal)?);
        }
        volume.keep(journal)?;
        Ok((volume, notices))
    }

    /// Keeps a journal on `journal` from now on, in the machine's start `boot`. What is there is forgotten:
    /// the volume was just made.
    ///
    /// # Errors
    /// The device's, or those of the disk's label.
    pub fn keep_journal(&mut self, journal: Arc<dyn Device>, boot: Uuid) -> Result<(), VolumeError> {
        self.keep(Journal::open(journal, boot).map_err(VolumeError::Journal)?)
    }

    fn keep(&mut self, journal: Journal) -> Result<(), VolumeError> {
        self.journal = Some(journal);
        let held = self.cache.read();
        match &*held {
            Some(cache) => Ok(self.begin_journal(&*cache.tier)?),
            None => self.end_journal().map_err(VolumeError::Journal),
        }
    }

    /// The journal begins anew, for this cache: everything is durable.
    pub(super) fn begin_journal(&self, tier: &dyn Layer) -> Result<(), TierError> {
        let Some(journal) = &self.journal else { return follow_no_journal(tier) };
        let life = journal.begin().map_err(in_tier)?;
        tier.bind_log(life, Session::default())
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
        let Some(journal) = &self.journal else { return Ok(()) };
        if cache.options.mode() != Mode::WriteBack || mutant!("write-not-recorded") {
            return Ok(());
        }
        let data = if kind == Kind::Data { bytes } else { &[] };
        while !journal.append(kind, offset, bytes.len() as u64, data).map_err(VolumeError::Journal)? {
            self.flush_to(Some(cache))?;
        }
        Ok(())
    }

    /// What was visible at this mark is durable.
    pub(super) fn release(&self, visible: Option<crate::journal::Mark>) -> Result<(), VolumeError> {
        let (Some(journal), Some(visible)) = (&self.journal, visible) else { return Ok(()) };
        let until = if mutant!("journal-released-beyond-flush") { journal.mark() } else { visible };
        journal.release(until).map_err(VolumeError::Journal)
    }

    /// Carries out what an earlier program has acknowledged. Returns a message for the owner, if there was
    /// something.
    fn carry_out_left(&self, journal: &Journal) -> Result<Option<String>, VolumeError> {
        let held = self.cache.read();
        let Some(cache) = &*held else { return Ok(None) };
        let named = cache.tier.binding()?.log;
        let records = match journal.left(named).map_err(VolumeError::Journal)? {
            Left::Nothing => return Ok(None),
            Left::Foreign(count) => {
                return Ok(Some(format!(
                    "the journal has {count} writes of another volume, or of an earlier time: they were not carried out"
                )));
            }
            Left::Records(records) => records,
        };
        let mut lost = BTreeSet::new();
        for (at, record) in records.iter().enumerate() {
            if record.kind == Kind::Data {
                self.carry_out_again(cache, journal, record, &records[at + 1..], &mut lost)?;
            }
        }
        self.flush_to(Some(cache))?;
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
        Ok(Some(notice))
    }

    /// Writes what `record` says, but for pages that were written past the flash `later`: the disk has them. A
    /// part of a page that is lost cannot be written: the page stays lost, and is named.
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
                        lost.insert(piece.page);
                    }
                    written => written?,
                }
            }
        }
        Ok(())
    }
}
