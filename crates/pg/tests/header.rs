//! The header and the SQL script say what the library does: names, numbers and orders agree.

use entresol_pg::types::{BACKEND_KINDS, EntStat, FORECAST_BYTES, close, code, event, flag, latency, place};
use std::fs;
use std::path::Path;

fn door(name: &str) -> String {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    fs::read_to_string(repository.join("doors/postgres").join(name)).unwrap()
}

#[test]
fn the_numbers_of_the_header_are_those_of_the_library() {
    let header = door("entresol.h");
    let number = |name: &str| -> i64 {
        let line = header.lines().map(str::trim).find(|line| line.starts_with(&format!("{name} = ")));
        let value =
            line.unwrap_or_else(|| panic!("{name} is in the header")).split(['=', ',']).nth(1).unwrap();
        let value = value.trim();
        match value.strip_prefix("0x") {
            Some(digits) => i64::from_str_radix(digits, 16).unwrap(),
            None => value.parse().unwrap(),
        }
    };
    let codes = [
        ("ENT_DONE", code::DONE),
        ("ENT_ABSENT", code::ABSENT),
        ("ENT_FULL", code::FULL),
        ("ENT_DISK_ONLY", code::DISK_ONLY),
        ("ENT_NOTHING", code::NOTHING),
        ("ENT_REFUSED", code::REFUSED),
        ("ENT_DAMAGED", code::DAMAGED),
        ("ENT_FAILED", code::FAILED),
        ("ENT_GONE", code::GONE),
        ("ENT_INTERRUPTED", code::INTERRUPTED),
        ("ENT_CHANGED", code::CHANGED),
        ("ENT_ON_DISK", place::DISK),
        ("ENT_AT_HAND", place::AT_HAND),
        ("ENT_ON_FLASH", place::FLASH),
        ("ENT_EVENT_PULL", event::PULL),
        ("ENT_EVENT_MESSAGE", event::MESSAGE),
        ("ENT_EVENT_FAILED", event::FAILED),
        ("ENT_EVENT_OFF", event::OFF),
    ];
    for (name, expected) in codes {
        assert_eq!(number(name), i64::from(expected), "{name}");
    }
    let flags = [
        ("ENT_DIRTY", flag::DIRTY),
        ("ENT_PULL", flag::PULL),
        ("ENT_THROUGH", flag::THROUGH),
        ("ENT_KEPT_OUT", flag::KEPT_OUT),
        ("ENT_ATOMIC", flag::ATOMIC),
        ("ENT_TOOK_READ", latency::READ),
        ("ENT_TOOK_STAGE", latency::STAGE),
        ("ENT_TOOK_FLASH_WRITE", latency::FLASH_WRITE),
        ("ENT_TOOK_BACKGROUND", latency::BACKGROUND),
        ("ENT_TOOK_CHECKPOINT", latency::CHECKPOINT),
        ("ENT_TOOK_FLASH_SYNC", latency::FLASH_SYNC),
        ("ENT_CLOSE_WARM", close::WARM),
        ("ENT_CLOSE_DRAINED", close::DRAINED),
        ("ENT_CLOSE_RELEASED", close::RELEASED),
    ];
    for (name, expected) in flags {
        assert_eq!(number(name), i64::from(expected), "{name}");
    }
    for (name, expected) in [
        ("ENT_LATENCIES", latency::ROWS),
        ("ENT_BACKEND_KINDS", BACKEND_KINDS),
        ("ENT_FORECAST_BYTES", FORECAST_BYTES),
    ] {
        assert!(header.contains(&format!("#define {name} {expected}\n")), "{name}");
    }
}

#[test]
fn the_columns_of_the_view_are_the_fields_of_the_library() {
    let script = door("entresol/entresol--1.0.sql");
    let function = script.split("CREATE FUNCTION entresol_stat(").nth(1).unwrap();
    let columns = function.split(')').next().unwrap();
    let columns: Vec<_> =
        columns.lines().filter_map(|line| line.trim().strip_prefix("OUT ")?.split(' ').next()).collect();
    assert_eq!(columns, EntStat::FIELDS);
    assert_eq!(size_of::<EntStat>(), 8 * columns.len());
    assert!(door("entresol.h").contains(&format!("#define ENT_STATS {}", columns.len())));
    assert!(door("entresol.h").contains(&format!("values[{}]", columns.len())));
    for (name, field) in
        [("SLOTS", "slots"), ("SLOTS_VALID", "slots_valid"), ("SLOTS_SUPERSEDED", "slots_superseded")]
    {
        let at = columns.iter().position(|column| *column == field).unwrap();
        assert!(door("entresol.h").contains(&format!("#define ENT_STAT_{name} {at}\n")), "{name}");
    }
}

/// Every function of the header is in the library, and the other way round.
#[test]
fn the_functions_of_the_header_are_those_of_the_library() {
    let names = |text: &str, before: &str| {
        let mut names: Vec<String> = text
            .lines()
            .filter(|line| !line.trim_start().starts_with(['*', '/']))
            .filter_map(|line| line.split(before).nth(1)?.split('(').next().map(str::to_owned))
            .collect();
        names.sort();
        names.dedup();
        names
    };
    let header = names(&door("entresol.h"), "\tent_");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let library =
        ["abi.rs", "abi_worker.rs"].map(|file| fs::read_to_string(source.join(file)).unwrap()).concat();
    assert_eq!(header, names(&library, "fn ent_"));
    assert!(header.len() > 15, "{header:?}");
}

/// The meaning of each field, as types.rs has it.
fn meanings() -> Vec<(&'static str, String)> {
    let types = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/types.rs");
    let types = fs::read_to_string(types).unwrap();
    let meaning = |field: &&'static str| {
        let line = types.lines().map(str::trim).find(|line| line.starts_with(&format!("{field}: \"")));
        let line = line.unwrap_or_else(|| panic!("{field} has no meaning"));
        (*field, line.split('"').nth(1).unwrap().to_owned())
    };
    EntStat::FIELDS.iter().map(meaning).collect()
}

#[test]
fn the_columns_say_what_they_mean_in_the_server_and_in_the_document() {
    let script = door("entresol/entresol--1.0.sql");
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let document = fs::read_to_string(repository.join("docs/POSTGRESQL.md")).unwrap();
    for (field, meaning) in meanings() {
        let comment =
            format!("COMMENT ON COLUMN entresol_stat.{field} IS\n    '{}';", meaning.replace('\'', "''"));
        assert!(script.contains(&comment), "{comment}");
        let row = format!("| `{field}` | {}", meaning.trim_end_matches('.').to_lowercase());
        let lines = document.lines().map(str::to_lowercase);
        assert!(lines.into_iter().any(|line| line.starts_with(&row)), "{row}");
    }
}
