//! What may be wrong with a segment: each is refused with a sentence, and nothing is changed.

use entresol_shm::atomic::Ordering::SeqCst;
use entresol_shm::{Part, Plan, Segment, SegmentError, atomic::AtomicU64};
use std::fs;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

fn plan(configuration: u64, words: usize) -> Plan {
    let mut plan = Plan::new(configuration);
    plan.slice::<AtomicU64>("words", words);
    plan
}

struct Made {
    directory: tempfile::TempDir,
    path: PathBuf,
    segment: Segment,
}

fn make(plan: &Plan) -> Made {
    let directory = tempfile::tempdir().expect("a place for files");
    let path = directory.path().join("segment");
    let segment = Segment::create(&path, plan).expect("memory").publish().expect("a name");
    Made { directory, path, segment }
}

/// The refusal, which names the file and leaves it as it was.
fn refusal(path: &Path, plan: &Plan) -> String {
    let before = fs::read(path).ok();
    let error = Segment::attach(path, plan).expect_err("it has to be refused");
    assert_eq!(fs::read(path).ok(), before);
    let text = error.to_string();
    text.strip_prefix(&format!("{}: ", path.display())).expect("it says where").to_owned()
}

/// Writes `bytes` at `offset` of the file.
fn damage(path: &Path, offset: u64, bytes: &[u8]) {
    use std::os::unix::fs::FileExt;
    let file = fs::OpenOptions::new().write(true).open(path).expect("it is there");
    file.write_all_at(bytes, offset).expect("it can be written");
}

#[test]
fn other_options_and_layouts_are_refused() {
    let made = make(&plan(1, 100));
    assert!(Segment::attach(&made.path, &plan(1, 100)).is_ok());
    assert_eq!(
        refusal(&made.path, &plan(2, 100)),
        "the segment was made with other options (their hash is 0x0000000000000001, expected \
         0x0000000000000002); give this program the options of the cache's server"
    );
    let longer = refusal(&made.path, &plan(1, 101));
    assert!(longer.starts_with("the segment is laid out in another way"), "{longer}");
    let mut renamed = Plan::new(1);
    renamed.slice::<AtomicU64>("numbers", 100);
    let renamed = refusal(&made.path, &renamed);
    assert!(renamed.starts_with("the segment is laid out in another way"), "{renamed}");
    let mut other_type = Plan::new(1);
    other_type.slice::<[AtomicU64; 2]>("words", 50);
    let other_type = refusal(&made.path, &other_type);
    assert!(other_type.starts_with("the segment is laid out in another way"), "{other_type}");
}

#[test]
fn other_versions_and_sizes_are_refused() {
    let plan = plan(1, 1000);
    let bytes = plan.total_bytes().expect("it is small");
    let made = make(&plan);
    damage(&made.path, 8, &2u32.to_le_bytes());
    assert_eq!(
        refusal(&made.path, &plan),
        "a segment of version 2, expected version 1; run the same release here as the cache's server does"
    );

    let made = make(&plan);
    damage(&made.path, 16, &(bytes as u64 - 8).to_le_bytes());
    assert_eq!(
        refusal(&made.path, &plan),
        format!("the segment has {} bytes, expected {bytes}; restart the cache's server", bytes - 8)
    );

    for length in [bytes as u64 + 1, bytes as u64 - 1, 64, 63, 0] {
        let made = make(&plan);
        let file = fs::OpenOptions::new().write(true).open(&made.path).expect("it is there");
        drop(made.segment);
        file.set_len(length).expect("it can be cut");
        assert_eq!(
            refusal(&made.path, &plan),
            format!("the segment has {length} bytes, expected {bytes}; restart the cache's server")
        );
    }
}

#[test]
fn what_is_no_segment_is_refused() {
    let plan = plan(1, 1000);
    let made = make(&plan);
    damage(&made.path, 0, b"another!");
    assert_eq!(
        refusal(&made.path, &plan),
        "no published segment is there (it begins with 0x21726568746f6e61, expected 0x314d485352544e45); \
         start the cache's server first, and check the path"
    );
    let missing = refusal(&made.directory.path().join("none"), &plan);
    assert!(missing.starts_with("cannot open the file: No such file"), "{missing}");
    let folder = refusal(made.directory.path(), &plan);
    assert!(folder.starts_with("cannot open the file: Is a directory"), "{folder}");
    let device = Segment::attach(Path::new("/dev/zero"), &plan).expect_err("it is no file").to_string();
    assert!(device.starts_with("/dev/zero: the segment has 0 bytes"), "{device}");
}

#[test]
fn more_than_there_is_is_refused() {
    let directory = tempfile::tempdir().expect("a place for files");
    let path = directory.path().join("segment");
    for words in [usize::MAX, usize::MAX / 8, usize::MAX / 16] {
        let refused = Segment::create(&path, &plan(1, words)).expect_err("it is too large");
        assert!(matches!(refused, SegmentError::TooLarge { .. }), "{refused}");
    }
    // Nothing of it is reserved, not even for a moment: that would take the memory of other programs.
    let refused = Segment::create(&path, &plan(1, 1 << 47)).expect_err("it is too large");
    assert!(matches!(refused, SegmentError::Memory { .. }), "{refused}");
    assert!(refused.to_string().contains("the segment needs 1125899906842688 bytes"), "{refused}");
    let nowhere = directory.path().join("no/such/folder");
    let refused = Segment::create(&nowhere, &plan(1, 1)).expect_err("no folder");
    assert!(refused.to_string().contains("cannot make the file: No such file"), "{refused}");
    assert_eq!(fs::read_dir(directory.path()).expect("a folder").count(), 0, "nothing is left");
}

#[test]
fn a_segment_is_found_when_it_is_published_and_replaces_another_one() {
    let (old, new) = (plan(1, 10), plan(2, 20));
    let made = make(&old);
    let next = Segment::create(&made.path, &new).expect("memory");
    assert!(Segment::attach(&made.path, &old).is_ok(), "the older one is still there");
    assert_eq!(fs::read_dir(made.directory.path()).expect("a folder").count(), 2);
    let next = next.publish().expect("a name");
    assert_eq!(Segment::attach(&made.path, &new).expect("the new one").id(), next.id());
    assert_ne!(next.id(), made.segment.id());
    let given_up = Segment::create(&made.path, &new).expect("memory");
    drop(given_up);
    assert_eq!(fs::read_dir(made.directory.path()).expect("a folder").count(), 1);

    let memfd = Segment::create_memfd(&new).expect("memory");
    let descriptor = || memfd.descriptor().expect("it has one").try_clone_to_owned().expect("a free number");
    let (early, late) = (descriptor(), descriptor());
    let refused = Segment::attach_fd(early, &new).expect_err("it is not published");
    assert!(matches!(refused, SegmentError::NotASegment { found: 0, .. }), "{refused}");
    let file =
        fs::File::from(memfd.descriptor().expect("it has one").try_clone_to_owned().expect("a number"));
    assert!(file.set_len(1).is_err() && file.set_len(1 << 20).is_err(), "its length is sealed");
    let memfd = memfd.publish().expect("it has no name");
    assert_eq!(Segment::attach_fd(late, &new).expect("it is published").id(), memfd.id());
}

/// As in memory that a database server gives to its processes.
#[test]
#[allow(unsafe_code)]
fn memory_of_the_caller_holds_a_segment() {
    let mut plan = Plan::new(5);
    let part: Part<AtomicU64> = plan.part("word");
    let bytes = plan.total_bytes().expect("it is small");
    #[repr(align(64))]
    struct Memory([u8; 256]);
    let memory = Box::leak(Box::new(Memory([0xaa; 256])));
    let base = NonNull::from(&mut memory.0).cast::<u8>();
    assert!(bytes < 255);
    // SAFETY: the memory is never freed, and is used through segments alone from here on. What is asked for
    // beyond its end is refused before it is touched.
    unsafe {
        let refused = Segment::attach_over(base, 256, &plan).expect_err("nothing is there");
        assert!(matches!(refused, SegmentError::NotASegment { .. }), "{refused}");
        let refused = Segment::create_over(base, bytes - 1, &plan).expect_err("too short");
        assert!(matches!(refused, SegmentError::Size { .. }), "{refused}");
        let refused = Segment::create_over(base.add(8), 248, &plan).expect_err("not aligned");
        assert!(refused.to_string().ends_with("the memory is not aligned to 64 bytes"), "{refused}");
        let new = Segment::create_over(base, 256, &plan).expect("it fits");
        assert!(Segment::attach_over(base, 256, &plan).is_err(), "it is not published");
        let made = new.publish().expect("it has no name");
        let other = Segment::attach_over(base, 256, &plan).expect("it is published");
        assert_eq!(made.part(&part).load(SeqCst), 0, "the memory was cleared");
        made.part(&part).store(11, SeqCst);
        assert_eq!((other.part(&part).load(SeqCst), other.id()), (11, made.id()));
        let refused = Segment::attach_over(base, 256, &{
            let mut plan = Plan::new(6);
            plan.part::<AtomicU64>("word");
            plan
        });
        assert!(matches!(refused, Err(SegmentError::Configuration { expected: 6, found: 5, .. })));
    }
}
