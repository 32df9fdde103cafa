//! Small files in the cluster's folders that are replaced as a whole: a crash leaves the old content or the
//! new.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// One of them, there or not.
#[derive(Clone, Debug)]
pub(crate) struct SmallFile(PathBuf);

impl SmallFile {
    /// The file at this path.
    pub fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Its content. `None`: it is not there.
    ///
    /// # Errors
    /// A sentence.
    pub fn read(&self) -> Result<Option<Vec<u8>>, String> {
        match fs::read(&self.0) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.cannot_be("read", &error)),
        }
    }

    /// Makes or replaces it, durably.
    ///
    /// # Errors
    /// A sentence. The old content may be there, or the new.
    pub fn write(&self, content: &[u8]) -> Result<(), String> {
        let write = || -> io::Result<()> {
            let aside = self.0.with_extension("new");
            let mut file = File::create(&aside)?;
            file.write_all(content)?;
            file.sync_all()?;
            fs::rename(aside, &self.0)?;
            self.sync_folder()
        };
        write().map_err(|error| self.cannot_be("written", &error))
    }

    /// Removes it, durably, if it is there.
    ///
    /// # Errors
    /// A sentence.
    pub fn remove(&self) -> Result<(), String> {
        let removed = match fs::remove_file(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.and_then(|()| self.sync_folder()),
        };
        removed.map_err(|error| self.cannot_be("removed", &error))
    }

    fn sync_folder(&self) -> io::Result<()> {
        File::open(self.0.parent().unwrap_or(&self.0))?.sync_all()
    }

    fn cannot_be(&self, what: &str, error: &io::Error) -> String {
        format!("\"{}\" cannot be {what}: {error}", self.0.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let file = SmallFile::at(folder.path().join("note"));
        assert_eq!(file.read(), Ok(None));
        for content in [&b"one"[..], b"", b"three\n"] {
            file.write(content).unwrap();
            assert_eq!(file.read(), Ok(Some(content.to_vec())));
        }
        // Nothing can be written where the new content is written first.
        fs::create_dir(folder.path().join("note.new")).unwrap();
        let error = file.write(b"four").unwrap_err();
        assert!(error.contains("note\" cannot be written: "), "{error}");
        assert_eq!(file.read(), Ok(Some(b"three\n".to_vec())));
        for _ in 0..2 {
            file.remove().unwrap();
            assert_eq!(file.read(), Ok(None));
        }
    }
}
