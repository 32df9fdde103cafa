//! Bytes of a trace file: decompressed as they are read, with a first look at their beginning.
//!
//! Invariant: nothing is held of the content but its head and one buffer, whatever its length.

use crate::{Place, TraceError, Watch};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// How much of the beginning is looked at to recognise the format.
pub(crate) const HEAD_BYTES: usize = 64 << 10;
/// Size of its buffer.
const BUFFER_BYTES: usize = 256 << 10;
/// Records that are read together.
const RECORDS: usize = 8192;
/// Longest line of a text format.
const LINE_BYTES_MAX: u64 = 64 << 10;

const ZSTD: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
const GZIP: [u8; 3] = [0x1F, 0x8B, 0x08];
/// The largest window that zstd has: `zstd --long=31`, 2 GiB of memory if a frame asks for it.
const ZSTD_WINDOW_LOG_MAX: u32 = 31;
/// How files of other packers begin, their names, and what unpacks them.
const PACKED: [(&[u8], &str, &str); 6] = [
    (&[0xFD, b'7', b'z', b'X', b'Z', 0], "xz", "xz -dc"),
    (b"BZh", "bzip2", "bzip2 -dc"),
    (b"PK\x03\x04", "zip", "unzip -p"),
    (&[0x04, 0x22, 0x4D, 0x18], "lz4", "lz4 -dc"),
    (&[b'7', b'z', 0xBC, 0xAF, 0x27, 0x1C], "7z", "7z x -so"),
    (&[0x1F, 0x9D], "compress", "uncompress -c"),
];
/// Bytes of the beginning that tell the packer.
const MAGIC_BYTES: usize = 10;
/// A byte order mark, before a text in UTF-8.
pub(crate) const MARK: &[u8] = b"\xEF\xBB\xBF";

/// The packer of a file, and the command that unpacks it, if that is not done here.
fn packer(magic: &[u8]) -> Option<(&'static str, &'static str)> {
    let of_blocks = |name: &str| {
        // Three letters are not much: a level and the mark of a block follow.
        name != "bzip2" || (matches!(magic.get(3), Some(b'1'..=b'9')) && magic[4..].starts_with(b"1AY&SY"))
    };
    let found = PACKED.into_iter().find(|(begin, name, _)| magic.starts_with(begin) && of_blocks(name));
    found.map(|(_, name, unpack)| (name, unpack))
}

/// The content of a trace.
pub(crate) struct Input<'a> {
    name: String,
    path: PathBuf,
    compression: &'static str,
    head: Cursor<Vec<u8>>,
    rest: BufReader<Box<dyn Read + 'a>>,
    /// Whether `head` is all there is.
    whole: bool,
}

impl Input<'static> {
    /// Opens a file, whose reads are told to `watch`.
    pub fn open(path: &Path, watch: Option<Watch>) -> Result<Self, TraceError> {
        let io = |source| TraceError::Io { path: path.to_owned(), action: "opening", source };
        let file = File::open(path).map_err(io)?;
        if file.metadata().map_err(io)?.is_dir() {
            return Err(io(io::Error::new(ErrorKind::IsADirectory, "it is a folder, not a file")));
        }
        match watch {
            None => Self::new(path, file),
            Some(watch) => {
                let all = file.metadata().map_err(io)?.len();
                Self::new(path, Watched { file, done: 0, all, watch })
            }
        }
    }
}

/// A file whose reads are told.
struct Watched {
    file: File,
    done: u64,
    all: u64,
    watch: Watch,
}

impl Read for Watched {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(into)?;
        self.done += read as u64;
        self.watch.tell(self.done, self.all);
        Ok(read)
    }
}

impl<'a> Input<'a> {
    /// The content that `raw` gives, compressed or not; `path` is what messages call it.
    pub fn new(path: &Path, raw: impl Read + 'a) -> Result<Self, TraceError> {
        let mut input = Self {
            name: path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(),
            path: path.to_owned(),
            compression: "",
            head: Cursor::new(Vec::new()),
            rest: BufReader::new(Box::new(io::empty())),
            whole: false,
        };
        let mut raw = BufReader::with_capacity(BUFFER_BYTES, raw);
        let mut magic = Vec::with_capacity(MAGIC_BYTES);
        let got = (&mut raw).take(MAGIC_BYTES as u64).read_to_end(&mut magic);
        got.map_err(|error| input.failed(0, error))?;
        if let Some((packer, unpack)) = packer(&magic) {
            return Err(TraceError::Packed { name: input.name, packer, unpack });
        }
        let raw = Cursor::new(magic.clone()).chain(raw);
        let content: Box<dyn Read + 'a> = if magic.starts_with(&ZSTD) {
            input.compression = "zstd";
            let mut decoder =
                zstd::stream::read::Decoder::new(raw).map_err(|error| input.failed(0, error))?;
            decoder.window_log_max(ZSTD_WINDOW_LOG_MAX).map_err(|error| input.failed(0, error))?;
            Box::new(decoder)
        } else if magic.starts_with(&GZIP) {
            input.compression = "gzip";
            Box::new(flate2::bufread::MultiGzDecoder::new(raw))
        } else {
            Box::new(raw)
        };
        input.rest = BufReader::with_capacity(BUFFER_BYTES, content);
        let mut head = Vec::new();
        let got = (&mut input.rest).take(HEAD_BYTES as u64).read_to_end(&mut head);
        got.map_err(|error| input.failed(0, error))?;
        input.whole = head.len() < HEAD_BYTES;
        input.head = Cursor::new(head);
        Ok(input)
    }

    /// What messages call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its beginning, and whether that is all of it.
    pub fn head(&self) -> (&[u8], bool) {
        (self.head.get_ref(), self.whole)
    }

    /// The error for a failed read near byte `offset` of the content.
    fn failed(&self, offset: u64, error: io::Error) -> TraceError {
        if error.kind() == ErrorKind::UnexpectedEof && !self.compression.is_empty() {
            let reason = format!("its {} stream ends before its end mark", self.compression);
            return TraceError::CutOff { name: self.name.clone(), reason };
        }
        // A file system's errors have a number of the operating system; a decoder's have none.
        if self.compression.is_empty() || error.raw_os_error().is_some() {
            return TraceError::Io { path: self.path.clone(), action: "reading", source: error };
        }
        let reason = format!("after it, the {} stream is damaged ({error})", self.compression);
        TraceError::Damaged { name: self.name.clone(), place: Place::Byte(offset), reason }
    }

    /// Fills `into` from `offset` of the content on; less than all of it at the end only.
    pub fn fill(&mut self, into: &mut [u8], offset: u64) -> Result<usize, TraceError> {
        let mut filled = 0;
        while filled < into.len() {
            match self.read_some(&mut into[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(offset + filled as u64, error)),
            }
        }
        Ok(filled)
    }

    fn read_some(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.head.read(into)? {
            0 => self.rest.read(into),
            read => Ok(read),
        }
    }
}

/// The content as records of `RECORD` bytes.
pub(crate) struct Records<'i, 'a, const RECORD: usize> {
    input: &'i mut Input<'a>,
    buffer: Vec<u8>,
    offset: u64,
}

impl<'i, 'a, const RECORD: usize> Records<'i, 'a, RECORD> {
    pub fn new(input: &'i mut Input<'a>) -> Self {
        Self { input, buffer: vec![0; RECORD * RECORDS], offset: 0 }
    }

    /// Gives every record with the offset of its first byte to `each`.
    ///
    /// # Errors
    /// What `each` returns; [`TraceError::CutOff`] if the last record is not whole; a failed read.
    pub fn each(
        self,
        mut each: impl FnMut(&[u8; RECORD], u64) -> Result<(), TraceError>,
    ) -> Result<(), TraceError> {
        self.batches(|records, mut offset| {
            for record in records {
                each(record, offset)?;
                offset += RECORD as u64;
            }
            Ok(())
        })
    }

    /// Gives all records, many at a time, with the offset of their first byte to `batch`.
    ///
    /// # Errors
    /// As [`Records::each`].
    pub fn batches(
        mut self,
        mut batch: impl FnMut(&[[u8; RECORD]], u64) -> Result<(), TraceError>,
    ) -> Result<(), TraceError> {
        loop {
            let filled = self.input.fill(&mut self.buffer, self.offset)?;
            let (records, rest) = self.buffer[..filled].as_chunks::<RECORD>();
            batch(records, self.offset)?;
            self.offset += size_of_val(records) as u64;
            if !rest.is_empty() {
                let name = self.input.name.clone();
                let reason = format!("its last record has {} of {RECORD} bytes", rest.len());
                return Err(TraceError::CutOff { name, reason });
            }
            if filled < self.buffer.len() {
                return Ok(());
            }
        }
    }
}

/// The content as lines.
pub(crate) struct Lines<'i, 'a> {
    input: &'i mut Input<'a>,
    line: Vec<u8>,
    number: u64,
    offset: u64,
}

impl<'i, 'a> Lines<'i, 'a> {
    pub fn new(input: &'i mut Input<'a>) -> Self {
        Self { input, line: Vec::new(), number: 0, offset: 0 }
    }

    /// The next line without its end, or `None` after the last one.
    ///
    /// # Errors
    /// A failed read, or a line of more than 64 KiB or that is not UTF-8.
    pub fn next(&mut self) -> Result<Option<&str>, TraceError> {
        self.line.clear();
        self.number += 1;
        let in_head = (&mut self.input.head).take(LINE_BYTES_MAX).read_until(b'\n', &mut self.line);
        in_head.map_err(|error| self.input.failed(self.offset, error))?;
        if self.line.last() != Some(&b'\n') {
            let room = LINE_BYTES_MAX.saturating_sub(self.line.len() as u64);
            let in_rest = (&mut self.input.rest).take(room).read_until(b'\n', &mut self.line);
            in_rest.map_err(|error| self.input.failed(self.offset, error))?;
        }
        self.offset += self.line.len() as u64;
        if self.line.is_empty() {
            return Ok(None);
        }
        if self.line.len() as u64 == LINE_BYTES_MAX {
            return Err(self.damaged(format!("a line of more than {LINE_BYTES_MAX} bytes")));
        }
        let line = match self.number {
            1 => self.line.strip_prefix(MARK).unwrap_or(&self.line),
            _ => &self.line,
        };
        match std::str::from_utf8(line) {
            Ok(text) => Ok(Some(text.trim_end_matches(['\n', '\r']))),
            Err(_) => Err(self.damaged("bytes that are no text".to_owned())),
        }
    }

    /// The error for the line read last.
    pub fn damaged(&self, reason: String) -> TraceError {
        TraceError::Damaged { name: self.input.name.clone(), place: self.place(), reason }
    }

    /// The line read last.
    pub fn place(&self) -> Place {
        Place::Line(self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(content: &[u8]) -> Vec<String> {
        let mut input = Input::new(Path::new("t"), content).expect("readable");
        let mut lines = Lines::new(&mut input);
        let mut all = Vec::new();
        while let Some(line) = lines.next().expect("text") {
            all.push(line.to_owned());
        }
        all
    }

    #[test]
    fn lines_end_with_or_without_carriage_returns_and_cross_the_head() {
        assert_eq!(lines_of(b"one\r\ntwo\n\nfour"), ["one", "two", "", "four"]);
        let long: String = (0..20_000).map(|n| format!("{n}\n")).collect();
        assert!(long.len() > HEAD_BYTES);
        let lines = lines_of(long.as_bytes());
        assert_eq!(lines.len(), 20_000);
        assert!(lines.iter().enumerate().all(|(n, line)| *line == n.to_string()));
        assert_eq!(lines_of(&zstd::encode_all(long.as_bytes(), 1).expect("memory")), lines);
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_text() {
        assert_eq!(lines_of(b"\xEF\xBB\xBFone\n\xEF\xBB\xBFtwo"), ["one", "\u{feff}two"]);
        assert_eq!(lines_of(b"\xEF\xBB\xBF\n1"), ["", "1"]);
    }

    #[test]
    fn other_packers_are_named() {
        for (bytes, packer) in [
            (&b"\xFD7zXZ\0\0\x04"[..], "xz"),
            (b"BZh91AY&SY", "bzip2"),
            (b"PK\x03\x04\x14", "zip"),
            (b"\x04\x22\x4D\x18", "lz4"),
            (b"7z\xBC\xAF\x27\x1C", "7z"),
            (b"\x1F\x9D\x90", "compress"),
        ] {
            let refused = Input::new(Path::new("t"), bytes).err().expect("packed").to_string();
            assert!(refused.contains(packer) && refused.contains("zstd"), "{refused}");
        }
        assert!(Input::new(Path::new("t"), &b"BZh,1,2\n"[..]).is_ok(), "a text");
    }

    #[test]
    fn records_cross_buffers_and_the_last_must_be_whole() {
        let content: Vec<u8> = (0..100_000_u32).flat_map(|n| n.to_le_bytes()).collect();
        let mut input = Input::new(Path::new("t"), &content[..]).expect("readable");
        let mut next = 0_u32;
        let done = Records::<4>::new(&mut input).each(|record, offset| {
            assert_eq!((u32::from_le_bytes(*record), offset), (next, u64::from(next) * 4));
            next += 1;
            Ok(())
        });
        done.expect("whole records");
        assert_eq!(next, 100_000);
        let mut input = Input::new(Path::new("t"), &content[..10]).expect("readable");
        let cut = Records::<4>::new(&mut input).each(|_, _| Ok(())).expect_err("two bytes are missing");
        assert_eq!(
            cut.to_string(),
            "t is cut off: its last record has 2 of 4 bytes; fetch or capture the trace again"
        );
    }

    #[test]
    fn truncated_streams_are_cut_off() {
        let text: Vec<u8> =
            (0..50_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        let zstd = zstd::encode_all(&text[..], 1).expect("memory");
        let mut gzip = Vec::new();
        flate2::read::GzEncoder::new(&text[..], flate2::Compression::fast())
            .read_to_end(&mut gzip)
            .expect("memory");
        for packed in [zstd, gzip] {
            for end in [packed.len() - 1, packed.len() / 2, 20] {
                let read = Input::new(Path::new("t"), &packed[..end])
                    .and_then(|mut input| Records::<4>::new(&mut input).each(|_, _| Ok(())));
                assert!(matches!(read, Err(TraceError::CutOff { .. })), "{end}: {read:?}");
            }
        }
    }
}
