//! The label of a disk that is in use: it is read again before each change, and changed durably.

use super::{Home, LabelState, binding, read_label, write_label};
use crate::TierError;
use crate::api::Binding;
use crate::syncs::Syncs;
use entresol_device::{Counters, Device, DeviceError, Geometry, Io};
use entresol_format::Uuid;
use entresol_format::label::{Label, Session};
use entresol_runtime::sync::{Mutex, Rank};
use std::sync::Arc;

/// See the module's header.
pub(crate) struct DiskLabel {
    home: Arc<dyn Home>,
    /// Those of the pages.
    syncs: Arc<Syncs>,
    /// Held while the label is changed.
    changing: Mutex<()>,
}

/// The label's device, which may be that of the pages: a sync of it that fails may have lost writes of pages.
pub(crate) struct LabelDevice<'a> {
    device: &'a dyn Device,
    syncs: &'a Syncs,
}

impl Device for LabelDevice<'_> {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }
    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        self.device.run(batch)
    }
    fn sync(&self) -> Result<(), DeviceError> {
        self.syncs.sync_another(|| self.device.sync())
    }
    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.device.discard(offset, length)
    }
    fn drop_cached(&self) -> Result<(), DeviceError> {
        self.device.drop_cached()
    }
    fn counters(&self) -> Counters {
        self.device.counters()
    }
}

impl DiskLabel {
    pub(super) fn new(home: &Arc<dyn Home>, syncs: &Arc<Syncs>) -> Self {
        Self { home: home.clone(), syncs: syncs.clone(), changing: Mutex::new(Rank::DiskLabel, ()) }
    }

    /// The label's device.
    pub(crate) fn device(&self) -> LabelDevice<'_> {
        LabelDevice { device: self.home.label(), syncs: &self.syncs }
    }

    /// The label.
    pub(crate) fn read(&self) -> Result<Label, TierError> {
        let why = match read_label(&self.device())? {
            LabelState::Valid(labels) => return Ok(labels.newest),
            LabelState::Blank => "it is blank".to_owned(),
            LabelState::Unreadable(why) => why,
        };
        Err(TierError::Refused(format!(
            "the disk's label was whole when the disk was opened, and no longer is ({why}): another program has written to the \
             disk, or the disk fails; check it and restore the database from a backup"
        )))
    }

    /// Changes the label durably.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Label)) -> Result<(), TierError> {
        let _changing = self.changing.lock();
        let mut label = self.read()?;
        change(&mut label);
        write_label(&self.device(), &mut label)
    }

    /// See [`crate::Layer::binding`].
    pub(crate) fn binding(&self) -> Result<Binding, TierError> {
        Ok(binding::of_label(&self.read()?))
    }

    /// See [`crate::Layer::bind_log`].
    pub(crate) fn bind_log(&self, log: Uuid, session: Session) -> Result<(), TierError> {
        self.change(|label| (label.log, label.session) = (log, session))
    }
}
