//! Exports of a server, and their properties.
//!
//! Invariant: each export of an [`Exports`] can be told to a client as the specification demands it.

use crate::proto;
use thiserror::Error;

/// Bytes of the largest read or write.
pub const REQUEST_BYTES_MAX: u32 = 32 << 20;

/// Block size constraints of an export, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSizes {
    /// Offset and length of every request are multiples of it. A power of two, at most 64 KiB.
    pub minimum: u32,
    /// Requests of this size and alignment are the best. A power of two, at least the minimum and 512.
    pub preferred: u32,
    /// Longest read or write. A multiple of the minimum, at least the preferred size, at most
    /// [`REQUEST_BYTES_MAX`].
    pub maximum: u32,
}

impl Default for BlockSizes {
    fn default() -> Self {
        Self { minimum: 512, preferred: 4096, maximum: REQUEST_BYTES_MAX }
    }
}

impl BlockSizes {
    fn possible(&self) -> bool {
        self.minimum.is_power_of_two()
            && self.minimum <= 64 << 10
            && self.preferred.is_power_of_two()
            && self.preferred >= self.minimum.max(512)
            && self.maximum >= self.preferred
            && self.maximum <= REQUEST_BYTES_MAX
            && self.maximum.is_multiple_of(self.minimum)
    }
}

/// A range of bytes that clients may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Its name, at most 4096 bytes.
    pub name: String,
    /// A sentence for people, at most 4096 bytes. Empty: none.
    pub description: String,
    /// Its size in bytes, a multiple of the minimum block size.
    pub bytes: u64,
    /// Constraints on the requests.
    pub blocks: BlockSizes,
    /// Everything that writes is refused.
    pub read_only: bool,
    /// Tells the client that seeks are slow.
    pub rotational: bool,
    /// A flush or FUA on one connection covers the completed writes of all, and all see them.
    pub multi_conn: bool,
    /// The client may ask that zeros are written only if that is fast (`NBD_CMD_FLAG_FAST_ZERO`).
    pub fast_zero: bool,
}

impl Export {
    /// A writable export that may be used over several connections.
    pub fn new(name: impl Into<String>, bytes: u64) -> Self {
        Self {
            name: name.into(),
            description: String::new(),
            bytes,
            blocks: BlockSizes::default(),
            read_only: false,
            rotational: false,
            multi_conn: true,
            fast_zero: false,
        }
    }

    /// Transmission flags. `structured`: the client has negotiated structured replies.
    pub(crate) fn flags(&self, structured: bool) -> u16 {
        let always = proto::NBD_FLAG_HAS_FLAGS
            | proto::NBD_FLAG_SEND_FLUSH
            | proto::NBD_FLAG_SEND_FUA
            | proto::NBD_FLAG_SEND_CACHE;
        let writing = proto::NBD_FLAG_SEND_TRIM | proto::NBD_FLAG_SEND_WRITE_ZEROES;
        let set = |condition, flags| if condition { flags } else { 0 };
        always
            | set(self.read_only, proto::NBD_FLAG_READ_ONLY)
            | set(!self.read_only, writing)
            | set(!self.read_only && self.fast_zero, proto::NBD_FLAG_SEND_FAST_ZERO)
            | set(self.rotational, proto::NBD_FLAG_ROTATIONAL)
            | set(self.multi_conn, proto::NBD_FLAG_CAN_MULTI_CONN)
            | set(structured, proto::NBD_FLAG_SEND_DF)
    }

    fn check(&self) -> Result<(), ExportError> {
        let fault = |fault| Err(ExportError { export: self.name.clone(), fault });
        let possible = |text: &str| text.len() <= proto::STRING_BYTES_MAX && !text.contains('\0');
        if !possible(&self.name) || !possible(&self.description) {
            return fault(ExportFault::Text);
        }
        if !self.blocks.possible() {
            return fault(ExportFault::BlockSizes { found: self.blocks });
        }
        if !self.bytes.is_multiple_of(self.blocks.minimum.into()) || self.bytes > i64::MAX as u64 {
            return fault(ExportFault::Bytes { found: self.bytes, minimum: self.blocks.minimum });
        }
        Ok(())
    }
}

/// The exports of a server, in the order in which they are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exports(Vec<Export>);

impl Exports {
    /// Checks each of them, and that their names differ.
    pub fn new(exports: Vec<Export>) -> Result<Self, ExportError> {
        for (at, export) in exports.iter().enumerate() {
            export.check()?;
            if exports[..at].iter().any(|other| other.name == export.name) {
                return Err(ExportError { export: export.name.clone(), fault: ExportFault::Twice });
            }
        }
        Ok(Self(exports))
    }

    /// The same, with another size of the one called `name`: a multiple of its minimum block size, rounded
    /// down.
    #[must_use]
    pub fn with_bytes(&self, name: &str, bytes: u64) -> Self {
        let mut exports = self.clone();
        for export in exports.0.iter_mut().filter(|export| export.name == name) {
            let minimum = u64::from(export.blocks.minimum);
            export.bytes = bytes / minimum * minimum;
        }
        exports
    }

    /// All of them.
    pub fn as_slice(&self) -> &[Export] {
        &self.0
    }

    /// Index of the export that a client means by `name`. The empty name is that of the default export: the
    /// one called so, else the first.
    pub fn find(&self, name: &str) -> Option<usize> {
        let named = self.0.iter().position(|export| export.name == name);
        named.or((name.is_empty() && !self.0.is_empty()).then_some(0))
    }
}

/// An export cannot be offered.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("export {export:?}: {fault}")]
pub struct ExportError {
    /// Its name.
    pub export: String,
    /// The mistake.
    pub fault: ExportFault,
}

/// Why an export cannot be offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ExportFault {
    /// Name or description are too long, or have a NUL.
    #[error("name or description have a NUL, or more than {} bytes", proto::STRING_BYTES_MAX)]
    Text,
    /// The constraints contradict the specification, or each other.
    #[error(
        "block sizes {} (minimum), {} (preferred), {} (maximum) are impossible",
        found.minimum, found.preferred, found.maximum
    )]
    BlockSizes {
        /// Those given.
        found: BlockSizes,
    },
    /// The size is no multiple of the minimum block size, or too large.
    #[error("{found} bytes found, expected a multiple of {minimum}, at most {}", i64::MAX)]
    Bytes {
        /// The size given.
        found: u64,
        /// The minimum block size.
        minimum: u32,
    },
    /// Another export has the same name.
    #[error("two exports have this name")]
    Twice,
}
