//! Where a hunt looks for its mutant: the caches, or the store, in which the mutant can have an effect. Not
//! which symptom to look for.
//!
//! The file of a mutant names its aim: a word, and for some words a list, as in `lives
//! face,face-gr/write-back` or `store disk-only,lc`.

use crate::Subject;
use crate::raw::Kind;
use crate::torture::Target;
use std::str::FromStr;

/// The trials that a hunt tries first and most often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Aim {
    /// `caches`: quick tortures of caches of these names.
    Caches(Vec<String>),
    /// `lives`: lives of such caches, with very few crashes.
    Lives(Vec<String>),
    /// `damage`: silent damage to such caches.
    Damage(Vec<String>),
    /// `lost-writes` of such caches.
    LostWrites(Vec<String>),
    /// `unreadable` sectors on the devices of such caches.
    Unreadable(Vec<String>),
    /// `store`: crashes of a store during transactions, on these systems in turn.
    Store(Vec<Subject>),
    /// `slow-log`: as `store`, with a slow log device.
    SlowLog(Vec<Subject>),
    /// `restarts`: crashes of a store, each followed by crashes of the lives after it, on the disk alone.
    Restarts,
    /// `late-restarts`: crashes of a store after a long life, each followed by crashes of the restarts, on
    /// these systems in turn.
    LateRestarts(Vec<Subject>),
    /// `leftovers`: a log that grows over the leftovers of a torn flush.
    Leftovers,
    /// `damaged-flash`: a store whose flash is damaged while the machine is off, with crashes of the restarts
    /// after that.
    DamagedFlash,
    /// `kills`: programs that are killed one after another, before power fails.
    Kills,
    /// `birth`: crashes while a store is created and loaded.
    Birth,
    /// `detached`: caches that are detached after a crash and damage.
    Detached,
    /// `exchanged`: disk, log and flash from different moments.
    Exchanged,
    /// `media`: disk, log or flash with damaged or unreadable sectors.
    Media,
    /// `flash-dies`: the flash dies at a power failure, on these systems in turn, whose log is kept for that.
    FlashDies(Vec<Subject>),
    /// `full-disk`: a disk that becomes full.
    FullDisk,
    /// `crowd`: hundreds of clients on the smallest log.
    Crowd,
    /// `tables`: more tables than fit into the log.
    Tables,
    /// `raw`: caches of pages of others that are flushed and forgotten: those of one kind.
    Raw(Kind),
    /// `page-by-page`: as `raw`, of the policy that writes page by page, at many moments of each life.
    PageByPage,
}

/// The caches of these names.
fn caches(names: &str) -> Result<Vec<String>, String> {
    let known = |name: &str| match Target::named(name).is_empty() {
        true => Err(format!("there is no cache {name:?}")),
        false => Ok(name.to_owned()),
    };
    names.split(',').map(known).collect()
}

/// The systems of these names.
fn systems(names: &str) -> Result<Vec<Subject>, String> {
    let known = |name: &str| Subject::from_name(name).ok_or_else(|| format!("there is no system {name:?}"));
    names.split(',').map(known).collect()
}

fn kind(name: &str) -> Result<Kind, String> {
    Ok(match name {
        "raw" => Kind::Raw,
        "postgres" => Kind::Postgres,
        "objects" => Kind::Objects,
        "door" => Kind::Door,
        "kept" => Kind::Kept,
        "at-shutdown" => Kind::AtShutdown,
        _ => {
            return Err(format!(
                "there is no kind {name:?}; known are raw, postgres, objects, door, kept and at-shutdown"
            ));
        }
    })
}

impl FromStr for Aim {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (word, list) = text.split_once(' ').unwrap_or((text, ""));
        let aim = match word {
            "caches" => Self::Caches(caches(list)?),
            "lives" => Self::Lives(caches(list)?),
            "damage" => Self::Damage(caches(list)?),
            "lost-writes" => Self::LostWrites(caches(list)?),
            "unreadable" => Self::Unreadable(caches(list)?),
            "store" => Self::Store(systems(list)?),
            "slow-log" => Self::SlowLog(systems(list)?),
            "late-restarts" => Self::LateRestarts(systems(list)?),
            "flash-dies" => Self::FlashDies(systems(list)?),
            "raw" => Self::Raw(kind(list)?),
            _ if !list.is_empty() => return Err(format!("there is no aim {word:?} with a list")),
            "restarts" => Self::Restarts,
            "leftovers" => Self::Leftovers,
            "damaged-flash" => Self::DamagedFlash,
            "kills" => Self::Kills,
            "birth" => Self::Birth,
            "detached" => Self::Detached,
            "exchanged" => Self::Exchanged,
            "media" => Self::Media,
            "full-disk" => Self::FullDisk,
            "crowd" => Self::Crowd,
            "tables" => Self::Tables,
            "page-by-page" => Self::PageByPage,
            _ => return Err(format!("there is no aim {word:?}")),
        };
        Ok(aim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    #[test]
    fn an_aim_is_a_word_and_a_list() {
        let names = ["face".to_owned(), "lc/write-back".to_owned()].to_vec();
        assert_eq!("lives face,lc/write-back".parse(), Ok(Aim::Lives(names)));
        assert_eq!("store disk-only".parse(), Ok(Aim::Store(vec![Subject::DISK_ONLY])));
        assert_eq!("raw door".parse(), Ok(Aim::Raw(Kind::Door)));
        assert_eq!("birth".parse(), Ok(Aim::Birth));
        for wrong in ["", "lives", "lives nothing", "store nothing", "raw nothing", "birth face", "death"] {
            assert!(wrong.parse::<Aim>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn the_aims_of_all_mutants_are_known() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("mutants");
        let mut count = 0;
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            for aim in text.lines().filter_map(|line| line.strip_prefix("rig = \"")?.strip_suffix('"')) {
                count += 1;
                aim.parse::<Aim>().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            }
        }
        assert!(count > 100, "{count} aims");
    }
}
