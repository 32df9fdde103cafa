//! The home of pages of objects: files of one disk, as a database's relations have them. A file's name is its
//! object's. The place of a removed file is another file's at once, and its name may be used again.
//!
//! What exists is the database's to know, and survives power failures: databases write that into their logs,
//! and remove again after a restart what was to be removed.

use entresol_core::PageId;
use entresol_device::{Device, DeviceError};
use entresol_engine::{Deletes, FlashTier, Home, Names, PageCache};
use entresol_format::label::LABEL_AREA_BYTES;
use entresol_objects::{Locator, ObjectId};
use entresol_runtime::sync::{Mutex, Rank};
use std::sync::Arc;

/// Pages of a file.
pub(super) const FILE_PAGES: u64 = 15;
/// Files.
pub(super) const FILES: u64 = super::PAGES / FILE_PAGES;
/// Numbers of objects: some more than there are files.
pub(super) const OBJECTS_MAX: u32 = FILES as u32 + 4;

/// What the database knows of a file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct File {
    exists: bool,
    /// It was removed, and that was flushed: the cache does not know it any more.
    is_gone: bool,
    /// It was cut off at this page, and that was not flushed.
    cut: Option<u64>,
}

/// What is known of all files.
pub(super) type State = [File; FILES as usize];

/// Held while a file is made or removed.
pub(super) type Known = Arc<Mutex<State>>;

pub(super) fn nothing_known() -> Known {
    Arc::new(Mutex::new(Rank::Test, [File::default(); FILES as usize]))
}

/// See the module's header.
pub(super) struct Files {
    label: Arc<dyn Device>,
    disk: Arc<dyn Device>,
    page_bytes: usize,
    known: Known,
}

fn failed(error: impl ToString) -> String {
    error.to_string()
}

fn locator(file: u64) -> Locator {
    let mut locator = Locator::default();
    locator[..8].copy_from_slice(&file.to_le_bytes());
    locator
}

/// The file that has `page`.
fn file_of(page: u64) -> u64 {
    page / FILE_PAGES
}

impl Files {
    /// Files on `disk`; the label is on a device of its own, whose syncs do not sync the files.
    pub(super) fn new(
        label: Arc<dyn Device>,
        disk: Arc<dyn Device>,
        page_bytes: usize,
        known: Known,
    ) -> Arc<Self> {
        Arc::new(Self { label, disk, page_bytes, known })
    }

    fn offset(&self, file: u64, number: u64) -> u64 {
        LABEL_AREA_BYTES + (file * FILE_PAGES + number) * self.page_bytes as u64
    }

    fn of_others(&self) -> Vec<u8> {
        vec![0xee; FILE_PAGES as usize * self.page_bytes]
    }

    /// The object of the file that has `page`. A file that does not exist is made: nothing of an older one of
    /// its name is in it. `None`: the table is full.
    pub(super) fn object_of(&self, tier: &FlashTier, page: u64) -> Result<Option<ObjectId>, String> {
        let file = file_of(page);
        let mut known = self.known.lock();
        let exists = known[file as usize].exists;
        if !exists {
            if let Some(object) = tier.object(&locator(file)).map_err(failed)? {
                if known[file as usize].is_gone {
                    return Err(format!(
                        "object {} was retired, and that was flushed, and it lives",
                        object.0
                    ));
                }
                // What was to be removed is removed again.
                tier.retire(object).map_err(failed)?;
            }
            if !known[file as usize].is_gone {
                // A name is used again only when the cache has durably forgotten the older object.
                tier.flush().map_err(failed)?;
            }
            self.check_removed(file, &known[file as usize])?;
            self.disk.write(self.offset(file, 0), &self.of_others()).map_err(failed)?;
            self.disk.sync().map_err(failed)?;
        }
        let object = tier.define(&locator(file)).map_err(failed)?;
        known[file as usize] =
            File { exists: exists || object.is_some(), is_gone: false, ..known[file as usize] };
        Ok(object)
    }

    /// Removes the file that has `page`, whose object is `object`.
    pub(super) fn remove(&self, tier: &FlashTier, page: u64, object: ObjectId) -> Result<(), String> {
        let file = file_of(page);
        let mut known = self.known.lock();
        known[file as usize] = File::default();
        if !tier.retire(object).map_err(failed)? {
            return Err(format!("object {} was live, and there was none to retire", object.0));
        }
        self.disk.write(self.offset(file, 0), &self.of_others()).map_err(failed)?;
        self.disk.sync().map_err(failed)
    }

    /// Cuts off the file, whose object is `object`, at `page`; what was after it is another file's.
    pub(super) fn cut(&self, tier: &FlashTier, page: u64, object: ObjectId) -> Result<(), String> {
        let mut known = self.known.lock();
        let cut = &mut known[file_of(page) as usize].cut;
        *cut = Some(cut.map_or(page, |before| before.min(page)));
        tier.cut(object, (page % FILE_PAGES) as u32).map_err(failed)?;
        let rest = self.of_others().split_off((page % FILE_PAGES) as usize * self.page_bytes);
        self.disk.write(self.offset(file_of(page), page % FILE_PAGES), &rest).map_err(failed)?;
        self.disk.sync().map_err(failed)
    }

    /// Whether a page is as it is on a disk of others.
    pub(super) fn is_of_others(found: &[u8]) -> bool {
        found.iter().all(|byte| *byte == 0xee)
    }

    /// Where files were cut off, and that was not flushed: a database does that again after a restart.
    pub(super) fn cuts(&self) -> Vec<u64> {
        self.known.lock().iter().filter_map(|file| file.cut.filter(|_| file.exists)).collect()
    }

    /// Nothing was brought to where a file was.
    fn check_removed(&self, file: u64, known: &File) -> Result<(), String> {
        let mut found = self.of_others();
        if !known.is_gone || self.disk.read(self.offset(file, 0), &mut found).is_err() {
            return Ok(());
        }
        match found == self.of_others() {
            true => Ok(()),
            false => Err(format!("a page of file {file} was written to disk after it was removed")),
        }
    }

    /// What is known of all files.
    pub(super) fn known(&self) -> State {
        *self.known.lock()
    }

    /// All was flushed since files were as `before`.
    pub(super) fn flushed(&self, before: &State) {
        for (file, before) in self.known.lock().iter_mut().zip(before) {
            file.is_gone |= !before.exists && !file.exists;
            file.cut = file.cut.filter(|cut| before.cut != Some(*cut));
        }
    }
}

impl Home for Files {
    fn label(&self) -> &dyn Device {
        &*self.label
    }

    fn capacity_pages(&self) -> u64 {
        FILES * FILE_PAGES
    }

    fn has_room(&self, page: PageId, names: &dyn Names) -> bool {
        u64::from(page.number()) < FILE_PAGES && names.locator(ObjectId(page.object())).is_some()
    }

    fn place(&self, page: PageId, _: &dyn Names) -> String {
        format!("page {} of its file", page.number())
    }

    fn read(&self, first: PageId, buffer: &mut [u8], names: &dyn Names) -> Result<(), DeviceError> {
        match self.place_of(first, names) {
            Some(offset) => self.disk.read(offset, buffer),
            None => {
                buffer.fill(0);
                Ok(())
            }
        }
    }

    fn write(&self, pages: &[(PageId, &[u8])], names: &dyn Names) -> Result<(), DeviceError> {
        pages.iter().try_for_each(|(page, data)| match self.place_of(*page, names) {
            Some(offset) => self.disk.write(offset, data),
            None => Ok(()),
        })
    }

    fn sync(&self) -> Result<(), DeviceError> {
        self.label.sync()?;
        self.disk.sync()
    }

    fn drop_cached(&self) -> Result<(), DeviceError> {
        self.label.drop_cached()?;
        self.disk.drop_cached()
    }
}

impl Files {
    fn place_of(&self, page: PageId, names: &dyn Names) -> Option<u64> {
        let locator = names.locator(ObjectId(page.object()))?;
        let (words, _) = locator.as_chunks::<8>();
        Some(self.offset(u64::from_le_bytes(words[0]), page.number().into()))
    }
}
