//! Sweeps of what the thesis does not say: thresholds, latency of the storage behind, size of the flash. The
//! last was fitted, and is swept in every run.

use super::{Bench, Contender, Context, Outcome, Setting, Thresholds};
use crate::paper::rw::{self, RwRow};
use crate::paper::{self, Verdict, judged};
use crate::report::{Block, Column, Section, Table, whole};

/// The sweeps of a full run, each a table.
pub(super) fn sections(bench: &Bench, context: &Context<'_>) -> anyhow::Result<Vec<Section>> {
    Ok(vec![thresholds(bench, context)?, backends(bench, context)?])
}

const BASE: Setting = Setting::new(16, Contender::Rwfdb, 8);
const RIVAL: Setting = Setting::new(16, Contender::Flashtier, 8);

fn section(
    title: &str,
    text: &str,
    parameter: &str,
    outcomes: &[Outcome],
    show: fn(&Setting) -> String,
) -> Section {
    let mut columns = vec![Column::words(parameter), Column::words("cache")];
    let measures = ["hit rate, %", "GC count", "CLWA", "FLWA", "TWAF", "response, µs"];
    columns.extend(measures.map(Column::numbers));
    let cells = |outcome: &Outcome| {
        let row = &outcome.row;
        vec![
            show(&outcome.setting),
            row.contender.name().to_owned(),
            format!("{:.1}", row.hit_rate),
            whole(row.gc_count),
            format!("{:.2}", row.clwa),
            format!("{:.2}", row.flwa),
            format!("{:.2}", row.twaf()),
            whole(outcome.mean_us),
        ]
    };
    let table = Table { columns, rows: outcomes.iter().map(cells).collect() };
    Section { title: title.into(), blocks: vec![Block::Text(text.into()), Block::Table(table)] }
}

fn thresholds(bench: &Bench, context: &Context<'_>) -> anyhow::Result<Section> {
    let mut settings = Vec::new();
    for read in 0..3 {
        settings.extend((0..3).map(|write| Setting { thresholds: Thresholds { read, write }, ..BASE }));
    }
    let outcomes = bench.run(context, "thresholds", &settings)?;
    let text = "Pages of 16 KB, write buffer of 8 MB. A read threshold above 0 with a write threshold of 0 makes nearly \
                every page write-frequent, and the cache a queue.";
    Ok(section("Sweep: thresholds of figure 3.2", text, "read, write", &outcomes, |setting| {
        format!("{}, {}", setting.thresholds.read, setting.thresholds.write)
    }))
}

fn backends(bench: &Bench, context: &Context<'_>) -> anyhow::Result<Section> {
    let mut settings = Vec::new();
    for backend_us in [200.0, 1000.0, 5000.0] {
        for setting in [Setting { buffer_mb: 0, ..RIVAL }, RIVAL, BASE] {
            settings.push(Setting { backend_us, ..setting });
        }
    }
    let outcomes = bench.run(context, "latency behind", &settings)?;
    let text =
        "Pages of 16 KB; the first FlashTier of each latency has no write buffer, the others have 8 MB.";
    Ok(section("Sweep: latency of the storage behind", text, "latency, µs", &outcomes, |setting| {
        whole(setting.backend_us)
    }))
}

/// Flash, in per cent of the pages that the trace touches.
const SIZES: [f64; 4] = [10.0, 25.0, 50.0, 80.0];

/// Both contenders at each size of the flash.
pub(super) struct Sizes {
    outcomes: Vec<Outcome>,
}

impl Sizes {
    pub(super) fn new(bench: &Bench, context: &Context<'_>) -> anyhow::Result<Self> {
        let at = |flash_percent: f64| [RIVAL, BASE].map(|setting| Setting { flash_percent, ..setting });
        let settings: Vec<Setting> = SIZES.into_iter().flat_map(at).collect();
        Ok(Self { outcomes: bench.run(context, "size of the flash", &settings)? })
    }

    /// What the summary says of it.
    pub(super) fn sentence(&self) -> String {
        let pair = |pair: &[Outcome]| {
            let [flashtier, rwfdb] = [&pair[0].row, &pair[1].row].map(|row| row.hit_rate);
            format!("{:.0} %: {rwfdb:.1} and {flashtier:.1} %", pair[0].setting.flash_percent)
        };
        let shown: Vec<String> = self.outcomes.chunks(2).map(pair).collect();
        let turns = self.outcomes.chunks(2).any(|pair| pair[1].row.hit_rate < pair[0].row.hit_rate);
        let what = if turns { "the direction of the hit rates turns with it" } else { "the direction stays" };
        format!(
            "the size of the flash, 80 % of the pages touched, was fitted to FlashTier's hit rate, and {what} (16 KB, 8 MB; \
             hits of rwfdb and flashtier): {}. {}",
            shown.join("; "),
            self.turning()
        )
    }

    /// Which verdicts turn with the size, judged on its two rows.
    fn turning(&self) -> String {
        let judged_at = |pair: &[Outcome]| {
            let rows: Vec<RwRow> =
                pair.iter().map(|outcome| RwRow { response: outcome.mean_us, ..outcome.row }).collect();
            judged(rw::CLAIMS, &[rows.as_slice()]).into_iter().map(|judged| judged.verdict).collect()
        };
        let verdicts: Vec<Vec<Verdict>> = self.outcomes.chunks(2).map(judged_at).collect();
        let turning = |claim: usize| {
            let held: Vec<f64> = SIZES
                .into_iter()
                .zip(&verdicts)
                .filter(|pair| pair.1[claim].outcome == paper::Outcome::Holds)
                .map(|(size, _)| size)
                .collect();
            let turns = !held.is_empty() && held.len() < SIZES.len();
            let sizes: Vec<String> = held.iter().map(|size| format!("{size:.0}")).collect();
            turns.then(|| format!("{} holds at {} %", verdicts[0][claim].id, sizes.join(", ")))
        };
        let turning: Vec<String> = (0..rw::CLAIMS.len()).filter_map(turning).collect();
        if turning.is_empty() {
            return "No verdict turns with it.".into();
        }
        format!("Verdicts that turn with it, of those on these two: {}.", turning.join("; "))
    }

    pub(super) fn section(&self) -> Section {
        let text =
            "Pages of 16 KB, write buffer of 8 MB; flash in per cent of the pages that the trace touches.";
        section("Sweep: size of the flash", text, "flash, %", &self.outcomes, |setting| {
            format!("{:.0}", setting.flash_percent)
        })
    }
}
