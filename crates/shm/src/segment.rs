//! Making and attaching a segment.
//!
//! The maker gets memory of zeros, prepares its parts, and publishes it; only then can others attach. A
//! segment at a path is made under another name and renamed when it is published. So a path names a whole
//! segment or none, and the segment of a dead server is replaced.

use crate::error::SegmentError;
use crate::fronts::Fronts;
use crate::guarded::Guarded;
use crate::header::{HEADER_BYTES, Header};
use crate::mapping::{Mapping, Shared};
use crate::plan::{BytesPart, FrontsPart, GuardedPart, Part, Place, Plan, SlicePart};
use crate::shareable::Shareable;
use crate::words::Bytes;
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, memfd_create};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;

/// Memory that processes share: published, or attached and proved to be of the caller's plan.
#[derive(Clone, Debug)]
pub struct Segment {
    memory: Arc<Mapping>,
    header: Shared<Header>,
    /// Number of the plan.
    plan: u64,
}

/// A segment that no other process can attach yet.
#[derive(Debug)]
pub struct NewSegment {
    segment: Segment,
    file: Option<File>,
    renaming: Option<Renaming>,
}

/// The names of a file that is being made. It is removed unless it was renamed.
#[derive(Debug)]
struct Renaming {
    from: PathBuf,
    to: PathBuf,
    is_done: bool,
}

impl Drop for Renaming {
    fn drop(&mut self) {
        if !self.is_done {
            // Nothing can be done about a name that stays; the next maker of this process takes another one.
            let _ = std::fs::remove_file(&self.from);
        }
    }
}

impl Segment {
    /// Makes a segment that will be found at `path` when it is published. A file that is there by then is
    /// replaced. The memory is reserved now. The file belongs on a file system in memory (tmpfs); on another
    /// one the kernel would write it to a disk.
    ///
    /// # Errors
    /// [`SegmentError`]: the file cannot be made, or there is not enough memory.
    pub fn create(path: &Path, plan: &Plan) -> Result<NewSegment, SegmentError> {
        let place = path.display().to_string();
        check_memory(&place, plan)?;
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}-{:016x}", std::process::id(), entresol_runtime::random()));
        let from = PathBuf::from(name);
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&from);
        let file = file.map_err(SegmentError::io(&place, "make the file"))?;
        let renaming = Renaming { from, to: path.to_owned(), is_done: false };
        let segment = Self::new_in(&file, &place, plan)?;
        Ok(NewSegment { segment, file: None, renaming: Some(renaming) })
    }

    /// Makes a segment without a path: others attach through its descriptor ([`NewSegment::descriptor`]),
    /// which they inherit or are sent.
    ///
    /// # Errors
    /// [`SegmentError`]: there is not enough memory.
    pub fn create_memfd(plan: &Plan) -> Result<NewSegment, SegmentError> {
        let place = "memfd";
        check_memory(place, plan)?;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("entresol", flags).map_err(io::Error::from);
        let file = File::from(file.map_err(SegmentError::io(place, "make the file"))?);
        let segment = Self::new_in(&file, place, plan)?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        let sealed = fcntl_add_seals(&file, seals).map_err(io::Error::from);
        sealed.map_err(SegmentError::io(place, "seal the length"))?;
        Ok(NewSegment { segment, file: Some(file), renaming: None })
    }

    /// Attaches the segment at `path`.
    ///
    /// # Errors
    /// [`SegmentError`]: there is none, or it is not one of this plan.
    pub fn attach(path: &Path, plan: &Plan) -> Result<Self, SegmentError> {
        let place = path.display().to_string();
        let file = OpenOptions::new().read(true).write(true).open(path);
        Self::attach_file(&file.map_err(SegmentError::io(&place, "open the file"))?, &place, plan)
    }

    /// Attaches the segment in a file that is open for reading and writing.
    ///
    /// # Errors
    /// [`SegmentError`]: there is none, or it is not one of this plan.
    pub fn attach_fd(file: OwnedFd, plan: &Plan) -> Result<Self, SegmentError> {
        Self::attach_file(&File::from(file), "the inherited descriptor", plan)
    }

    /// Makes a segment in memory of the caller, which is overwritten.
    ///
    /// # Safety
    /// `bytes` bytes from `base` are readable and writable until the end of the process, and are used by this
    /// segment only, and later by segments attached to them, in this process or in others that share the
    /// memory. The memory is not private to a process that others fork from.
    ///
    /// # Errors
    /// [`SegmentError`]: the memory is too short or not aligned as the plan needs it.
    #[allow(unsafe_code)]
    pub unsafe fn create_over(
        base: NonNull<u8>,
        bytes: usize,
        plan: &Plan,
    ) -> Result<NewSegment, SegmentError> {
        let place = format!("memory at {base:?}");
        let needed = bytes_of(&place, plan)?;
        check_caller(&place, base, bytes, plan)?;
        // SAFETY: the caller promises it; the segment uses the first bytes alone.
        let memory = unsafe { Mapping::of_caller(base, needed) };
        // SAFETY: the caller promises that no other code uses the memory.
        unsafe { memory.clear() };
        let segment = Self::over(memory, plan);
        segment.header.format(plan, needed, new_id());
        Ok(NewSegment { segment, file: None, renaming: None })
    }

    /// Attaches the segment in memory of the caller.
    ///
    /// # Safety
    /// `bytes` bytes from `base` are readable, writable and initialized until the end of the process, and are
    /// accessed through segments only, in this process and in others.
    ///
    /// # Errors
    /// [`SegmentError`]: there is none, or it is not one of this plan.
    #[allow(unsafe_code)]
    pub unsafe fn attach_over(base: NonNull<u8>, bytes: usize, plan: &Plan) -> Result<Self, SegmentError> {
        let place = format!("memory at {base:?}");
        check_caller(&place, base, bytes, plan)?;
        let needed = bytes_of(&place, plan)?;
        // SAFETY: the caller promises it.
        let segment = Self::over(unsafe { Mapping::of_caller(base, needed) }, plan);
        segment.header.validate(&place, plan, needed)?;
        Ok(segment)
    }

    fn new_in(file: &File, place: &str, plan: &Plan) -> Result<Self, SegmentError> {
        let bytes = bytes_of(place, plan)?;
        reserve(file, bytes as u64).map_err(SegmentError::io(place, "reserve the memory"))?;
        let memory = Mapping::of_file(file, bytes).map_err(SegmentError::io(place, "map the file"))?;
        let segment = Self::over(memory, plan);
        segment.header.format(plan, bytes, new_id());
        Ok(segment)
    }

    fn attach_file(file: &File, place: &str, plan: &Plan) -> Result<Self, SegmentError> {
        let about = file.metadata().map_err(SegmentError::io(place, "look at the file"))?;
        let found = about.len();
        let length = usize::try_from(found).unwrap_or(usize::MAX);
        if !about.is_file() || length < HEADER_BYTES {
            let expected = bytes_of(place, plan)? as u64;
            return Err(SegmentError::Size { place: place.to_owned(), expected, found });
        }
        let memory = Mapping::of_file(file, length).map_err(SegmentError::io(place, "map the file"))?;
        let segment = Self::over(memory, plan);
        segment.header.validate(place, plan, length)?;
        Ok(segment)
    }

    /// The memory is as long as a header, at least.
    fn over(memory: Mapping, plan: &Plan) -> Self {
        let memory = Arc::new(memory);
        let place = Place { plan: plan.number(), offset: 0, bytes: HEADER_BYTES };
        let header = Shared::one(&memory, &place);
        Self { memory, header, plan: plan.number() }
    }

    /// Drawn when the segment was made: tells it from those before it at the same path.
    pub fn id(&self) -> u128 {
        self.header.id()
    }

    /// Where the segment is mapped in this process.
    pub fn address(&self) -> usize {
        self.memory.base().addr().get()
    }

    /// Bytes of the segment.
    pub fn bytes(&self) -> usize {
        self.memory.bytes()
    }

    /// A planned `T`. This method and the following ones panic if the part belongs to another plan, or was
    /// planned after the segment was made or attached.
    pub fn part<T: Shareable>(&self, part: &Part<T>) -> Shared<T> {
        Shared::one(self.memory_of(&part.place), &part.place)
    }

    /// A planned number of `T`.
    pub fn slice<T: Shareable>(&self, part: &SlicePart<T>) -> Shared<[T]> {
        Shared::many(self.memory_of(&part.place), &part.place, part.count)
    }

    /// A planned area of bytes.
    pub fn area(&self, part: &BytesPart) -> Bytes {
        Bytes::new(Shared::many(self.memory_of(&part.place), &part.place, part.place.bytes / 8))
    }

    /// Planned areas with latches.
    pub fn guarded(&self, part: &GuardedPart) -> Guarded {
        Guarded::new(self.memory_of(&part.latches), part)
    }

    /// The table of processes.
    pub fn fronts(&self, part: &FrontsPart) -> Fronts {
        Fronts::new(self.slice(&part.seats))
    }

    fn memory_of(&self, place: &Place) -> &Arc<Mapping> {
        assert!(place.plan == self.plan, "a part of another plan is asked for");
        assert!(place.offset >= HEADER_BYTES, "a part of a plan that fits no memory is asked for");
        &self.memory
    }
}

impl NewSegment {
    /// The segment, to prepare its parts. Nothing that is done to it now can be seen by others.
    pub fn segment(&self) -> &Segment {
        &self.segment
    }

    /// The descriptor of a segment without a path, for others. It is closed when a process executes another
    /// program, unless that is changed.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(|file| file.as_fd())
    }

    /// Lets others attach. The descriptor of a segment without a path is closed here; take a copy before.
    ///
    /// # Errors
    /// [`SegmentError`]: the file cannot be renamed.
    pub fn publish(mut self) -> Result<Segment, SegmentError> {
        self.segment.header.publish();
        if let Some(renaming) = &mut self.renaming {
            let place = renaming.to.display().to_string();
            let renamed = std::fs::rename(&renaming.from, &renaming.to);
            renamed.map_err(SegmentError::io(&place, "give the segment its name"))?;
            renaming.is_done = true;
        }
        Ok(self.segment)
    }
}

fn bytes_of(place: &str, plan: &Plan) -> Result<usize, SegmentError> {
    plan.total_bytes().ok_or_else(|| SegmentError::TooLarge { place: place.to_owned() })
}

/// Memory is reserved at once, and the kernel ends any user's processes if there is not enough of it.
fn check_memory(place: &str, plan: &Plan) -> Result<(), SegmentError> {
    let (expected, found) = (bytes_of(place, plan)? as u64, available_bytes());
    if expected > found {
        return Err(SegmentError::Memory { place: place.to_owned(), expected, found });
    }
    Ok(())
}

/// Memory that programs can get without others having to give any back.
fn available_bytes() -> u64 {
    let about = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kibibytes = about.lines().find_map(|line| {
        line.strip_prefix("MemAvailable:")?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    });
    kibibytes.map_or_else(
        || {
            let machine = rustix::system::sysinfo();
            machine.totalram.saturating_mul(machine.mem_unit.into())
        },
        |kibibytes| kibibytes.saturating_mul(1024),
    )
}

fn check_caller(place: &str, base: NonNull<u8>, bytes: usize, plan: &Plan) -> Result<(), SegmentError> {
    let (expected, found) = (bytes_of(place, plan)? as u64, bytes as u64);
    if found < expected {
        return Err(SegmentError::Size { place: place.to_owned(), expected, found });
    }
    if !base.addr().get().is_multiple_of(plan.alignment()) {
        return Err(SegmentError::Alignment { place: place.to_owned(), expected: plan.alignment() });
    }
    Ok(())
}

fn new_id() -> u128 {
    u128::from(entresol_runtime::random()) << 64 | u128::from(entresol_runtime::random())
}

/// Gives an empty file `bytes` bytes of zeros, each with memory: a process that touches a byte without memory
/// would be ended by a signal.
fn reserve(mut file: &File, bytes: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, bytes) {
        Err(rustix::io::Errno::OPNOTSUPP) => {}
        other => return Ok(other?),
    }
    let zeros = vec![0; 65_536];
    let mut left = bytes;
    while left > 0 {
        let now = left.min(zeros.len() as u64);
        file.write_all(&zeros[..now as usize])?;
        left -= now;
    }
    Ok(())
}
