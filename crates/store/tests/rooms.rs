//! The walls within the store (`README.md`, rules 1 to 3): a check over the text of the sources.
//!
//! Tests may look into any room, so `tests.rs`, `models.rs` and `mod tests` are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A room may use rooms of the floors before its own.
const FLOORS: &[&[&str]] = &[
    &[
        "access", "bytes", "cpu", "error", "horizon", "id", "metrics", "options", "points", "table", "watch",
        "work",
    ],
    &["page", "wal", "locks"],
    &["durable", "space"],
    &["pool"],
    &["undo", "mtr"],
    &["disk_room", "checkpoint"],
    &["allocate", "checkpoints", "history", "log_room"],
    &["btree"],
    &["catalog", "txn"],
    &["core"],
    &["recovery", "blank"],
    &["store", "examine"],
    &["files"],
];

/// How the items begin that a `mod.rs` must not have.
const ITEMS: &[&str] = &["const ", "enum ", "fn ", "impl", "static ", "struct ", "trait ", "type "];

struct Source {
    room: String,
    /// Name of the file without its ending.
    file: String,
    /// Without comments and tests.
    code: String,
}

/// The code of a file without comments and without its tests.
fn code_of(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

fn stem(path: &Path) -> String {
    path.file_stem().and_then(|name| name.to_str()).expect("UTF-8").to_owned()
}

/// All sources but `lib.rs`.
fn sources() -> Vec<Source> {
    let entries = |folder: &Path| -> Vec<_> {
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect()
    };
    let mut found = Vec::new();
    for path in entries(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        let files = if path.is_dir() { entries(&path) } else { vec![path.clone()] };
        for file in files {
            let name = stem(&file);
            if !["lib", "tests", "models"].contains(&name.as_str()) {
                let code = code_of(&fs::read_to_string(&file).expect("a source"));
                found.push(Source { room: stem(&path), file: name, code });
            }
        }
    }
    assert!(found.len() > 60, "the sources were found");
    found
}

/// The identifier at the start of `text`.
fn identifier(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

/// The parts of a list in braces, without its nested lists' commas; `text` begins after the brace.
fn list(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    parts
}

/// The names that follow `prefix`, as in `crate::name` or `crate::{name, other::Thing}`.
fn named_after(prefix: &str, code: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, _) in code.match_indices(prefix) {
        let rest = &code[at + prefix.len()..];
        match rest.strip_prefix('{') {
            Some(inner) => names.extend(list(inner).into_iter().map(|part| identifier(part).to_owned())),
            None => {
                names.insert(identifier(rest).to_owned());
            }
        }
    }
    names.remove("");
    names
}

/// The rooms whose names `lib.rs` re-exports, by these names.
fn exports() -> BTreeMap<String, String> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).expect("lib.rs");
    let mut rooms = BTreeMap::new();
    for item in code_of(&text).split(';') {
        let Some(path) = item.trim().strip_prefix("pub use ") else { continue };
        let (before, last) = path.rsplit_once("::").expect("a path");
        let names = last.strip_prefix('{').map_or_else(|| vec![last], list);
        rooms.extend(names.into_iter().map(|name| (name.to_owned(), identifier(before).to_owned())));
    }
    assert_eq!(rooms.get("Txn").map(String::as_str), Some("txn"));
    rooms
}

#[test]
fn rooms_use_lower_floors_only() {
    let floor = |room: &str| FLOORS.iter().position(|floor| floor.contains(&room));
    let exports = exports();
    let mut wrong = Vec::new();
    let mut arrows = 0;
    for Source { room, file, code } in sources() {
        let Some(own) = floor(&room) else {
            wrong.push(format!("{room} has no floor"));
            continue;
        };
        for name in named_after("crate::", &code) {
            let used = exports.get(&name).unwrap_or(&name);
            arrows += 1;
            // The vocabulary is one room.
            let allowed = floor(used).is_some_and(|other| other < own || own == 0 && other == 0);
            if *used != room && !allowed {
                wrong.push(format!("{room}/{file} uses {used}"));
            }
        }
    }
    assert!(wrong.is_empty(), "against the arrows of README.md:\n{}", wrong.join("\n"));
    assert!(arrows > 200, "the imports were found: {arrows}");
}

#[test]
fn files_of_a_room_are_in_no_circle() {
    let sources = sources();
    let is_file = |room: &str, name: &str| sources.iter().any(|s| s.room == room && s.file == name);
    let mut uses: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    for Source { room, file, code } in &sources {
        // A name that `mod.rs` re-exports would hide an arrow. So files name their siblings.
        let names = named_after(&format!("crate::{room}::"), code);
        assert!(names.is_empty(), "{room}/{file} uses {names:?} from outside of its room");
        let names = named_after("super::", code);
        for name in &names {
            assert!(is_file(room, name), "{room}/{file} uses super::{name}, which is no file of the room");
        }
        uses.insert((room.clone(), file.clone()), names);
    }
    // Files that use no file of their room that is left are taken away, until no more can be.
    loop {
        let free: Vec<_> = uses
            .iter()
            .filter(|((room, file), names)| {
                let left = |name: &&String| uses.contains_key(&(room.clone(), (*name).clone()));
                !names.iter().filter(|name| *name != file).any(|name| left(&name))
            })
            .map(|(key, _)| key.clone())
            .collect();
        if free.is_empty() {
            break;
        }
        free.iter().for_each(|key| drop(uses.remove(key)));
    }
    assert!(uses.is_empty(), "in a circle, or above one: {:?}", uses.keys());
}

#[test]
fn a_mod_file_only_declares_and_re_exports() {
    let mut files = 0;
    for Source { room, code, .. } in sources().iter().filter(|source| source.file == "mod") {
        for line in code.lines() {
            let item = line.trim_start_matches("pub(crate) ").trim_start_matches("pub ");
            assert!(
                !ITEMS.iter().any(|word| item.starts_with(word)),
                "{room}/mod.rs defines something: {line}"
            );
        }
        files += 1;
    }
    assert!(files > 5, "the files were found");
}

#[test]
fn the_methods_of_a_type_are_where_it_is_defined() {
    let mut blocks = 0;
    for Source { room, file, code } in sources() {
        for line in code.lines().filter(|line| line.starts_with("impl") && !line.contains(" for ")) {
            let after = line.trim_start_matches("impl");
            // Generics come before the type.
            let mut depth = 0;
            let start = after
                .find(|c: char| {
                    depth += i32::from(c == '<') - i32::from(c == '>');
                    depth == 0 && c == ' '
                })
                .expect("a type after impl");
            let name = identifier(&after[start + 1..]);
            let defined = ["struct", "enum"].iter().any(|kind| {
                code.match_indices(&format!("{kind} {name}"))
                    .any(|(at, found)| identifier(&code[at + found.len()..]).is_empty())
            });
            assert!(defined, "{room}/{file}: methods of {name}, which another file defines");
            blocks += 1;
        }
    }
    assert!(blocks > 40, "the blocks were found: {blocks}");
}
