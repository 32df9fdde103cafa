//! A front in another process than the back: [`SharedFront`].

use crate::access::{self, Access, Answer, Bell, BoardRef, FetchResult, Offered, Opened, Place, Request};
use crate::api::{Evicted, Fetched, PageSet, Victim};
use crate::front_lsns::Lsns;
use crate::interface::Deletes;
use crate::{FlashPlace, TierError, TierOptions, front_flash};
use entresol_core::{Mode, PageId, Placement, Route};
use entresol_objects::{Locator, ObjectId, Usage};
use entresol_shm::{NewSegment, Plan, Segment, SegmentError};
use std::cell::Cell;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::Arc;

/// The place where processes share a cache. All of them use the same values. A cache that is opened again
/// keeps its place: there the new back finds the fronts of the earlier open, and notifies them. If the place
/// changes, the owner ends those fronts first.
#[derive(Clone)]
pub struct Sharing {
    /// The memory of the segment.
    pub memory: Arc<dyn SegmentMemory>,
    /// Most fronts at a time.
    pub fronts: u32,
}

impl Sharing {
    /// A segment in the file `path`, on a file system in memory (tmpfs), for so many fronts at a time.
    pub fn at(path: impl Into<PathBuf>, fronts: u32) -> Self {
        Self { memory: Arc::new(path.into()), fronts }
    }
}

/// Memory for a segment. A path is an implementation: the memory of a file. A program with another kind of
/// memory (an inherited descriptor, a mapping of its parent) implements it with [`Segment::attach_fd`] and
/// [`Segment::create_over`].
pub trait SegmentMemory: Send + Sync {
    /// Its name in errors.
    fn name(&self) -> String;

    /// A new segment, which replaces an older one.
    ///
    /// # Errors
    /// The reason why it cannot be made.
    fn create(&self, plan: &Plan) -> Result<NewSegment, SegmentError>;

    /// The existing segment. `None`: there is none. A new back also calls this, to stop the fronts of an
    /// older back. If an older segment cannot be found by this call, the program must end its fronts itself.
    ///
    /// # Errors
    /// The difference from `plan`.
    fn attach(&self, plan: &Plan) -> Result<Option<Segment>, SegmentError>;
}

impl SegmentMemory for PathBuf {
    fn name(&self) -> String {
        self.display().to_string()
    }

    fn create(&self, plan: &Plan) -> Result<NewSegment, SegmentError> {
        Segment::create(self, plan)
    }

    fn attach(&self, plan: &Plan) -> Result<Option<Segment>, SegmentError> {
        match Segment::attach(self, plan) {
            Err(SegmentError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(None),
            attached => attached.map(Some),
        }
    }
}

/// Bytes of the segment of a cache with these options, for memory that is made before the cache.
///
/// # Errors
/// [`TierError::Config`]: no such cache can be shared.
pub fn segment_bytes(options: &TierOptions, fronts: u32) -> Result<usize, TierError> {
    access::segment_bytes(options, fronts)
}

/// Options of one front.
#[derive(Clone, Copy, Debug)]
pub struct AttachOptions {
    /// Direct I/O on the flash device. The caller's buffers must be aligned for it; otherwise each fetch
    /// takes memory for a copy.
    pub is_direct: bool,
    /// Called after each wait. True: the caller must stop waiting, and its call returns
    /// [`TierError::Interrupted`].
    pub interrupted: Option<fn() -> bool>,
    /// Attach although the flash device cannot be read. Pages in the cache are then fetched from disk, and
    /// those that are newer than disk are errors. The back finds out that its device has failed.
    pub without_flash: bool,
}

impl Default for AttachOptions {
    fn default() -> Self {
        Self { is_direct: true, interrupted: None, without_flash: false }
    }
}

/// The outcome of an eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handed {
    /// The cache has it.
    Taken(Evicted),
    /// No change: the mode requires the page on disk first. The caller writes it there and evicts it again,
    /// with `dirty` false.
    DiskFirst,
    /// No change: the page belongs on disk only. If it is clean, no copy of it is in the cache. If it
    /// is dirty, the caller writes it there: with [`SharedFront::write_around`], or by itself after
    /// [`SharedFront::take_out`].
    DiskOnly,
}

/// A front of a cache that another process serves ([`crate::FlashTier::open_shared`]). It uses the cache's
/// memory and reads its flash; it writes to no device.
///
/// Fetching, evicting and forgetting allocate nothing, and a hit makes one system call, the read. The
/// process may be killed at any moment. After [`TierError::Gone`] it attaches again, as soon as that
/// succeeds; then pages that were not durable may be in older versions, as after a crash.
///
/// A front is used by one thread at a time; each thread attaches its own. The user orders the work on a page,
/// as a buffer pool does: no fetch of a page during its eviction.
pub struct SharedFront {
    pub(crate) access: Access,
    pub(crate) lsns: Option<Lsns>,
    service: Bell,
    opened: Opened,
    /// Not `Sync`: a front has one word for the latch or frame that it holds.
    _alone: PhantomData<Cell<()>>,
}

impl SharedFront {
    /// Attaches the cache of `options` whose back has made the segment at `sharing`, and whose flash is at
    /// `flash`, which is opened to be read only, without a lock.
    ///
    /// # Errors
    /// [`TierError::Refused`]: there is no such segment, it is of another version, size or cache, or has no
    /// free seat; or `flash` is that of another cache. [`TierError::Gone`]: it was given up, and the cache is
    /// to be opened again. [`TierError::Config`]: impossible options. [`TierError::Device`]: the flash cannot
    /// be read. Nothing was changed.
    pub fn attach<'a>(
        sharing: &Sharing,
        flash: impl Into<FlashPlace<'a>>,
        options: &TierOptions,
        attach: &AttachOptions,
    ) -> Result<Self, TierError> {
        let never_needed = options.mode != Mode::WriteBack;
        let goes_on = |error: &TierError| {
            attach.without_flash && (never_needed || matches!(error, TierError::Device { .. }))
        };
        let (device, superblock) = front_flash::open(flash.into(), attach.is_direct, goes_on)?;
        // Summaries of batches have no LSNs: pages in slots are read.
        let of_log = superblock.filter(|_| options.policy.placement() == Placement::Log);
        let lsns = of_log.map(|superblock| Lsns::new(device.clone(), superblock, options.layout()));
        let of_flash = superblock.map(|superblock| {
            (superblock.stamps(), Opened { cache: superblock.cache, epoch: superblock.epoch })
        });
        let (access, service, opened) =
            access::attach(sharing, options, device, of_flash, attach.interrupted)?;
        Ok(Self { access, lsns, service, opened, _alone: PhantomData })
    }

    /// Ends a front whose memory was given to another segment meanwhile, without a look at it. Who gives it
    /// away sees to that no front uses it then.
    pub fn disown(self) {
        if let Some(seat) = &self.access.seat {
            seat.disown();
        }
    }

    /// Whether the cache runs. False: it has switched itself off, and the disk alone serves.
    ///
    /// # Errors
    /// Why it does neither.
    pub fn is_running(&self) -> Result<bool, TierError> {
        self.access.signals.check_running()
    }

    /// The number of the cache's open that this front belongs to. It grows with every open.
    pub fn epoch(&self) -> u64 {
        self.opened.epoch
    }

    /// Fetches `page` into `buffer` (one page), if it is in the cache. `None`: its newest version is on disk.
    ///
    /// # Errors
    /// [`TierError::Damaged`]: the only newest copy is damaged; else the tier's.
    pub fn fetch(&self, page: PageId, buffer: &mut [u8]) -> Result<Option<Fetched>, TierError> {
        self.check_length(buffer)?;
        match self.access.fetches.fetch(page, buffer)? {
            FetchResult::Here(fetched) => Ok(Some(fetched)),
            FetchResult::OnDisk(_) => Ok(None),
            FetchResult::Damaged { place, fault, dirty, .. } => {
                self.access.board.note_damage(page);
                self.service.notify_all();
                match dirty {
                    true => Err(TierError::Damaged { page, place, fault }),
                    false => Ok(None),
                }
            }
        }
    }

    /// Where `first` is, and how many pages from it on, at most `most`, are at places that follow each other.
    /// With `fetches`, the caller reads them: from flash by itself, later or in another process, from memory
    /// and disk at once. Until it has read and proved a page, no newer version of it is evicted to the cache.
    /// Bytes that are not proved say nothing, for nothing keeps a page where it was: the caller fetches it.
    ///
    /// # Errors
    /// The tier's.
    pub fn locate(&self, first: PageId, most: u32, fetches: bool) -> Result<(Place, u32), TierError> {
        let found = self.access.places.find(first, most, fetches)?;
        if let (true, (Place::Flash { .. }, pages)) = (fetches, found) {
            self.access.board.count_flash_hits(pages as usize);
        }
        Ok(found)
    }

    /// The descriptor of the flash device in this process, as long as the front lives, and whether its reads
    /// are direct. `None`: the device cannot be reached.
    pub fn flash_descriptor(&self) -> Option<(i32, bool)> {
        let file = self.access.flash_pages.queued()?;
        Some((file.descriptor(), file.is_direct()))
    }

    /// Forgets those of the pages from `first` to `last` that are not newer than disk: they are read from
    /// there from now on. Returns the number of copies that were in the cache.
    ///
    /// # Errors
    /// The tier's.
    pub fn forget_clean(&self, first: PageId, last: PageId) -> Result<u64, TierError> {
        self.access.forgets.forget_clean((first, last))
    }

    /// Whether the cache has `page`: a hint, without I/O.
    pub fn is_on_flash(&self, page: PageId) -> bool {
        self.access.cached.has(page).unwrap_or(false)
    }

    /// Whether the cache has a version of `page` that is newer than the disk's: a hint, without I/O.
    pub fn is_dirty(&self, page: PageId) -> bool {
        self.access.cached.is_dirty(page).unwrap_or(false)
    }

    /// Evicts a page from its owner's memory to the cache; waits for room. After [`Handed::Taken`] fetches
    /// serve this version.
    ///
    /// # Errors
    /// The tier's. After [`TierError::Gone`] the page may be in the cache or not.
    pub fn evict(&self, victim: Victim, data: &[u8]) -> Result<Handed, TierError> {
        if let Some(elsewhere) = self.elsewhere(&victim, data)? {
            return Ok(elsewhere);
        }
        let offered = self.access.offers.take(victim, data)?;
        Ok(self.handed(&victim, offered))
    }

    /// As [`SharedFront::evict`], without a wait. `None`: there is no room, and nothing was changed.
    ///
    /// # Errors
    /// As [`SharedFront::evict`].
    pub fn try_evict(&self, victim: Victim, data: &[u8]) -> Result<Option<Handed>, TierError> {
        if let Some(elsewhere) = self.elsewhere(&victim, data)? {
            return Ok(Some(elsewhere));
        }
        let offered = self.access.offers.offer(victim, data)?;
        Ok(offered.map(|offered| self.handed(&victim, offered)))
    }

    /// Writes `page` to disk past the cache, by `write`, which must be durable when it returns. Otherwise as
    /// [`Deletes::forget_for`].
    ///
    /// After this call every front is served the new version. The next flush or checkpoint makes that
    /// durable. If the cache's process or the machine ends before, the next open may find the cache's older
    /// copy. That copy is then served, and if it was dirty, written over the new version on disk. As after an
    /// unflushed eviction, the caller's log repeats the change. A caller without a log must flush.
    ///
    /// # Errors
    /// As there.
    pub fn write_around<E: From<TierError>>(
        &self,
        page: PageId,
        write: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        self.forget_for(page, page, write)?;
        self.access.board.tallies.bypassed.add(1);
        Ok(())
    }

    /// The outcome for a page that cannot enter the flash now, because of the mode or the format.
    fn elsewhere(&self, victim: &Victim, data: &[u8]) -> Result<Option<Handed>, TierError> {
        self.check_length(data)?;
        let options = &self.access.options;
        let is_taken = options.page_format.takes(data);
        let route = options.mode.route(victim.dirty, victim.fdirty);
        if is_taken && (route == Route::Flash || !self.access.signals.check_running()?) {
            return Ok(None);
        }
        if is_taken && route == Route::DiskThenFlash {
            return Ok(Some(Handed::DiskFirst));
        }
        if !victim.dirty {
            // The disk has it.
            self.forget(victim.page, victim.page)?;
        }
        Ok(Some(Handed::DiskOnly))
    }

    fn handed(&self, victim: &Victim, offered: Offered) -> Handed {
        match offered {
            Offered::Taken => {
                self.access.board.tallies.evicted(victim.dirty, victim.fdirty);
                Handed::Taken(Evicted { dirty: victim.dirty })
            }
            Offered::Bypass | Offered::Off => Handed::DiskOnly,
        }
    }

    /// Asks the back to make durable all pages that any front has evicted before, and all deletions. Callers
    /// sync their own writes to disk themselves.
    ///
    /// # Errors
    /// The failure. Pages that were evicted since the last flush may then be durable or not.
    pub fn flush(&self) -> Result<(), TierError> {
        self.ask(|board| &board.flushes)
    }

    /// Asks the back for a checkpoint, as [`crate::Layer::checkpoint`].
    ///
    /// # Errors
    /// As [`SharedFront::flush`].
    pub fn checkpoint(&self) -> Result<(), TierError> {
        self.ask(|board| &board.checkpoints_asked)
    }

    /// As [`SharedFront::checkpoint`]. The flash also records two marks in the owner's own count: that of the
    /// owner's last complete checkpoint, and that of this one. If the owner was put back to an earlier state,
    /// or the flash was, the owner's mark is neither of them ([`crate::marks_on`]). One caller at a time.
    ///
    /// # Errors
    /// As [`SharedFront::flush`].
    pub fn checkpoint_at(&self, marks: [u64; 2]) -> Result<(), TierError> {
        self.access.board.set_marks(marks);
        self.checkpoint()
    }

    /// Asks the back to copy pages to disk, as [`crate::FlashTier::destage`].
    ///
    /// # Errors
    /// The failure. Some of the pages may then be on disk.
    pub fn destage(&self, pages: &PageSet) -> Result<(), TierError> {
        let Some(holder) = self.access.seat.as_ref().map(|seat| seat.holder()) else {
            unreachable!("a front in another process has a seat")
        };
        let orders = &self.access.board.destage_requests;
        let placed = loop {
            let seen = self.access.signals.progress.epoch();
            if !self.access.signals.check_running()? {
                // The disk has everything.
                return Ok(());
            }
            match orders.ask(holder, pages) {
                Some(placed) => break placed,
                None => self.access.signals.await_progress(seen)?,
            }
        };
        self.service.notify_all();
        let waited = loop {
            let seen = self.access.signals.progress.epoch();
            if let Some(is_done) = orders.answer(placed) {
                return if is_done { Ok(()) } else { Err(self.could_not()) };
            }
            if let Err(error) =
                self.access.signals.check_running().and_then(|_| self.access.signals.await_progress(seen))
            {
                break error;
            }
        };
        orders.leave(placed);
        Err(waited)
    }

    /// Removes `page` from the cache, before its owner writes a newer version to disk that is durable only
    /// later. The cache's version is made durable on disk first. So after a crash no read finds an older
    /// version than the cache had. For [`Handed::DiskOnly`] and dirty pages of an owner whose log repeats the
    /// changes that the disk lacks.
    ///
    /// # Errors
    /// As [`SharedFront::destage`] and [`Deletes::forget`].
    pub fn take_out(&self, page: PageId) -> Result<(), TierError> {
        while self.access.cached.is_dirty(page)? {
            self.destage(&PageSet::Range(page, page))?;
            if !self.access.signals.check_running()? {
                return Ok(());
            }
        }
        self.forget(page, page).map(drop)
    }

    /// As [`SharedFront::take_out`], of each page from `first` to `last`.
    fn take_out_all(&self, first: PageId, last: PageId) -> Result<(), TierError> {
        self.destage(&PageSet::Range(first, last))?;
        self.forget(first, last).map(drop)
    }

    /// The reason why a request failed.
    fn could_not(&self) -> TierError {
        self.access.signals.check_running().err().unwrap_or_else(|| {
            TierError::Refused(
                "the process that serves the cache could not do it, as its log says; try again".to_owned(),
            )
        })
    }

    /// Makes a request and waits for its answer.
    fn ask(&self, request: impl Fn(&BoardRef) -> &Request) -> Result<(), TierError> {
        self.access.signals.check_running()?;
        let request = request(&self.access.board);
        let number = request.ask();
        self.service.notify_all();
        loop {
            let seen = self.access.signals.progress.epoch();
            match request.answer(number) {
                Some(Answer::Done) => return Ok(()),
                Some(Answer::Failed) => return Err(self.could_not()),
                None => {}
            }
            self.access.signals.check_running()?;
            self.access.signals.await_progress(seen)?;
        }
    }

    fn check_length(&self, page: &[u8]) -> Result<(), TierError> {
        let expected = self.access.flash_pages.page_bytes;
        if page.len() == expected {
            return Ok(());
        }
        Err(TierError::Config(format!(
            "a buffer of {} bytes was handed in, pages have {expected}",
            page.len()
        )))
    }
}

impl Deletes for SharedFront {
    fn forget(&self, first: PageId, last: PageId) -> Result<u64, TierError> {
        self.access.forgets.forget_range((first, last))
    }

    /// `make_dead` does not use this front. If it fails, the cache is given up, and must be opened again. In
    /// slots, where an older version cannot be kept for that case, the pages are brought to disk before.
    fn forget_for<E: From<TierError>>(
        &self,
        first: PageId,
        last: PageId,
        make_dead: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let made = match self.access.directory.is_log() {
            true => self.access.forgets.forget_for((first, last), make_dead),
            false => self.take_out_all(first, last).map_err(E::from).and_then(|()| make_dead()),
        };
        self.service.notify_all();
        made
    }

    fn define(&self, locator: &Locator) -> Result<Option<ObjectId>, TierError> {
        self.access.objects.define(locator)
    }

    fn object(&self, locator: &Locator) -> Result<Option<ObjectId>, TierError> {
        self.access.objects.look_up(locator)
    }

    fn retire(&self, object: ObjectId) -> Result<bool, TierError> {
        self.access.objects.retire(object)
    }

    fn retire_matching(&self, matches: impl FnMut(&Locator) -> bool) -> Result<u32, TierError> {
        self.access.objects.retire_matching(matches)
    }

    fn cut(&self, object: ObjectId, number: u32) -> Result<(), TierError> {
        self.access.objects.cut(object, number)
    }

    fn objects(&self) -> Option<Usage> {
        self.access.objects.usage()
    }
}
