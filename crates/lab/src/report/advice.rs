//! The report of `advise`: the verdict, the best few, what each amount of money gives, and everything that
//! was tried.

use super::model::{Axis, Block, Chart, Column, Line, LineChart, Report, Section, Table};
use super::text::{NONE, amount, decimal, estimates, or_none, percent, size_of, whole, with_half};
use crate::advise::{Advice, Candidate, Sureness};

/// Builds the report.
pub fn advice_report(advice: &Advice) -> Report {
    let beware: Vec<_> =
        advice.warnings.iter().map(|warning| Block::Text(format!("Beware: {warning}"))).collect();
    let mut sections = Vec::new();
    if !beware.is_empty() {
        sections.push(Section { title: "Beware".into(), blocks: beware });
    }
    sections.push(best(advice));
    sections.extend(over_money(advice));
    sections.push(tried(advice));
    Report {
        title: "Entresol: advise".into(),
        answer: Some(advice.sentence.clone()),
        notes: notes(advice),
        configuration: configuration(advice),
        sections,
    }
}

fn notes(advice: &Advice) -> Vec<String> {
    let mut notes = vec![advice.reasons.join(" ")];
    notes.retain(|note| !note.is_empty());
    notes.extend([
            format!(
                "Every configuration was replayed with this trace. Money is for DRAM and flash of {}; capacities are paid for as \
                 far as they are used (3LA's assumption A1).",
                if advice.database_bytes.is_some() { "the database's size" } else { "the trace's own size" }
            ),
            "Decisions are those of the policies themselves; times are of a queueing model of the devices, in virtual time."
                .into(),
    ]);
    if let Some((rate, hashes)) = advice.sample {
        notes.push(estimates(rate, hashes));
    }
    notes
}

fn configuration(advice: &Advice) -> Vec<(String, String)> {
    let goal = match (advice.budget, advice.target_us) {
        (Some(money), _) => format!("fastest for {money} {}", advice.currency),
        (None, Some(us)) if advice.goal == "knee" => {
            format!(
                "cheapest within 10 % of the shortest response found, first reads apart ({} µs or less)",
                decimal(us, 1)
            )
        }
        (None, us) => format!("cheapest with {} µs or less", or_none(us, |us| decimal(us, 1))),
    };
    vec![
        ("trace".into(), advice.trace.clone()),
        (
            "pages of the trace".into(),
            format!("{} of {} bytes", whole(advice.trace_pages as f64), advice.page_bytes),
        ),
        ("references measured".into(), whole(advice.references as f64)),
        (
            "database".into(),
            match advice.database_bytes {
                Some(bytes) => {
                    format!("{}, {} times the trace's pages", size_of(bytes), decimal(advice.scale, 1))
                }
                None => "as large as the trace's pages".into(),
            },
        ),
        ("memory".into(), advice.memory.clone()),
        ("disk device".into(), advice.disk_device.clone()),
        ("goal".into(), goal),
        (
            "how sure".into(),
            match advice.sureness {
                Sureness::Sure => "both halves of the trace agree",
                Sureness::Likely => "both halves point there, one weakly",
                Sureness::Unsure => "the halves of the trace disagree",
                Sureness::Unknown => "not known",
            }
            .into(),
        ),
        ("configurations tried".into(), whole(advice.tried.len() as f64)),
    ]
}

/// Columns that say what a configuration is.
fn heads() -> Vec<Column> {
    vec![
        Column::words("policy"),
        Column::words("mode"),
        Column::words("flash device"),
        Column::numbers("DRAM").under("pages"),
        Column::numbers("flash").under("pages"),
    ]
}

fn described(candidate: &Candidate) -> Vec<String> {
    let flash = |value: String| if candidate.flash_pages == 0 { NONE.into() } else { value };
    vec![
        candidate.policy.clone(),
        flash(candidate.mode.clone()),
        flash(candidate.flash_device.clone()),
        whole(candidate.dram_pages as f64),
        flash(whole(candidate.flash_pages as f64)),
    ]
}

/// So many times as fast as DRAM alone.
fn times(gain: Option<f64>) -> String {
    or_none(gain, |gain| decimal(gain, 2))
}

fn best(advice: &Advice) -> Section {
    let mut columns = heads();
    columns.extend([
        Column::numbers(format!("price, {}", advice.currency)),
        Column::numbers("mean, µs").under("response"),
        Column::numbers("p99, µs").under("response"),
        Column::numbers("energy, J"),
        Column::numbers("lifetime, years"),
        Column::numbers("whole").under("× DRAM alone"),
        Column::numbers("first half").under("× DRAM alone"),
        Column::numbers("second half").under("× DRAM alone"),
    ]);
    let row = |candidate: &Candidate| {
        let half = |at: usize| times(candidate.gain_in_halves.map(|gains| gains[at]));
        let mut row = described(candidate);
        row.extend([
            amount(candidate.money),
            with_half(
                decimal(candidate.mean_response_us, 1),
                candidate.response_half_width_us.map(|half| decimal(half, 1)),
            ),
            whole(candidate.p99_response_us),
            or_none(candidate.energy_j, |joules| decimal(joules, 2)),
            or_none(candidate.flash_lifetime_years, |years| decimal(years, 1)),
            times(candidate.gain),
            half(0),
            half(1),
        ]);
        row
    };
    let table = Table { columns, rows: advice.best.iter().map(row).collect() };
    let meaning = "What is advised comes first, then the best of each other policy and mode. × DRAM alone: so many times as \
                   fast as DRAM alone for the same money; below 1 flash hurts. Halves: the same in each half of the measured \
                   trace; where they differ, the advice stands on what changed in between. Energy: of DRAM and flash during \
                   T_v (3LA eq. 8). Lifetime: of as many devices as hold the flash, at their rated writes, at the pace of the \
                   trace; all that the chip programs counts, garbage collection included.";
    Section { title: "The best few".into(), blocks: vec![Block::Table(table), Block::Text(meaning.into())] }
}

/// The shortest response for each amount of money, where several were tried.
fn over_money(advice: &Advice) -> Option<Section> {
    let mut budgets: Vec<f64> = advice.tried.iter().map(|candidate| candidate.budget).collect();
    budgets.sort_by(f64::total_cmp);
    budgets.dedup();
    if budgets.len() < 2 {
        return None;
    }
    let shortest = |budget: f64, flash: bool| {
        let fits = |c: &&Candidate| c.budget == budget && (c.flash_pages > 0) == flash;
        advice.tried.iter().filter(fits).min_by(|a, b| a.mean_response_us.total_cmp(&b.mean_response_us))
    };
    let line = |series: &str, flash: bool| {
        let avoidable = |c: &Candidate| (c.mean_response_us - advice.compulsory_us).max(0.0);
        let point = |budget: &f64| Some((*budget, avoidable(shortest(*budget, flash)?)));
        Line { series: series.into(), paper: false, points: budgets.iter().filter_map(point).collect() }
    };
    let chart = LineChart {
        title: "What is left to avoid of the shortest mean response for the money".into(),
        x_label: format!("money, {}", advice.currency),
        y_label: "µs beyond first reads".into(),
        lines: vec![line("DRAM alone", false), line("with flash", true)],
        axis: Axis::Powers,
        in_terminal: false,
    };
    let columns = vec![
        Column::numbers(format!("money, {}", advice.currency)),
        Column::numbers("DRAM alone").under("mean response, µs"),
        Column::numbers("with flash").under("mean response, µs"),
        Column::words("under"),
        Column::numbers("DRAM").under("pages"),
        Column::numbers("flash").under("pages"),
    ];
    let row = |budget: &f64| {
        let response = |c: Option<&Candidate>| or_none(c.map(|c| c.mean_response_us), |us| decimal(us, 1));
        let flash = shortest(*budget, true);
        let pages = |of: fn(&Candidate) -> u64| or_none(flash.map(|c| of(c) as f64), whole);
        vec![
            amount(*budget),
            response(shortest(*budget, false)),
            response(flash),
            flash.map_or(NONE.into(), |c| format!("{} ({})", c.policy, c.mode)),
            pages(|c| c.dram_pages),
            pages(|c| c.flash_pages),
        ]
    };
    let table = Table { columns, rows: budgets.iter().map(row).collect() };
    let first_reads = format!(
        "Of each response {} µs are hits in DRAM and first reads, which come from disk whatever is bought; the plot is without \
         them.",
        decimal(advice.compulsory_us, 1)
    );
    Some(Section {
        title: "More money".into(),
        blocks: vec![Block::Chart(Chart::Lines(chart)), Block::Table(table), Block::Text(first_reads)],
    })
}

fn tried(advice: &Advice) -> Section {
    let mut columns = heads();
    columns.extend([
        Column::numbers(format!("price, {}", advice.currency)),
        Column::numbers("mean response, µs"),
        Column::numbers("× DRAM alone"),
        Column::numbers("DRAM").under("hits, %"),
        Column::numbers("flash").under("hits, %"),
        Column::numbers("reads").under("disk pages"),
        Column::numbers("writes").under("disk pages"),
    ]);
    let row = |candidate: &Candidate| {
        let flash = |value: String| if candidate.flash_pages == 0 { NONE.into() } else { value };
        let mut row = described(candidate);
        row.extend([
            amount(candidate.money),
            decimal(candidate.mean_response_us, 1),
            times(candidate.gain),
            percent(candidate.dram_hit_rate),
            flash(percent(candidate.flash_hit_rate)),
            whole(candidate.disk_reads as f64),
            whole(candidate.disk_writes as f64),
        ]);
        row
    };
    Section {
        title: "Everything that was tried".into(),
        blocks: vec![Block::Appendix(Table { columns, rows: advice.tried.iter().map(row).collect() })],
    }
}
