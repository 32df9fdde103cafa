//! A run in writing: all operations on a cache, drawn from a seed before the run starts.
//!
//! Invariant: a run depends on its script alone. So a script can be shortened, and the shorter script can be
//! replayed.

use super::cache::Cache;
use super::fault::{FaultKind, LOUD};
use super::target::Target;
use entresol_core::{PageId, PolicyKind};
use entresol_device::Fault;
use entresol_engine::{Costs, FragmentOptions, Mode, TierOptions, WriteBudget};
use entresol_format::PageFormat;
use entresol_runtime::rng::Rng;
use std::fmt;
use std::time::Duration;

/// The cache and the database above it.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub cache: Cache,
    /// Pages of the database.
    pub pages: u64,
    /// Most pages are used once only.
    pub once: bool,
    /// DRAM frames of each client.
    pub frames: usize,
    /// Maximum delay of requests, on either side.
    pub latency_max: Duration,
    /// The cache is created on a blank disk, and the database is loaded through it.
    pub fresh: bool,
}

/// One operation of a client. A client accesses only its own pages: those whose number modulo the number of
/// clients is the client's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Read(PageId),
    Write(PageId),
    Checkpoint,
    /// Time passes.
    Pause(Duration),
}

/// A fault of a device in a life, besides its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    pub device: &'static str,
    pub fault: Fault,
    /// The first operation of the life at which the fault may strike.
    pub at: u64,
    /// The fault strikes at every operation from then on, instead of once.
    pub forever: bool,
    /// From then on the disk refuses writes, too.
    pub disk_too: bool,
}

/// One life of the machine: power on, recovery, operations, perhaps a shutdown.
#[derive(Clone, Debug)]
pub(super) struct Life {
    pub seed: u64,
    pub clients: Vec<Vec<Op>>,
    pub trouble: Option<Trouble>,
    /// The life ends with a shutdown; otherwise without one.
    pub closes: bool,
    /// The next life begins from a crash in this one instead of from its end.
    pub crashes: bool,
}

/// A run.
#[derive(Clone, Debug)]
pub(super) struct Script {
    pub seed: u64,
    pub shape: Shape,
    pub lives: Vec<Life>,
}

/// More groups than the smallest cache has.
const GROUPS_MAX: u32 = 1 << 10;

/// The smallest cache of that kind; `None` if the engine does not support it.
pub(super) fn smallest(
    policy: PolicyKind,
    mode: Mode,
    group_pages: u32,
    staging_groups: u32,
) -> Option<TierOptions> {
    let of_groups = |groups: u32| {
        let slots = groups * group_pages;
        TierOptions {
            page_bytes: 4096,
            group_pages,
            staging_groups,
            segment_entries: 2 * group_pages,
            history: policy.history(slots),
            slots,
            mode,
            write_workers: 2,
            background_workers: 2,
            ..TierOptions::new(policy, slots)
        }
    };
    (1..GROUPS_MAX).map(of_groups).find(|options| options.validate().is_ok())
}

fn one<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.below(of.len() as u64) as usize]
}

fn range(rng: &mut Rng, from: u64, to: u64) -> u64 {
    from + rng.below(to - from + 1)
}

impl Shape {
    /// Approximate number of operations of a life.
    fn operations_max(&self) -> u64 {
        match self.cache.tier() {
            Some(_) if self.cache.keeps_out() => 600,
            Some(_) => 64,
            // Fragments are populated by reads, and evicted only after more of them.
            None => 160,
        }
    }

    /// The last operations of a client. Where nothing on flash survives, it reads each page once more.
    fn sweep(&self, client: u64, clients: u64) -> impl Iterator<Item = Op> + use<> {
        let pages = if self.cache.tier().is_some() { 0 } else { self.pages };
        (client..pages).step_by(clients as usize).map(|page| Op::Read(PageId(page)))
    }
}

impl Script {
    /// Draws a run.
    pub(super) fn draw(seed: u64, targets: &[Target]) -> Script {
        let mut rng = Rng::new(seed);
        let shape = draw_shape(&mut rng, draw_target(&mut Rng::new(seed ^ 0x7a29), targets));
        let lives = range(&mut rng, 2, 5);
        let lives = (0..lives).map(|life| draw_life(&mut rng, &shape, life + 1 == lives)).collect();
        Script { seed, shape, lives }
    }

    /// The policy and mode.
    pub(super) fn target(&self) -> Target {
        self.shape.cache.target()
    }
}

/// A policy (or SCE), all with the same probability, and one of its modes.
fn draw_target(rng: &mut Rng, targets: &[Target]) -> Target {
    let mut policies: Vec<_> = targets.iter().map(|target| target.policy()).collect();
    policies.dedup();
    if policies.len() == 1 {
        return one(rng, targets);
    }
    let policy = one(rng, &policies);
    let modes: Vec<Target> = targets.iter().copied().filter(|target| target.policy() == policy).collect();
    one(rng, &modes)
}

/// A few small fragments, of a volume that has more.
fn draw_fragments(rng: &mut Rng) -> Shape {
    let options = FragmentOptions {
        page_bytes: one(rng, &[4096, 4096, 4096, 4096, 8192]),
        page_format: PageFormat::Native,
        slots: range(rng, 1, 8) as u32,
        fragment_pages: one(rng, &[1, 2, 3, 4, 4, 8]),
        workers: range(rng, 1, 3) as u32,
        pace_permille: one(rng, &[100, 1000, 1000]),
        proofs_kept: one(rng, &[0, 1, 2, 4]),
        overwrite: false,
    };
    let flash_pages = u64::from(options.slots * options.fragment_pages);
    Shape {
        pages: range(rng, 8, (2 * flash_pages).clamp(16, 64)),
        ..draw_use(rng, Cache::Fragments(options))
    }
}

/// The use of a cache.
fn draw_use(rng: &mut Rng, cache: Cache) -> Shape {
    // A cache that keeps pages out has to learn first that most are not used again, and where most are, that.
    let once = cache.keeps_out() && rng.below(2) == 0;
    let (least, most) = if once { (64, 200) } else { (8, cache.slots().clamp(8, 96)) };
    Shape {
        once,
        pages: range(rng, least, u64::from(most)),
        cache,
        frames: range(rng, 1, 4) as usize,
        latency_max: one(rng, &[Duration::ZERO, Duration::from_micros(40), Duration::from_micros(40), SLOW]),
        fresh: rng.below(4) == 0,
    }
}

fn draw_shape(rng: &mut Rng, target: Target) -> Shape {
    let Some(policy) = target.policy() else { return draw_fragments(rng) };
    // Only in a large group, a summary is longer than a sector.
    let large = if rng.below(4) == 0 { 24 } else { 3 };
    let group_pages = one(rng, &[2, 2, 2, 3, 4, 4, 5, large]);
    let staging_groups = range(rng, 2, 3) as u32;
    let least = smallest(policy, target.mode(), group_pages, staging_groups)
        .expect("a target can be run with any group");
    let slots = least.slots + group_pages * rng.below(4) as u32;
    let options = TierOptions {
        page_bytes: one(rng, &[4096, 4096, 4096, 4096, 4096, 4096, 8192, 16384]),
        slots,
        segment_entries: group_pages * range(rng, 1, 8) as u32,
        history: if least.history > 0 { range(rng, 1, u64::from(slots)) as u32 } else { 0 },
        dirty_permille_max: one(rng, &[100, 500, 900, 1000]),
        write_workers: range(rng, 1, 3) as usize,
        background_workers: range(rng, 1, 3) as usize,
        costs: if policy.facts().weighs_costs { draw_costs(rng) } else { Costs::default() },
        write_budget: if policy.facts().weighs_costs { draw_budget(rng) } else { WriteBudget::UNLIMITED },
        keeps_slots: target.keeps_slots(),
        ..least
    };
    let options = if options.validate().is_ok() { options } else { least };
    draw_use(rng, Cache::Tier(options))
}

/// Unknown, or those of a flash that is slow, or quick, for its disk.
fn draw_costs(rng: &mut Rng) -> Costs {
    let write_ns = one(rng, &[None, Some(40_000), Some(2_000), Some(2_000)]);
    write_ns.map_or_else(Costs::default, |write: u32| {
        Costs::of_times_ns([50_000, 5_000, 2 * write, write, 300_000, 300_000])
    })
}

/// None, or so few pages a second that it is used up after a pause, until the next one.
fn draw_budget(rng: &mut Rng) -> WriteBudget {
    let pages_a_second = one(rng, &[None, Some(10), Some(100)]);
    let bytes_per_day = pages_a_second.map(|pages: u64| pages * 4096 * 86_400);
    WriteBudget { bytes_per_day, holds: Duration::from_secs(1) }
}

/// The delay of a slow device.
pub(super) const SLOW: Duration = Duration::from_millis(900);
/// A jump of the clock.
pub(super) const JUMP: Duration = Duration::from_secs(90_000);

fn draw_life(rng: &mut Rng, shape: &Shape, is_last: bool) -> Life {
    let clients = range(rng, 1, 3);
    let operations = range(rng, 8, shape.operations_max()) / clients + 1;
    let checkpoints = one(rng, &[4, 8, 20, 60]);
    let writes = range(rng, 1, 9);
    let number = clients;
    let clients = (0..number).map(|client| {
        let draw = |at| draw_op(rng, shape, at, (client, number), checkpoints, writes);
        (0..operations).map(draw).chain(shape.sweep(client, number)).collect()
    });
    Life {
        clients: clients.collect(),
        seed: rng.next_u64(),
        trouble: (rng.below(2) == 0).then(|| draw_trouble(rng, shape, is_last)),
        closes: rng.below(2) == 0,
        crashes: rng.below(4) > 0,
    }
}

/// A client's operation number `at`.
fn draw_op(
    rng: &mut Rng,
    shape: &Shape,
    at: u64,
    (client, clients): (u64, u64),
    checkpoints: u64,
    writes: u64,
) -> Op {
    if rng.below(checkpoints) == 0 {
        return Op::Checkpoint;
    }
    if rng.below(40) == 0 {
        return Op::Pause(one(rng, &[Duration::from_micros(7), Duration::from_millis(300), JUMP]));
    }
    let own = (shape.pages - client).div_ceil(clients);
    let number = match shape.once {
        // One page after the other, and now and then one of the last again.
        true if rng.below(4) == 0 => at.saturating_sub(1 + rng.below(8)) % own,
        true => at % own,
        // Low numbers are more frequent, so some pages are hot.
        false => rng.below(own).min(rng.below(own)),
    };
    let page = PageId(number * clients + client);
    if rng.below(10) < writes { Op::Write(page) } else { Op::Read(page) }
}

fn draw_trouble(rng: &mut Rng, shape: &Shape, is_last: bool) -> Trouble {
    // Populations read pages that other tasks write and sync.
    if shape.cache.tier().is_none() && rng.below(4) == 0 {
        let at = range(rng, 1, 400);
        let (device, fault) = ("disk", Fault::SyncErrorLosingWrites);
        return Trouble { device, fault, at, forever: false, disk_too: false };
    }
    let silent =
        [Fault::LostWrite, Fault::MisdirectedWrite, Fault::DuplicatedWrite, Fault::BitRot, Fault::Death];
    // After a silent fault any page may be missing forever, so such a fault is in the last life. Only flash
    // is guarded against silent faults.
    let (device, fault) = match is_last && rng.below(2) == 0 {
        true => ("flash", one(rng, &silent)),
        false => (one(rng, &["flash", "flash", "disk"]), one(rng, &LOUD)),
    };
    // A flash that loses all writes from some moment on is an older state of itself. Nothing on it can reveal
    // that.
    let forever = LOUD.contains(&fault) && rng.below(3) == 0;
    let ends = fault == Fault::Death || forever && device == "flash" && fault != Fault::ReadError;
    let disk_too = ends && rng.below(4) == 0;
    Trouble { device, fault, at: range(rng, 1, 160), forever, disk_too }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shape { cache, pages, frames, latency_max, fresh, .. } = &self.shape;
        let born = if *fresh { "made on a blank disk" } else { "made for a loaded disk" };
        writeln!(f, "cache {cache}, {born}")?;
        writeln!(
            f,
            "database of {pages} pages, {frames} frames a client, requests take up to {latency_max:?}"
        )?;
        for (at, life) in self.lives.iter().enumerate() {
            let end = match (life.closes, life.crashes) {
                (_, true) => "goes on from a crash in it",
                (true, false) => "shuts down",
                (false, false) => "ends without a shutdown",
            };
            writeln!(f, "life {}, seed {:#x}: {end}", at + 1, life.seed)?;
            if let Some(Trouble { device, fault, at, forever, disk_too }) = life.trouble {
                let often = if forever { "from then on" } else { "once" };
                let disk = if disk_too { "; the disk refuses writes, too" } else { "" };
                writeln!(f, "  {device}: {} from operation {at} on, {often}{disk}", FaultKind::of(fault))?;
            }
            for (number, ops) in life.clients.iter().enumerate().filter(|(_, ops)| !ops.is_empty()) {
                write!(f, "  client {number}:")?;
                ops.iter().try_for_each(|op| write!(f, " {op}"))?;
                writeln!(f)?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Read(page) => write!(f, "r{}", page.0),
            Op::Write(page) => write!(f, "w{}", page.0),
            Op::Checkpoint => f.write_str("checkpoint"),
            Op::Pause(time) => write!(f, "pause({time:?})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_can_be_run_and_is_told_whole() {
        let targets = Target::all();
        assert!(targets.len() > PolicyKind::ALL.len(), "some policies run in both modes");
        for seed in 0..300 {
            let script = Script::draw(seed, &targets);
            script.shape.cache.validate().expect("the cache is possible");
            assert!(script.shape.pages >= 8 && !script.lives.is_empty());
            for life in &script.lives {
                for (client, ops) in life.clients.iter().enumerate() {
                    for op in ops {
                        if let Op::Read(page) | Op::Write(page) = op {
                            assert!(page.0 < script.shape.pages);
                            assert_eq!(page.0 as usize % life.clients.len(), client);
                        }
                    }
                }
            }
            assert!(script.to_string().contains("client 0:"), "{script}");
        }
    }
}
