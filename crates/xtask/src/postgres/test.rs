//! `cargo xtask postgres test`.

use super::build::{Build, BuildArgs, IoMethod, can_be_made, make};
use super::cache::{ENTRESOL, THROUGH};
use super::{
    binding, change, dies, disk, failover, faults, keep_out, kill, lost, model, module, path, patroni,
    single, snapshot, sql, standby, suites, tap, upgrade, warm,
};
use crate::paths;
use crate::programs::{User, is_root, output};
use crate::step::Steps;
use anyhow::{Result, anyhow};
use clap::{Args, ValueEnum};

/// A part of the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Suite {
    /// PostgreSQL's regression tests without a module: the hooks are inactive.
    Inactive,
    /// Random work on one relation over the flash cache, against a model; each left-out step must be noticed.
    FlashModel,
    /// PostgreSQL's regression tests over the flash cache, with oracles at its hooks.
    FlashRegress,
    /// PostgreSQL's isolation tests over the flash cache.
    FlashIsolation,
    /// Processes killed under load over the flash cache; acknowledged transactions are counted.
    FlashKill,
    /// As `flash-model`, in write-through mode.
    ThroughModel,
    /// As `flash-regress`, in write-through mode.
    ThroughRegress,
    /// As `flash-kill`, in write-through mode; the cluster is also run without its flash.
    ThroughKill,
    /// The flash dies: write-through continues, write-back stops. Only for root.
    FlashDies,
    /// The flash is destroyed under load and under statements that change files: the write-ahead log replaces
    /// it, as many times as `--rounds` says.
    FlashLost,
    /// As `flash-failover`, and the flash of one or of both is destroyed.
    LostFailover,
    /// PostgreSQL's regression tests while the least log is kept for a loss of the flash; then it is
    /// destroyed.
    LostRegress,
    /// The disk is full, or a sync of it fails. Only for root.
    DiskFaults,
    /// A flash and a cluster that do not belong together are refused, and nothing is changed.
    FlashBinding,
    /// The extension's views, and who may read them.
    FlashSql,
    /// The cluster's files are put back to a snapshot, and the flash is not; as many times in each mode as
    /// `--rounds` says.
    FlashSnapshot,
    /// Relations that are kept out of the cache: rewrites, crashes, dumps, a standby.
    FlashKept,
    /// A cache is warm after a drained restart; pages enter before they are needed, of a database and by
    /// manifests.
    FlashWarm,
    /// Size, mode, policy and flash change under load, and processes are killed meanwhile, as many as
    /// `--rounds` says.
    FlashChange,
    /// A single-user server recovers a cluster with its flash, and drains it.
    FlashSingle,
    /// Damaged pages on flash: no query gets a wrong answer.
    FlashFaults,
    /// The flash's path stops resolving: new sessions read what the others do.
    FlashPath,
    /// pg_upgrade into a cluster with a flash, in both modes.
    FlashUpgrade,
    /// A backup under load, restored without a flash, and as a standby with its own.
    FlashStandby,
    /// PostgreSQL's TAP tests of recovery, backups and pg_rewind, every cluster with a flash cache of its
    /// own: twenty minutes. Only if named.
    FlashTap,
    /// The regression and isolation tests over the flash cache, buffered and direct, with checksums and
    /// without. Only if named.
    FlashMatrix,
    /// As `flash-matrix`, in write-through mode. Only if named.
    ThroughMatrix,
    /// The tests of contrib's modules over the flash cache. Only if named.
    FlashContrib,
    /// As `flash-contrib`, in write-through mode. Only if named.
    ThroughContrib,
    /// The primary is killed under load, its synchronous standby promoted, and the old primary rewound; as
    /// many times as `--rounds` says. Only if named.
    FlashFailover,
    /// Three nodes with a flash each, by Patroni and etcd: switch-overs and failovers under load, as many as
    /// `--rounds` says; in the gate three, if both are there.
    FlashPatroni,
}

/// What runs if nothing is named.
const ALL: &[Suite] = &[
    Suite::Inactive,
    Suite::FlashModel,
    Suite::FlashRegress,
    Suite::FlashIsolation,
    Suite::FlashKill,
    Suite::ThroughModel,
    Suite::ThroughRegress,
    Suite::ThroughKill,
    Suite::FlashDies,
    Suite::FlashLost,
    Suite::LostFailover,
    Suite::LostRegress,
    Suite::DiskFaults,
    Suite::FlashBinding,
    Suite::FlashSnapshot,
    Suite::FlashSql,
    Suite::FlashKept,
    Suite::FlashWarm,
    Suite::FlashChange,
    Suite::FlashSingle,
    Suite::FlashFaults,
    Suite::FlashPath,
    Suite::FlashUpgrade,
    Suite::FlashStandby,
];

/// What the gate runs.
const GATE: &[Suite] = &[
    Suite::FlashModel,
    Suite::FlashRegress,
    Suite::FlashIsolation,
    Suite::FlashKill,
    Suite::ThroughKill,
    Suite::FlashLost,
    Suite::LostFailover,
    Suite::LostRegress,
    Suite::FlashBinding,
    Suite::FlashSnapshot,
    Suite::FlashSql,
    Suite::FlashKept,
    Suite::FlashWarm,
    Suite::FlashChange,
    Suite::FlashSingle,
    Suite::FlashFaults,
    Suite::FlashPath,
    Suite::FlashUpgrade,
    Suite::FlashStandby,
    Suite::FlashFailover,
    Suite::FlashPatroni,
];

/// What the gate runs on the major version before the newest one.
const SHORT: &[Suite] = &[
    Suite::FlashRegress,
    Suite::FlashKill,
    Suite::FlashBinding,
    Suite::FlashSql,
    Suite::FlashFaults,
    Suite::FlashStandby,
];

/// A choice of suites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Choice {
    /// All but those that run only if they are named.
    Usual,
    /// What the gate runs.
    Gate,
    /// What the gate runs on the major version before the newest one.
    Short,
}

/// What `test` may be told.
#[derive(Args, Debug)]
pub struct TestArgs {
    /// Only these; may be repeated.
    #[arg(long, value_name = "SUITE")]
    only: Vec<Suite>,
    /// Which suites run if none is named.
    #[arg(long, value_name = "CHOICE", default_value = "usual", conflicts_with = "only")]
    suites: Choice,
    /// The user that servers run as, if the caller is root [default: the user `nobody`].
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Rounds of the suites `flash-kill`, `through-kill`, `flash-lost`, `lost-failover`, `flash-snapshot`,
    /// `flash-change`, `flash-failover` and `flash-patroni`.
    #[arg(long, default_value_t = 10)]
    rounds: u32,
    /// Of the suite `flash-tap`, only the scripts whose path ends like this; may be repeated.
    #[arg(long, value_name = "NAME")]
    script: Vec<String>,
    /// The I/O method of the servers; PostgreSQL 18 only [default: PostgreSQL's].
    #[arg(long, value_name = "METHOD")]
    io_method: Option<IoMethod>,
    /// Passes, and says why, where the server cannot be built or run: without a compiler or the source, or in
    /// a folder that the servers' user may not enter.
    #[arg(long)]
    or_skip: bool,
    #[command(flatten)]
    build: BuildArgs,
}

/// What every suite needs.
pub(super) struct Bench {
    pub build: Build,
    pub user: User,
    pub steps: Steps,
    /// The suites were named.
    named: bool,
}

/// Whether `user` may enter the folder of the servers.
fn can_be_entered(user: &User) -> Result<()> {
    let folder = paths::postgres();
    std::fs::create_dir_all(&folder)?;
    let entered = output(user.command("test").arg("-x").arg(&folder));
    entered.map(drop).map_err(|_| anyhow!("the user of the servers may not enter {}", folder.display()))
}

/// Runs the suites.
///
/// # Errors
///
/// The first that fails.
pub fn test(arguments: &TestArgs) -> Result<()> {
    let user = user_of_servers(arguments.user.as_deref())?;
    if arguments.or_skip
        && let Err(why) = can_be_made(&arguments.build).and_then(|()| can_be_entered(&user))
    {
        println!("skipped: {why:#}");
        return Ok(());
    }
    let mut build = make(&arguments.build)?;
    arguments.io_method.map_or(Ok(()), |method| build.set_io_method(method))?;
    let bench = Bench { named: !arguments.only.is_empty(), ..Bench::new(build, user)? };
    let chosen = match arguments.suites {
        _ if !arguments.only.is_empty() => &arguments.only[..],
        Choice::Usual => ALL,
        Choice::Gate => GATE,
        Choice::Short => SHORT,
    };
    chosen.iter().try_for_each(|suite| bench.run(*suite, arguments.rounds, &arguments.script))
}

/// The name of the user that servers run as. For root it is the user `nobody`.
pub(super) fn user_of_servers(name: Option<&str>) -> Result<User> {
    let nobody = (name.is_none() && is_root()?).then_some("nobody");
    User::named(name.or(nobody))
}

impl Bench {
    /// The servers of `build`, with the modules that tests load.
    fn new(build: Build, user: User) -> Result<Self> {
        let steps = Steps::new(&paths::postgres().join("test.log"))?;
        module::install_hooktrace(&build)?;
        module::install_extension(&build)?;
        println!("PostgreSQL {}", build.version());
        Ok(Bench { build, user, steps, named: false })
    }

    fn run(&self, suite: Suite, rounds: u32, scripts: &[String]) -> Result<()> {
        match suite {
            Suite::FlashModel => model::test(self, &ENTRESOL),
            Suite::Inactive => suites::regress(self, None),
            Suite::FlashRegress => suites::regress(self, Some(&ENTRESOL)),
            Suite::FlashIsolation => suites::isolation(self, &ENTRESOL),
            Suite::FlashKill => kill::test(self, &ENTRESOL, rounds),
            Suite::ThroughModel => model::test(self, &THROUGH),
            Suite::ThroughRegress => suites::regress(self, Some(&THROUGH)),
            Suite::ThroughKill => kill::test(self, &THROUGH, rounds),
            Suite::FlashDies => dies::test(self),
            Suite::FlashLost => lost::test(self, rounds),
            Suite::LostFailover => lost::failover::test(self, rounds),
            Suite::LostRegress => lost::regress::test(self),
            Suite::DiskFaults => disk::test(self),
            Suite::FlashBinding => binding::test(self),
            Suite::FlashSnapshot => snapshot::test(self, rounds),
            Suite::FlashSql => sql::test(self),
            Suite::FlashKept => keep_out::test(self),
            Suite::FlashWarm => warm::test(self),
            Suite::FlashChange => change::test(self, rounds),
            Suite::FlashSingle => single::test(self),
            Suite::FlashFaults => faults::test(self),
            Suite::FlashPath => path::test(self),
            Suite::FlashUpgrade => upgrade::test(self),
            Suite::FlashStandby => standby::test(self),
            Suite::FlashTap => tap::over_flash(self, scripts),
            Suite::FlashMatrix => suites::matrix(self, &ENTRESOL),
            Suite::ThroughMatrix => suites::matrix(self, &THROUGH),
            Suite::FlashContrib => suites::contrib(self, &ENTRESOL),
            Suite::ThroughContrib => suites::contrib(self, &THROUGH),
            Suite::FlashFailover => failover::test(self, rounds),
            Suite::FlashPatroni => patroni::test(self, rounds, self.named),
        }
    }
}

/// Runs the gate's suites over a build.
///
/// # Errors
///
/// The first that fails.
pub(super) fn run_gate(build: Build, user: User, rounds: u32) -> Result<()> {
    let bench = Bench::new(build, user)?;
    GATE.iter().try_for_each(|suite| bench.run(*suite, rounds, &[]))
}
