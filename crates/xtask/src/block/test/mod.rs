//! `cargo xtask block test`: real systems on a volume whose server is killed.

mod database;
mod faults;
mod files;
mod filesystem;
mod guest;

use super::rig::{Missing, Rig};
use anyhow::Result;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// What `test` may be told.
#[derive(Args, Debug)]
pub struct TestArgs {
    #[command(subcommand)]
    suite: Suite,
    /// Where the files of the run are [default: target/block].
    #[arg(long, value_name = "FOLDER", global = true)]
    folder: Option<PathBuf>,
    /// Kills in each mode [default: 30; of the suite guest 4]; of the suite changes, their number [default:
    /// 1000].
    #[arg(long, global = true)]
    rounds: Option<u32>,
    /// Modes of the cache.
    #[arg(
        long,
        value_name = "MODE",
        value_delimiter = ',',
        default_values_t = ["write-through".to_owned(), "write-back".to_owned()],
        global = true
    )]
    modes: Vec<String>,
    /// Of the cache [default: face-gsc; of the suite filesystem the one that `volume create` takes].
    #[arg(long, global = true)]
    policy: Option<String>,
    /// Of the suite faults: cells whose description has these words, "write-back | load" for instance.
    #[arg(long, value_name = "WORDS", global = true)]
    only: Option<String>,
    /// Passes, and says why, where something that the suite needs is not there.
    #[arg(long, global = true)]
    or_skip: bool,
}

#[derive(Clone, Debug, Subcommand)]
enum Suite {
    /// Four writers make files on ext4 and sync them; each file that was synced must be there after a kill.
    Filesystem,
    /// PostgreSQL under pgbench: every acknowledged transaction must be there after a kill.
    Postgres,
    /// The devices below a volume fail in eight ways, below six caches, under load and idle.
    Faults,
    /// Resizes, exchanges, modes, policies, drains that are cancelled: all under load, with kills.
    Changes,
    /// As `filesystem`, in a guest of QEMU with the kernel's own drivers: the file system stays mounted.
    Guest(guest::GuestArgs),
}

/// Kills in each mode, if no number is given.
const ROUNDS: u32 = 30;

/// Runs a suite.
///
/// # Errors
///
/// What was lost, or what is missing for the suite.
pub fn test(arguments: &TestArgs) -> Result<()> {
    let rig = || Rig::new(arguments.folder.as_deref());
    let outcome = match &arguments.suite {
        Suite::Filesystem => filesystem::test(rig, arguments),
        Suite::Postgres => database::test(rig, arguments),
        Suite::Faults => faults::test(rig, arguments),
        Suite::Changes => faults::changes(rig, arguments),
        Suite::Guest(guest) => {
            let rig = || Rig::with_features(arguments.folder.as_deref(), guest.features());
            guest::test(rig, guest, arguments)
        }
    };
    match outcome {
        Err(error) if arguments.or_skip && error.downcast_ref::<Missing>().is_some() => {
            println!("skipped: {error:#}");
            Ok(())
        }
        outcome => outcome,
    }
}

/// A number that depends on the words alone, from 0 to 1: moments of kills.
fn drawn(words: &str) -> f64 {
    // FNV-1a, and the last step of murmur's: neighbours differ.
    let hash = words.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    (hash >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::drawn;

    #[test]
    fn moments_are_spread() {
        let drawn: Vec<f64> = (0..1000).map(|round| drawn(&format!("write-back{round}"))).collect();
        assert!(drawn.iter().all(|it| (0.0..1.0).contains(it)));
        let mean = drawn.iter().sum::<f64>() / 1000.0;
        assert!((0.45..0.55).contains(&mean), "{mean}");
    }
}
