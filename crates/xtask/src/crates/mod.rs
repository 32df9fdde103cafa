//! `cargo xtask crates`: whether the crates can be published, and whether what others may call is as it is
//! written down.
//!
//! Each crate that is for others has a file `API.txt`: its public items with their signatures, one a line. A
//! change of the interface is a change of that file, which a review sees. The example with which a README
//! begins has a bounded number of types.

mod api;
mod outside;

use crate::paths;
use crate::programs::output;
use crate::step::Steps;
use anyhow::{Context, Result, bail};
use clap::Args;
use std::fs;
use std::process::Command;

/// Crates that are for others; the others that are published are parts of these.
const FOR_OTHERS: [&str; 5] = ["core", "engine", "nbd", "store", "trace"];

/// Types that a user meets in the first example of a crate, at most. The examples are compiled as tests.
const TYPES_MAX: [(&str, usize); 2] = [("store", 5), ("engine", 10)];

/// What `crates` may be told.
#[derive(Args, Debug)]
pub struct CratesArgs {
    /// Writes each API.txt instead of comparing it.
    #[arg(long)]
    write: bool,
    /// Compiles and runs a project outside the workspace that opens a store with the packaged crates.
    #[arg(long)]
    compile: bool,
    /// Passes, and says why, where the registry cannot be asked.
    #[arg(long)]
    or_skip: bool,
}

/// Checks them.
///
/// # Errors
///
/// A crate cannot be published; an interface is not what its file says.
pub fn crates(arguments: &CratesArgs) -> Result<()> {
    let steps = Steps::new(&paths::target().join("crates/crates.log"))?;
    for (name, most) in TYPES_MAX {
        let readme = paths::repository().join("crates").join(name).join("README.md");
        let text = fs::read_to_string(&readme).with_context(|| format!("{}", readme.display()))?;
        let types = types_of_example(&text, &format!("entresol_{name}"));
        if types.is_empty() || types.len() > most {
            bail!("crates/{name}/README.md: its example has the types {}; {most} at most", types.join(", "));
        }
        println!("entresol-{name}: its example has {} types of {most}", types.len());
    }
    interfaces(&steps, arguments.write)?;
    if arguments.write {
        return Ok(());
    }
    outside::forget()?;
    let mut publish = cargo();
    // Not compiled one by one, which takes a quarter of an hour; `cargo publish` itself does that.
    publish.args(["publish", "--workspace", "--dry-run", "--no-verify", "--locked", "--allow-dirty"]);
    match steps.run("cargo publish --workspace --dry-run", &mut publish) {
        Err(error) if arguments.or_skip && !has_registry() => {
            println!("skipped: the registry cannot be asked: {error:#}");
            return Ok(());
        }
        outcome => outcome?,
    }
    println!("cargo publish --workspace --dry-run: passed");
    if arguments.compile { outside::compile(&steps) } else { Ok(()) }
}

/// The types, traits and enums that the first example of a README takes from `library`.
fn types_of_example(readme: &str, library: &str) -> Vec<String> {
    let example =
        readme.split("```rust").nth(1).and_then(|rest| rest.split("```").next()).unwrap_or_default();
    let begin = format!("use {library}::");
    let uses = example.split(&begin).skip(1);
    let names = uses.filter_map(|rest| rest.split(';').next()).flat_map(|list| {
        list.split(|sign: char| !(sign.is_alphanumeric() || sign == '_')).map(str::to_owned)
    });
    names.filter(|name| name.starts_with(char::is_uppercase)).collect()
}

fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.current_dir(paths::repository());
    cargo
}

/// Whether the registry answers: it is asked for a crate that is there.
fn has_registry() -> bool {
    output(cargo().args(["info", "--quiet", "clap"])).is_ok()
}

/// Compares each API.txt with the documentation that cargo makes, or writes it.
fn interfaces(steps: &Steps, write: bool) -> Result<()> {
    let mut doc = cargo();
    doc.args(["doc", "--release", "--workspace", "--no-deps", "--locked"]).env("RUSTDOCFLAGS", "-D warnings");
    steps.run("cargo doc", &mut doc)?;
    let mut wrong = Vec::new();
    for name in FOR_OTHERS {
        let folder = paths::target().join("doc").join(format!("entresol_{name}"));
        let items = api::items(&folder)?;
        let text = items.join("\n") + "\n";
        let file = paths::repository().join("crates").join(name).join("API.txt");
        let old = fs::read_to_string(&file).unwrap_or_default();
        if write {
            fs::write(&file, &text).with_context(|| format!("{} cannot be written", file.display()))?;
        } else if old != text {
            let differ = difference(&old, &text);
            wrong.push(format!("crates/{name}/API.txt: {differ}"));
        }
        println!("entresol-{name}: {} public items", items.len());
    }
    if !wrong.is_empty() {
        bail!("{}; if that is meant: cargo xtask crates --write", wrong.join("; "));
    }
    Ok(())
}

/// The first lines that one text has and the other lacks.
fn difference(old: &str, new: &str) -> String {
    let lacks = |text: &str, other: &str| -> Vec<String> {
        let other: Vec<_> = other.lines().collect();
        text.lines().filter(|line| !other.contains(line)).map(str::to_owned).collect()
    };
    let (gone, added) = (lacks(old, new), lacks(new, old));
    let first = |lines: &[String]| lines.first().map_or(String::new(), |line| format!(", as `{line}`"));
    format!("{} lines are gone{}; {} are new{}", gone.len(), first(&gone), added.len(), first(&added))
}

#[cfg(test)]
mod tests {
    use super::{difference, types_of_example};

    #[test]
    fn types_of_an_example_are_counted() {
        let readme =
            "A\n```rust\nuse a_b::{C, d, Ef,\n G};\nuse a_b::H;\nuse a_c::I;\n```\n```rust\nuse a_b::J;\n```";
        assert_eq!(types_of_example(readme, "a_b"), ["C", "Ef", "G", "H"]);
    }

    #[test]
    fn a_change_is_named() {
        let said = difference("fn a()\nfn b()\n", "fn a()\nfn b(u8)\n");
        assert_eq!(said, "1 lines are gone, as `fn b()`; 1 are new, as `fn b(u8)`");
    }
}
