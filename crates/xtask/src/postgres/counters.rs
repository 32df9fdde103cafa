//! What a server and its oracles have counted during a suite.

use super::cache::ORACLES_MUST_HAPPEN;
use super::server::Server;
use super::test::Bench;
use anyhow::{Result, bail};

/// Counters, by their names, of the suite `name`.
pub(super) struct Counters<'a> {
    name: &'a str,
    counted: Vec<(String, u64)>,
    reads_asynchronously: bool,
}

impl<'a> Counters<'a> {
    /// The counters of now. Prints them.
    pub fn of(bench: &Bench, server: &Server<'_>, name: &'a str) -> Result<Self> {
        let mut counted = server.counters()?;
        counted.extend(server.oracles()?);
        let text: Vec<_> = counted.iter().map(|(name, n)| format!("{name} {n}")).collect();
        println!("{name}: {}", text.join(", "));
        Ok(Counters { name, counted, reads_asynchronously: bench.build.reads_asynchronously() })
    }

    fn get(&self, wanted: &str) -> Option<u64> {
        self.counted.iter().find(|(counted, _)| counted == wanted).map(|(_, n)| *n)
    }

    /// What these count has happened, the oracles have looked, and a server that can has read asynchronously.
    pub fn must_happen(&self, wanted: &[&str]) -> Result<()> {
        let asynchronous: &[&str] = if self.reads_asynchronously { &["async_hits"] } else { &[] };
        for wanted in wanted.iter().chain(ORACLES_MUST_HAPPEN).chain(asynchronous) {
            if self.get(wanted).is_none_or(|n| n == 0) {
                bail!("{}: the counter `{wanted}` is zero: this was not tested", self.name);
            }
        }
        Ok(())
    }

    /// What these count has not happened.
    pub fn must_not_happen(&self, unwanted: &[&str]) -> Result<()> {
        for unwanted in unwanted {
            if self.get(unwanted).is_none_or(|n| n != 0) {
                bail!("{}: the counter `{unwanted}` is not zero", self.name);
            }
        }
        Ok(())
    }
}
