//! Weaves mutants into source files.
//!
//! Code is compared by its words and signs: white space and comments do not count, so that an anchor still
//! fits after its lines were moved, wrapped or explained. Of an anchor and its replacement only the words in
//! which they differ are woven in, so several mutants may be in one line.

use super::file::{Mutant, Place};
use anyhow::{Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::Path;

/// The word in a replacement that says whether its mutant is alive.
pub(super) const ALIVE: &str = "ALIVE";

/// All source files that mutants change, by path: their text with all mutants.
///
/// # Errors
///
/// All places that do not fit, one a line.
pub(super) fn sources(root: &Path, mutants: &[Mutant]) -> Result<BTreeMap<String, String>> {
    let mut by_file = BTreeMap::<&str, Vec<(&str, &Place)>>::new();
    for mutant in mutants {
        for place in &mutant.place {
            by_file.entry(&place.file).or_default().push((&mutant.name, place));
        }
    }
    let (mut woven, mut faults) = (BTreeMap::new(), Vec::new());
    for (file, places) in by_file {
        let text = fs::read_to_string(root.join(file));
        let text = text.map_err(|error| vec![not_read(file, &places, &error)]);
        match text.and_then(|text| weave(file, &text, &places)) {
            Ok(text) => drop(woven.insert(file.to_owned(), text)),
            Err(found) => faults.extend(found),
        }
    }
    if !faults.is_empty() {
        bail!("{}", faults.join("\n"));
    }
    Ok(woven)
}

fn not_read(file: &str, places: &[(&str, &Place)], error: &std::io::Error) -> String {
    let names: Vec<_> = places.iter().map(|(name, _)| *name).collect();
    format!("{file} cannot be read: {error}; name the file that has the code of {}", names.join(", "))
}

/// A change of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Edit<'a> {
    name: &'a str,
    bytes: Range<usize>,
    new: String,
}

/// The text of `file` with the mutants of these names.
fn weave(file: &str, text: &str, places: &[(&str, &Place)]) -> Result<String, Vec<String>> {
    let source = tokens(text);
    let (mut edits, mut faults) = (Vec::new(), Vec::new());
    for (name, place) in places {
        match edit(&source, name, place, is_alive(file, name)) {
            Ok(edit) => edits.push(edit),
            Err(fault) => faults.push(format!("{file}: mutant {name}: {fault}")),
        }
    }
    edits.sort_by_key(|edit| (edit.bytes.start, edit.bytes.end, edit.name));
    for pair in edits.windows(2) {
        if pair[1].bytes.start < pair[0].bytes.end {
            faults.push(format!(
                "{file}: mutants {} and {} change the same words; write one of them so that it adds to them, or change \
                 another line",
                pair[0].name, pair[1].name
            ));
        }
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let (mut woven, mut from) = (String::new(), 0);
    for edit in edits {
        woven.push_str(&text[from..edit.bytes.start]);
        woven.push_str(&edit.new);
        from = edit.bytes.end;
    }
    woven.push_str(&text[from..]);
    Ok(woven)
}

/// The expression that is true if the mutant is alive.
fn is_alive(file: &str, name: &str) -> String {
    let krate = if file.starts_with("crates/core/") { "crate" } else { "entresol_core" };
    format!("{krate}::mutant::is_alive(const {{ {krate}::mutant::key(\"{name}\") }})")
}

fn edit<'a>(source: &[Token<'_>], name: &'a str, place: &Place, alive: String) -> Result<Edit<'a>, String> {
    let (anchor, replacement) = (tokens(&place.anchor), tokens(&place.replacement));
    if anchor.is_empty() {
        return Err("its anchor is empty".to_owned());
    }
    let found: Vec<usize> = (0..=source.len().saturating_sub(anchor.len()))
        .filter(|at| source[*at..].len() >= anchor.len() && same(&source[*at..], &anchor) == anchor.len())
        .collect();
    let first_line = place.anchor.trim().lines().next().unwrap_or_default();
    let [at] = found[..] else {
        return Err(match found.len() {
            0 => format!(
                "the anchor {first_line:?} is not there; write the lines as they are now, in the anchor and in the replacement, \
                 and see that they still make the bug"
            ),
            times => {
                format!("the anchor {first_line:?} is there {times} times; add a line before or after it")
            }
        });
    };
    // The words at both ends that stay.
    let before = same(&anchor, &replacement);
    let least = anchor.len().min(replacement.len()) - before;
    let ends = anchor.iter().rev().zip(replacement.iter().rev()).take(least);
    let after = ends.take_while(|(one, other)| one.text == other.text).count();
    if before + after == anchor.len().max(replacement.len()) {
        return Err("its replacement is the same as its anchor".to_owned());
    }
    let old = &source[at + before..at + anchor.len() - after];
    // An addition is put before the next word.
    let start = source.get(at + before).map_or(source.last().map_or(0, Token::end), |next| next.at);
    let bytes = start..old.last().map_or(start, Token::end);
    let new = &replacement[before..replacement.len() - after];
    let new = match new {
        [first, .., last] => &place.replacement[first.at..last.end()],
        [one] => one.text,
        [] => "",
    };
    // A comment ends at the end of its line.
    let end = if new.contains("//") { "\n" } else { " " };
    Ok(Edit { name, bytes, new: format!(" {}{end}", replace_word(new, &alive)) })
}

/// `text` with `alive` for each word [`ALIVE`].
fn replace_word(text: &str, alive: &str) -> String {
    let (mut replaced, mut from) = (String::new(), 0);
    for token in tokens(text).iter().filter(|token| token.text == ALIVE) {
        replaced.push_str(&text[from..token.at]);
        replaced.push_str(alive);
        from = token.end();
    }
    replaced + &text[from..]
}

/// A word, or a sign. (What follows two slashes in a string counts as a comment, too: in source and anchor
/// alike.)
#[derive(Clone, Copy, Debug)]
struct Token<'a> {
    at: usize,
    text: &'a str,
}

impl Token<'_> {
    fn end(&self) -> usize {
        self.at + self.text.len()
    }
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let is_of_word = |character: char| character.is_alphanumeric() || character == '_';
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let length = match is_of_word(first) {
            true => text[at..].find(|character| !is_of_word(character)).unwrap_or(text.len() - at),
            false if text[at..].starts_with("//") => text[at..].find('\n').unwrap_or(text.len() - at),
            false => first.len_utf8(),
        };
        if !first.is_whitespace() && !text[at..].starts_with("//") {
            tokens.push(Token { at, text: &text[at..at + length] });
        }
        at += length;
    }
    tokens
}

/// How many of their first words are the same.
fn same(one: &[Token<'_>], other: &[Token<'_>]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one.text == other.text).count()
}

#[cfg(test)]
#[path = "weave_tests.rs"]
mod tests;
