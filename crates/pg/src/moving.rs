//! The note of an exchange of the flash, `DATA/entresol/moving`: the old path and the new one, a line each.
//!
//! 1. `entresol_move_flash` writes the note, durably.
//! 2. It changes the setting.
//! 3. The worker drains the cache, ends it, and begins one on the new flash.
//! 4. The worker removes the note.
//!
//! A server that is started in between finds a setting that may name the one or the other. The label knows
//! which of them has the cluster's cache, and the note where the old one is.

use crate::locator::Folders;
use crate::small_file::SmallFile;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// See the module's header.
pub(crate) struct Moving(SmallFile);

impl Moving {
    /// In the cluster's folder.
    pub fn of(folders: &Folders) -> Self {
        Self(SmallFile::at(folders.binding().join("moving")))
    }

    /// The old and the new path.
    fn read(&self) -> Option<[PathBuf; 2]> {
        let text = self.0.read().ok()??;
        let mut lines = text.strip_suffix(b"\n")?.split(|byte| *byte == b'\n');
        let mut path = || Some(PathBuf::from(std::ffi::OsString::from_vec(lines.next()?.to_vec())));
        Some([path()?, path()?])
    }

    /// The old path, if the flash is being exchanged for the one at `to`.
    pub fn from(&self, to: &Path) -> Option<PathBuf> {
        let [old, new] = self.read()?;
        (new == to).then_some(old)
    }

    /// An exchange of `from` for `to` begins.
    ///
    /// # Errors
    /// A sentence.
    pub fn begins(&self, from: &Path, to: &Path) -> Result<(), String> {
        self.0.write(&[from.as_os_str().as_bytes(), b"\n", to.as_os_str().as_bytes(), b"\n"].concat())
    }

    /// No exchange is under way.
    ///
    /// # Errors
    /// A sentence.
    pub fn ends(&self) -> Result<(), String> {
        self.0.remove()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exchange_is_known_until_it_ends() {
        let folder = tempfile::tempdir().unwrap();
        let moving = Moving(SmallFile::at(folder.path().join("moving")));
        assert_eq!(moving.from(Path::new("/b")), None);
        moving.begins(Path::new("/a"), Path::new("/b")).unwrap();
        assert_eq!(moving.from(Path::new("/b")), Some("/a".into()));
        assert_eq!(moving.from(Path::new("/a")), None, "the setting was not changed yet");
        // A note that was cut off says nothing.
        moving.0.write(b"/a\n/b").unwrap();
        assert_eq!(moving.from(Path::new("/b")), None);
        moving.ends().unwrap();
        moving.ends().unwrap();
        assert_eq!(moving.from(Path::new("/b")), None);
    }
}
