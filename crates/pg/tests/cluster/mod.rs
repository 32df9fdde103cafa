//! A fake cluster and the C functions as one process of a server calls them.
#![allow(unsafe_code, dead_code)] // calls of C functions, shared memory; not every test uses all of it

use entresol_pg::abi;
use entresol_pg::types::{
    EntCluster, EntEvent, EntFork, EntOptions, EntRelation, EntStat, code, event, flag,
};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use std::ffi::{CString, c_void};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

pub const PAGE: usize = 8192;
const FLASH_BYTES: u64 = 24 << 20;

/// A page, aligned for direct I/O.
#[derive(Clone)]
#[repr(C, align(4096))]
pub struct Page(pub [u8; PAGE]);

impl Page {
    /// Block `block` in version `version`: a header of PostgreSQL, and then words of the version.
    pub fn new(block: u32, version: u64) -> Self {
        let mut page = Self([0; PAGE]);
        let lsn = [(version >> 32) as u32, version as u32];
        page.0[..4].copy_from_slice(&lsn[0].to_le_bytes());
        page.0[4..8].copy_from_slice(&lsn[1].to_le_bytes());
        page.0[18..20].copy_from_slice(&0x2004_u16.to_le_bytes());
        page.0[24..28].copy_from_slice(&block.to_le_bytes());
        page.0[32..].as_chunks_mut::<8>().0.iter_mut().for_each(|word| *word = version.to_le_bytes());
        page
    }

    /// The version; all of the page must be of it.
    pub fn version(&self, block: u32) -> u64 {
        let words = self.0[32..].as_chunks::<8>().0;
        let version = u64::from_le_bytes(words[0]);
        assert!(self.0 == Self::new(block, version).0, "block {block} is not whole, or is another one");
        version
    }
}

/// The fork of relation `relation`.
pub fn fork(relation: u32) -> EntFork {
    EntFork { tablespace: 1663, database: 5, relation, fork: 0 }
}

/// The environment variables with a role, which the test `a_role` of the same program plays, and with its
/// folder.
pub const ROLE: &str = "ENTRESOL_PG_ROLE";
pub const FOLDER: &str = "ENTRESOL_PG_FOLDER";

/// A process of a role, killed when dropped.
pub struct Role(Child);

impl Role {
    pub fn start(folder: &Path, role: &str) -> Self {
        let program = std::env::current_exe().unwrap();
        let mut command = Command::new(program);
        command.args(["a_role", "--exact", "--nocapture", "--test-threads=1"]);
        command.env(ROLE, role).env(FOLDER, folder).stdout(Stdio::null());
        Self(command.spawn().unwrap())
    }

    pub fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Waits for its end, which must be a good one.
    pub fn join(mut self) {
        let status = self.0.wait().unwrap();
        assert!(status.success(), "{status}");
    }

    /// Whether it has ended by a signal, as it aborted.
    pub fn aborts(mut self) -> bool {
        use std::os::unix::process::ExitStatusExt;
        self.0.wait().unwrap().signal().is_some()
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn wait_for(path: &Path) {
    while !path.exists() {
        std::thread::yield_now();
    }
}

/// The folder of a cluster, its flash and its shared memory.
pub struct Cluster {
    folder: PathBuf,
    strings: [CString; 6],
    /// Of this process, at the gate.
    pub place: u32,
    /// Memory is reserved for a flash of so many bytes.
    pub max_bytes: u64,
}

impl Cluster {
    /// The cluster in `folder`.
    pub fn at(folder: &Path) -> Self {
        let string = |path: &Path| CString::new(path.to_str().unwrap()).unwrap();
        let strings = [
            string(&folder.join("flash")),
            string(&folder.join("data")),
            c"PG_17_202406281".to_owned(),
            c"face-gsc".to_owned(),
            c"write-back".to_owned(),
            c"unlimited".to_owned(),
        ];
        Self { folder: folder.to_owned(), strings, place: std::process::id() % 16, max_bytes: 0 }
    }

    /// As [`Cluster::at`], in write-through mode.
    pub fn through(folder: &Path) -> Self {
        let mut cluster = Self::at(folder);
        cluster.strings[4] = c"write-through".to_owned();
        cluster
    }

    /// As [`Cluster::at`], with so many writes to flash in a day.
    #[allow(dead_code)] // not of all programs that have this module
    pub fn thrifty(folder: &Path, writes_per_day: &str) -> Self {
        let mut cluster = Self::at(folder);
        cluster.strings[5] = CString::new(writes_per_day).unwrap();
        cluster
    }

    pub fn options(&self) -> EntOptions {
        let [flash, data, version_folder, policy, mode, writes_per_day] = &self.strings;
        EntOptions {
            survives: false,
            flash: flash.as_ptr(),
            data: data.as_ptr(),
            version_folder: version_folder.as_ptr(),
            policy: policy.as_ptr(),
            mode: mode.as_ptr(),
            writes_per_day: writes_per_day.as_ptr(),
            flash_bytes: FLASH_BYTES,
            max_bytes: self.max_bytes,
            objects: 512,
            processes: 16,
            workers: 4,
            checksums: false,
        }
    }

    pub fn file(&self, relation: u32) -> PathBuf {
        self.folder.join("data/base/5").join(relation.to_string())
    }

    /// Makes the file of a relation with pages in version 1.
    pub fn make(&self, relation: u32, blocks: u32) {
        let path = self.file(relation);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let bytes: Vec<u8> = (0..blocks).flat_map(|block| Page::new(block, 1).0).collect();
        fs::write(path, bytes).unwrap();
    }

    /// What the postmaster does: memory of zeros.
    pub fn new_memory(&self) {
        let mut options = self.options();
        let mut bytes = 0;
        // SAFETY: both are there.
        assert_eq!(unsafe { abi::ent_plan(&raw mut options, &raw mut bytes) }, code::DONE, "{}", error());
        let path = self.folder.join("memory");
        let _ = fs::remove_file(&path);
        File::create(path).unwrap().set_len(bytes as u64).unwrap();
    }

    /// The memory, mapped in this process for good.
    fn memory(&self) -> (*mut c_void, usize) {
        let path = self.folder.join("memory");
        let file = File::options().read(true).write(true).open(path).unwrap();
        let bytes = file.metadata().unwrap().len() as usize;
        let both = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: new memory, at an address of the kernel's choice.
        let base = unsafe { mmap(std::ptr::null_mut(), bytes, both, MapFlags::SHARED, &file, 0) };
        (base.unwrap(), bytes)
    }

    pub fn attach(&self) -> i32 {
        self.attach_after(|| ())
    }

    /// Attaches after `work`, with the memory mapped before.
    pub fn attach_after(&self, work: impl FnOnce()) -> i32 {
        let (memory, bytes) = self.memory();
        work();
        // SAFETY: as mapped; the strings live as long as the process.
        unsafe {
            abi::ent_attach(
                &raw const *Box::leak(Box::new(self.options())),
                memory,
                bytes,
                0,
                self.place,
                None,
            )
        }
    }

    pub fn open(&self, cluster: &EntCluster) -> i32 {
        let (memory, bytes) = self.memory();
        let options = self.options();
        // SAFETY: as mapped.
        unsafe { abi::ent_worker_open(&raw const options, memory, bytes, cluster) }
    }

    /// The version of a block on disk.
    pub fn on_disk(&self, relation: u32, block: u32) -> u64 {
        let mut page = Page([0; PAGE]);
        let file = File::open(self.file(relation)).unwrap();
        file.read_exact_at(&mut page.0, u64::from(block) * PAGE as u64).unwrap();
        page.version(block)
    }
}

/// What the last call in vain says.
pub fn error() -> String {
    let mut buffer = [0_u8; 2048];
    // SAFETY: as long as is said.
    let length = unsafe { abi::ent_error(buffer.as_mut_ptr().cast(), buffer.len()) };
    String::from_utf8_lossy(&buffer[..length.min(buffer.len() - 1)]).into_owned()
}

/// Reads a block; `None`: the cache does not have it.
pub fn read(fork: EntFork, block: u32) -> Result<Option<u64>, i32> {
    let mut page = Page([0; PAGE]);
    let pages = [page.0.as_mut_ptr().cast::<c_void>()];
    let mut done = 0;
    // SAFETY: one page.
    match unsafe { abi::ent_read(fork, block, pages.as_ptr(), 1, &raw mut done) } {
        code::DONE => Ok((done == 1).then(|| page.version(block))),
        code => Err(code),
    }
}

pub fn stage(fork: EntFork, block: u32, version: u64, flags: u32) -> i32 {
    let page = Page::new(block, version);
    // SAFETY: a page.
    unsafe { abi::ent_stage(fork, block, page.0.as_ptr().cast(), version, flags) }
}

/// Stages a dirty page, which must be taken.
pub fn put(fork: EntFork, block: u32, version: u64) -> i32 {
    stage(fork, block, version, flag::DIRTY)
}

pub fn stat() -> EntStat {
    let mut stat = EntStat::default();
    // SAFETY: it is there.
    assert_eq!(unsafe { abi::ent_stat(&raw mut stat) }, code::DONE, "{}", error());
    stat
}

/// What the cache has of each fork.
pub fn relations() -> (i32, Vec<EntRelation>) {
    let mut rows = vec![EntRelation::default(); 512];
    let mut n = 0;
    // SAFETY: so many rows.
    let code = unsafe { abi::ent_relations(rows.as_mut_ptr(), 512, &raw mut n) };
    rows.truncate(n as usize);
    (code, rows)
}

/// What the worker's main thread does, until `ends` says so. Then the cache is closed, or left as in a crash.
pub fn serve(mut ends: impl FnMut() -> bool) {
    while !ends() {
        let mut next = EntEvent::default();
        // SAFETY: it is there.
        if unsafe { abi::ent_worker_wait(20, &raw mut next) } != code::DONE {
            continue;
        }
        match next.kind {
            event::PULL => abi::ent_worker_pulled(0),
            event::MESSAGE => eprintln!("worker: {}", error()),
            _ => {
                eprintln!("worker fails: {}", error());
                std::process::abort();
            }
        }
    }
}

/// PostgreSQL writes version 1 of a block past the cache.
pub fn rewrite(cluster: &Cluster, relation: u32, block: u32) {
    write(cluster, relation, block, 1);
}

/// A version of a block is written to its file.
pub fn write(cluster: &Cluster, relation: u32, block: u32, version: u64) {
    let file = File::options().write(true).open(cluster.file(relation)).unwrap();
    file.write_all_at(&Page::new(block, version).0, u64::from(block) * PAGE as u64).unwrap();
}
