//! The journal: acknowledged writes that may not be durable, for the program after a kill of this one.

use super::{Cache, Volume, VolumeError};
use crate::journal::{Journal, Kind, Left, Record};
use entresol_core::mutant;
use entresol_device::{Device, DeviceError};
use entresol_engine::{AlignedBuffer, FlashTier, Mode, TierError, TierOptions, Uuid};
use std::sync::Arc;

impl Volume {
    /// As [`Volume::open`], with the journal on `journal`, a device that outlives the program, but need not
    /// outlive a power failure. What an earlier program has acknowledged is carried out first, durably.
    ///
    /// # Errors
    /// As [`Volume::open`]; the volume's, if the writes cannot be carried out: they stay in the journal.
    pub fn open_with_journal(
        disk: Arc<dyn Device>,
        label: Arc<dyn Device>,
        flash: Arc<dyn Device>,
        options: TierOptions,
        journal: Arc<dyn Device>,
    ) -> Result<(Self, Vec<String>), VolumeError> {
        let journal = Journal::open(journal).map_err(VolumeError::Journal)?;
        journal.open_begins().map_err(VolumeError::Journal)?;
        let (mut volume, mut notices) = Self::open(disk, label, flash, options)?;
        if !mutant!("journal-not-carried-out") {
            notices.extend(volume.carry_out_left(&journal)?);
        }
        volume.keep(journal)?;
        Ok((volume, notices))
    }

    /// Keeps a journal on `journal` from now on. What is there is forgotten: the volume was just made.
    ///
    /// # Errors
    /// The device's.
    pub fn keep_journal(&mut self, journal: Arc<dyn Device>) -> Result<(), VolumeError> {
        self.keep(Journal::open(journal).map_err(VolumeError::Journal)?)
    }

    fn keep(&mut self, journal: Journal) -> Result<(), VolumeError> {
        self.journal = Some(journal);
        let held = self.cache.read();
        self.begin_journal(held.as_ref().map(|cache| &*cache.tier)).map_err(VolumeError::Journal)
    }

    /// The journal begins anew: everything is durable.
    pub(super) fn begin_journal(&self, tier: Option<&FlashTier>) -> Result<(), DeviceError> {
        let (cache, epoch) = tier.map_or((Uuid::NIL, 0), FlashTier::epoch);
        self.journal.as_ref().map_or(Ok(()), |journal| journal.begin(cache, epoch))
    }

    /// As [`Volume::begin_journal`], for what changes the cache as a whole.
    pub(super) fn journal_follows(&self, tier: Option<&FlashTier>) -> Result<(), TierError> {
        self.begin_journal(tier).map_err(|error| TierError::Refused(format!("journal: {error}")))
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
        if cache.options.mode != Mode::WriteBack || mutant!("write-not-recorded") {
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
        let (id, epoch) = cache.tier.epoch();
        let records = match journal
            .left(id, epoch, cache.tier.failed_epoch())
            .map_err(VolumeError::Journal)?
        {
            Left::Nothing => return Ok(None),
            Left::Foreign(count) => {
                return Ok(Some(format!(
                    "the journal has {count} writes of another cache, or of an earlier time: they were not carried out"
                )));
            }
            Left::Records(records) => records,
        };
        for (at, record) in records.iter().enumerate() {
            if record.kind == Kind::Data {
                self.carry_out_again(cache, journal, record, &records[at + 1..])?;
            }
        }
        self.flush_to(Some(cache))?;
        Ok(Some(format!(
            "a server was killed: {} writes that it had acknowledged were carried out again",
            records.len()
        )))
    }

    /// Writes what `record` says, but for pages that were written past the flash `later`: the disk has them.
    fn carry_out_again(
        &self,
        cache: &Cache,
        journal: &Journal,
        record: &Record,
        later: &[Record],
    ) -> Result<(), VolumeError> {
        let mut data = AlignedBuffer::new(record.length as usize);
        journal.data(record, &mut data).map_err(VolumeError::Journal)?;
        for piece in self.pieces_of(record.offset, record.length, 1) {
            let at = piece.page * self.page_bytes + piece.within as u64;
            let is_on_disk = |later: &Record| {
                later.kind == Kind::Elsewhere && (later.offset..later.offset + later.length).contains(&at)
            };
            if !later.iter().any(is_on_disk) {
                self.write_some(Some(cache), at, &data[piece.place], false)?;
            }
        }
        Ok(())
    }
}
