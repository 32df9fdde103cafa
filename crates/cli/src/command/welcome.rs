//! `entresol` alone: the four ways in.

use crate::failure::Failure;
use crate::output;

/// At most 80 columns.
const WAYS: &str = "\
Entresol: a flash tier for databases. A crash-safe cache on an SSD before slow
storage.

You have any database or virtual machine on a slow disk (docs/BLOCK.md)
  entresol doctor --disk /dev/sdb --flash /dev/nvme0n1p3
  entresol volume create data.toml --disk /dev/sdb --flash /dev/nvme0n1p3
  entresol serve data.toml

You have PostgreSQL 18 or 17 (docs/POSTGRESQL.md), in a clone of the repository
  cargo xtask postgres build
  cargo xtask postgres run DATA --flash FLASH --gib 8
  psql -c 'SELECT * FROM entresol_stat'

You have a Rust program (docs/STORE.md), in a clone of the repository
  cargo run --release -p entresol-store --example quickstart
  cargo doc -p entresol-store --no-deps --open

You have a question: what to buy (docs/LAB.md)
  entresol trace generate tpcc --warehouses 2 --out trace.etr
  entresol advise --trace trace.etr
  entresol simulate --trace trace.etr --flash-percent 4,8,16 --html report.html

All commands: entresol --help. Documents: /usr/share/doc/entresol, or docs/ in
the repository.
";

/// Prints them.
pub fn run() -> Result<(), Failure> {
    output::print(WAYS)
}

#[cfg(test)]
mod tests {
    use crate::args::Cli;
    use clap::Parser;

    #[test]
    fn it_fits_a_terminal() {
        assert!(super::WAYS.lines().all(|line| line.chars().count() <= 80));
    }

    /// Its commands are commands.
    #[test]
    fn each_command_is_understood() {
        let lines = super::WAYS.lines().filter_map(|line| line.strip_prefix("  entresol "));
        let lines: Vec<_> = lines.collect();
        assert!(lines.len() >= 6, "{lines:?}");
        for line in lines {
            let words = std::iter::once("entresol").chain(line.split(' '));
            assert!(Cli::try_parse_from(words).is_ok(), "{line}");
        }
    }
}
