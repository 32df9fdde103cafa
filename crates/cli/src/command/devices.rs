//! `entresol devices`: the modelled devices with their parameters.

use crate::failure::Failure;
use crate::output;
use entresol_device::model::{DiskParameters, NetworkParameters, SsdParameters};
use entresol_device::{Model, Profile};
use entresol_lab::paper::face;
use entresol_lab::report::{Column, Table, terminal};

/// Prints the profiles.
pub fn run() -> Result<(), Failure> {
    let width = output::widths().table;
    let mut text = String::from("Device profiles, with the rates of FaCE's table 1 where it has them\n\n");
    text.push_str(&terminal::render_table(&profiles(), width));
    for (title, table) in [
        ("SSDs (for --flash-device; also for --disk-device)", parameters(ssd)),
        ("Disks and arrays (for --disk-device)", parameters(disk)),
        ("Network volumes (for --disk-device)", parameters(network)),
    ] {
        text.push_str(&format!("\n{title}\n\n"));
        text.push_str(&terminal::render_table(&table, width));
    }
    output::print(&text)
}

const NONE: &str = "–";

fn profiles() -> Table {
    let columns = vec![
        Column::words("profile"),
        Column::words("kind"),
        Column::words("what it is"),
        Column::numbers("$/GB"),
        Column::numbers("read").under("random IOPS"),
        Column::numbers("write").under("random IOPS"),
        Column::numbers("read").under("MB/s"),
        Column::numbers("write").under("MB/s"),
    ];
    let row = |profile: &Profile| {
        let kind = match profile.model {
            Model::Ssd(_) => "ssd",
            Model::Disk(_) => "disk",
            Model::Network(_) => "network",
        };
        let medium = face::MEDIA.iter().find(|medium| medium.profile == profile.name);
        let rate = |of: fn(&face::Medium) -> f64| medium.map_or(NONE.to_owned(), |m| of(m).to_string());
        vec![
            profile.name.to_owned(),
            kind.to_owned(),
            profile.description.to_owned(),
            profile.dollars_per_gb.map_or(NONE.to_owned(), |dollars| format!("{dollars:.2}")),
            rate(|m| m.random_read_iops),
            rate(|m| m.random_write_iops),
            rate(|m| m.sequential_read_mb_s),
            rate(|m| m.sequential_write_mb_s),
        ]
    };
    Table { columns, rows: Profile::all().iter().map(row).collect() }
}

/// Name and value of each parameter.
type Parameters = Vec<(&'static str, String)>;

/// A row for each parameter, a column for each profile that `of` knows.
fn parameters(of: fn(&Model) -> Option<Parameters>) -> Table {
    let known: Vec<_> = Profile::all().iter().filter_map(|p| Some((p.name, of(&p.model)?))).collect();
    let columns = std::iter::once(Column::words("parameter"))
        .chain(known.iter().map(|(name, _)| Column::numbers(*name)))
        .collect();
    let names = known.first().map_or_else(Vec::new, |(_, list)| list.iter().map(|(name, _)| *name).collect());
    let row = |(index, name): (usize, &&str)| {
        let values = known.iter().map(|(_, list)| list[index].1.clone());
        std::iter::once((*name).to_owned()).chain(values).collect()
    };
    Table { columns, rows: names.iter().enumerate().map(row).collect() }
}

fn ssd(model: &Model) -> Option<Parameters> {
    let Model::Ssd(p) = model else { return None };
    let SsdParameters { queue_depth, dies, program_pages, block_pages, buffer_pages, .. } = p;
    Some(vec![
        ("queue depth, commands", queue_depth.to_string()),
        ("dies", dies.to_string()),
        ("command, µs", micros(p.command_ns as f64)),
        ("transfer of a page, µs", micros(p.transfer_ns as f64)),
        ("read, µs", micros(p.read_ns as f64)),
        ("program, µs", micros(p.program_ns as f64)),
        ("pages of a program", program_pages.to_string()),
        ("erase, µs", micros(p.erase_ns as f64)),
        ("pages of an erase block", block_pages.to_string()),
        ("spare space, %", format!("{:.1}", p.spare_share * 100.0)),
        ("write amplification, random", format!("{:.1}", p.write_amplification)),
        ("garbage collection at a stretch, ms", format!("{:.1}", p.gc_episode_ns as f64 / 1e6)),
        ("reads suspend it after, µs", or_never(p.suspend_ns)),
        ("write buffer, pages", buffer_pages.to_string()),
        (
            "mapping cached for, MiB",
            if p.map_cache_bytes == u64::MAX { "all".into() } else { mib(p.map_cache_bytes) },
        ),
        ("power-loss protected", if p.power_loss_protected { "yes" } else { "no" }.into()),
        ("sync, µs", micros(p.sync_ns as f64)),
    ])
}

fn disk(model: &Model) -> Option<Parameters> {
    let Model::Disk(p) = model else { return None };
    let DiskParameters { spindles, .. } = p;
    Some(vec![
        ("spindles", spindles.to_string()),
        ("stripe unit, KiB", (p.stripe_bytes >> 10).to_string()),
        ("random read alone, ms", millis(p.read_shallow_ns)),
        ("random read in a deep queue, ms", millis(p.read_deep_ns)),
        ("random write alone, ms", millis(p.write_shallow_ns)),
        ("random write in a deep queue, ms", millis(p.write_deep_ns)),
        ("sequential read of a spindle, MB/s", format!("{:.1}", p.read_bandwidth / 1e6)),
        ("sequential write of a spindle, MB/s", format!("{:.1}", p.write_bandwidth / 1e6)),
        ("protected write cache, MiB", mib(p.write_cache_bytes)),
        ("cached write, µs", micros(p.cache_latency_ns as f64)),
        ("sync, µs", micros(p.sync_ns as f64)),
    ])
}

fn network(model: &Model) -> Option<Parameters> {
    let Model::Network(p) = model else { return None };
    let NetworkParameters { iops_max, bandwidth_bytes_per_s, .. } = p;
    Some(vec![
        ("requests a second", format!("{iops_max:.0}")),
        ("bandwidth, MB/s", format!("{:.1}", bandwidth_bytes_per_s / 1e6)),
        ("largest request that counts once, KiB", (p.request_bytes_max >> 10).to_string()),
        ("latency, ms", millis(p.latency_ns as f64)),
        ("sync, µs", micros(p.sync_ns as f64)),
    ])
}

fn micros(nanoseconds: f64) -> String {
    format!("{:.1}", nanoseconds / 1e3)
}

fn millis(nanoseconds: f64) -> String {
    format!("{:.2}", nanoseconds / 1e6)
}

fn mib(bytes: u64) -> String {
    (bytes >> 20).to_string()
}

fn or_never(nanoseconds: u64) -> String {
    if nanoseconds == u64::MAX { "never".into() } else { micros(nanoseconds as f64) }
}
