//! `cargo xtask`: see the library.
#![forbid(unsafe_code)]

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
use entresol_xtask::block;
use entresol_xtask::crates::{self, CratesArgs};
use entresol_xtask::mutants::{self, MutantsArgs};
use entresol_xtask::package::{self, PackageArgs};
use entresol_xtask::postgres::{self, BenchArgs, BuildArgs, DebArgs, RunArgs, TestArgs, TryArgs};
use std::process::ExitCode;

/// Work on this repository that cargo cannot do.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    work: Work,
}

#[derive(Subcommand)]
enum Work {
    /// PostgreSQL with the hooks for a cache below shared buffers (docs/POSTGRESQL.md).
    #[command(subcommand)]
    Postgres(Postgres),
    /// The block door, measured, and under real systems while its server is killed (docs/design/BLOCK.md).
    #[command(subcommand)]
    Block(Block),
    /// Plants known bugs in a copy of the tree, and sees that the tests notice each (docs/TESTING.md).
    Mutants(MutantsArgs),
    /// Packages the command: a Debian package, a tarball, licences, an SBOM, checksums (docs/RELEASE.md).
    Package(PackageArgs),
    /// Whether the crates can be published, and their interfaces are as written down (docs/RELEASE.md).
    Crates(CratesArgs),
}

#[derive(Subcommand)]
enum Postgres {
    /// Patches PostgreSQL, builds it and installs it to target/postgres/VERSION.
    Build(BuildArgs),
    /// Patches and builds a minor version that was never tried, and runs the gate's suites over it. If all
    /// pass, it is one of those that `build` takes.
    Try(TryArgs),
    /// Makes a Debian package of the changed programs and the module, in a fresh system of Debian
    /// (docs/RELEASE.md).
    Deb(DebArgs),
    /// Starts the built server on DATA, which is made if it does not exist, until Ctrl-C.
    Run(RunArgs),
    /// Tests the patched server.
    Test(TestArgs),
    /// Measures the patched server, with a flash cache and without.
    Bench(BenchArgs),
}

#[derive(Subcommand)]
enum Block {
    /// Real systems on a volume whose server is killed.
    Test(block::TestArgs),
    /// Measures volumes. Other servers, files, and volumes without a cache are measured in the same run.
    Bench(block::BenchArgs),
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let is_help = matches!(error.kind(), ErrorKind::DisplayHelp);
            // A lost message does no harm here.
            let _ = error.print();
            return if is_help { ExitCode::SUCCESS } else { ExitCode::from(2) };
        }
    };
    let outcome = match arguments.work {
        Work::Postgres(Postgres::Build(arguments)) => postgres::build(&arguments),
        Work::Postgres(Postgres::Try(arguments)) => postgres::try_version(&arguments),
        Work::Postgres(Postgres::Deb(arguments)) => postgres::deb(&arguments),
        Work::Postgres(Postgres::Run(arguments)) => postgres::run(&arguments),
        Work::Postgres(Postgres::Test(arguments)) => postgres::test(&arguments),
        Work::Postgres(Postgres::Bench(arguments)) => postgres::bench(&arguments),
        Work::Block(Block::Test(arguments)) => block::test(&arguments),
        Work::Block(Block::Bench(arguments)) => block::bench(&arguments),
        Work::Mutants(arguments) => mutants::mutants(&arguments),
        Work::Package(arguments) => package::package(&arguments),
        Work::Crates(arguments) => crates::crates(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cargo xtask: {error:#}");
            ExitCode::from(2)
        }
    }
}
