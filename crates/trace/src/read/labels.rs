//! Names for the objects of a trace, from a TOML file:
//!
//! ```toml
//! [relations]
//! 16424 = "stock"
//! ```
//!
//! The keys are the trace's own names of its objects (PostgreSQL: relfilenodes). Invariant: an object without
//! an entry keeps its own name.

use crate::TraceError;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Names of objects.
#[derive(Debug, Default)]
pub(crate) struct Labels(BTreeMap<String, String>);

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    relations: BTreeMap<String, String>,
}

impl Labels {
    /// From `option`; else from `TRACE.relations.toml` or `relations.toml` next to the trace; else none.
    pub fn beside(trace: &Path, option: Option<&Path>) -> Result<Self, TraceError> {
        if option.is_some() {
            return Self::from_option(option);
        }
        let found = Self::usual(trace).into_iter().find(|path| path.is_file());
        Self::from_option(found.as_deref())
    }

    /// The files next to a trace that may have them.
    pub fn usual(trace: &Path) -> [PathBuf; 2] {
        [with_suffix(trace, ".relations.toml"), trace.with_file_name("relations.toml")]
    }

    /// From `option`, else none.
    pub fn from_option(option: Option<&Path>) -> Result<Self, TraceError> {
        let Some(path) = option else { return Ok(Self::default()) };
        let text = std::fs::read_to_string(path).map_err(|source| TraceError::Io {
            path: path.to_owned(),
            action: "reading",
            source,
        })?;
        Self::parse(&text).map_err(|why| {
            TraceError::Option(format!(
                "{}: no table [relations] with entries such as 16424 = \"stock\" ({why})",
                path.display()
            ))
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        Ok(Self(file.relations))
    }

    /// The name of the object that the trace calls `label`. A fork (`16424_vm`) is called after its relation
    /// (`stock_vm`).
    pub fn name(&self, label: &str) -> String {
        if let Some(name) = self.0.get(label) {
            return name.clone();
        }
        let fork = label.rsplit_once('_').and_then(|(relation, fork)| Some((self.0.get(relation)?, fork)));
        fork.map_or_else(|| label.to_owned(), |(name, fork)| format!("{name}_{fork}"))
    }
}

/// The trace's path without a compression's ending and with `suffix`.
pub(super) fn with_suffix(trace: &Path, suffix: &str) -> PathBuf {
    let name = trace.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let bare = [".zst", ".gz"].into_iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name);
    trace.with_file_name(format!("{bare}{suffix}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forks_are_called_after_their_relation() {
        let labels = Labels::parse("[relations]\n16424 = \"stock\"\n\"usr.0\" = \"home\"").expect("a table");
        let names = ["16424", "16424_vm", "usr.0", "16425", "a_b"].map(|label| labels.name(label));
        assert_eq!(names, ["stock", "stock_vm", "home", "16425", "a_b"]);
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["", "relations = 3", "[relations]\na = 1", "[relation]\na = \"b\"", "[relations"] {
            assert!(Labels::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn files_beside_lose_the_compression() {
        let path = |name: &str| with_suffix(Path::new(name), ".pages");
        assert_eq!(path("d/t.bin.zst"), Path::new("d/t.bin.pages"));
        assert_eq!(path("t"), Path::new("t.pages"));
    }
}
