//! Each link of the documents leads to a file that exists, and to a heading or a test that is in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

/// Folders that are not of the repository, or not of its documents.
const SKIPPED: &[&str] = &[".git", "target", "fuzz"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("two folders above this crate")
}

/// The files below a folder whose names end so.
fn files(folder: &Path, ending: &str, found: &mut impl FnMut(PathBuf)) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && !SKIPPED.contains(&name) {
            files(&path, ending, found);
        } else if name.ends_with(ending) {
            found(path);
        }
    }
}

fn documents(folder: &Path, found: &mut Vec<PathBuf>) {
    files(folder, ".md", &mut |path| found.push(path));
}

/// A link: where it leads, and its title, which names a test.
#[derive(Debug, PartialEq)]
struct Link {
    file: String,
    heading: Option<String>,
    test: Option<String>,
}

/// The links of a text, without those to other places of the world. Code between fences has none.
fn links(text: &str) -> Vec<Link> {
    let mut found = Vec::new();
    let mut fenced = false;
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        if fenced {
            continue;
        }
        for (at, _) in line.match_indices("](") {
            let Some(end) = line[at..].find(')') else { continue };
            let inner = &line[at + 2..at + end];
            let (target, title) = inner.split_once(' ').unwrap_or((inner, ""));
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (file, heading) = target.split_once('#').map_or((target, None), |(f, h)| (f, Some(h)));
            let test = title.trim_matches('"');
            found.push(Link {
                file: file.to_owned(),
                heading: heading.map(str::to_owned),
                test: (!test.is_empty()).then(|| test.to_owned()),
            });
        }
    }
    found
}

/// The anchors of a document's headings, as GitHub and mdBook make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeMap::<String, usize>::new();
    let mut all = BTreeSet::new();
    let mut fenced = false;
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        let Some(heading) = line.strip_prefix('#').filter(|_| !fenced) else { continue };
        let heading = heading.trim_start_matches('#').trim();
        // Of a link in a heading only its text counts.
        let mut text = String::new();
        let mut rest = heading;
        while let Some((before, after)) = rest.split_once("](") {
            text.push_str(before);
            rest = after.split_once(')').map_or("", |(_, rest)| rest);
        }
        text.push_str(rest);
        let text = text.to_lowercase();
        let kept = text.chars().filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
            _ => None,
        });
        let anchor: String = kept.collect();
        let count = found.entry(anchor.clone()).or_default();
        all.insert(if *count == 0 { anchor } else { format!("{anchor}-{count}") });
        *count += 1;
    }
    all
}

/// The path without `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = plain.pop(),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

#[test]
fn every_link_leads_somewhere() {
    let mut found = Vec::new();
    documents(root(), &mut found);
    assert!(found.len() > 30, "the documents were found: {}", found.len());
    let (mut broken, mut count, mut tests) = (Vec::new(), 0, 0);
    for path in &found {
        let text = fs::read_to_string(path).expect("UTF-8");
        for link in links(&text) {
            count += 1;
            let target = match link.file.is_empty() {
                true => path.clone(),
                false => plain(&path.parent().expect("a folder").join(&link.file)),
            };
            let shown = path.strip_prefix(root()).expect("below it").display();
            let content = || fs::read_to_string(&target).unwrap_or_default();
            let wrong = match (&link.heading, &link.test) {
                _ if !target.exists() => Some("there is no such file"),
                (Some(heading), _) if !anchors(&content()).contains(heading) => {
                    Some("there is no such heading")
                }
                (_, Some(test)) if !content().contains(&format!("fn {test}(")) => {
                    Some("there is no such test")
                }
                _ => None,
            };
            tests += usize::from(link.test.is_some());
            broken.extend(wrong.map(|why| format!("{shown}: {link:?}: {why}")));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert!(count > 200 && tests > 20, "{count} links and {tests} tests were found");
}

/// The book has each document of `docs`, so that a new one is not forgotten.
#[test]
fn the_book_has_every_document() {
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md")).expect("the book's contents");
    let listed: BTreeSet<_> = links(&summary).into_iter().map(|link| link.file).collect();
    let mut found = Vec::new();
    documents(&root().join("docs"), &mut found);
    let names = found.iter().map(|path| path.strip_prefix(root().join("docs")).expect("below it"));
    let names: BTreeSet<_> = names.map(|path| path.to_str().expect("UTF-8").to_owned()).collect();
    let missing: Vec<_> =
        names.iter().filter(|name| *name != "SUMMARY.md" && !listed.contains(*name)).collect();
    assert!(missing.is_empty(), "not in docs/SUMMARY.md: {missing:?}");
}

/// The values of `name` in a page.
fn attributes<'a>(page: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    page.split(name).skip(1).filter_map(|rest| rest.strip_prefix("=\"")?.split('"').next())
}

/// Of the pages that mdBook makes: it has other rules than GitHub for README.md, and the book has no sources.
#[test]
fn every_link_of_the_book_leads_somewhere() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let book = folder.path().join("book");
    let mut mdbook = Command::new("mdbook");
    let Ok(made) = mdbook.arg("build").arg(root().join("docs")).arg("-d").arg(&book).output() else {
        println!("skipped: there is no mdbook");
        return;
    };
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mut pages = BTreeMap::new();
    files(&book, ".html", &mut |path| {
        let text = fs::read_to_string(&path).expect("UTF-8");
        pages.insert(path, text);
    });
    // The first is for addresses that are not in the book, the others repeat its pages in parts.
    pages.retain(|path, _| !["404.html", "print.html", "toc.html"].iter().any(|name| path.ends_with(name)));
    let (mut broken, mut count) = (Vec::new(), 0);
    for (path, text) in &pages {
        for link in attributes(text, " href").chain(attributes(text, " src")) {
            if link.contains(':') {
                continue;
            }
            count += 1;
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => path.clone(),
                file => plain(&path.parent().expect("a folder").join(file)),
            };
            let there = || {
                pages.get(&target).is_none_or(|page| attributes(page, " id").any(|anchor| anchor == heading))
            };
            if !target.exists() || !(heading.is_empty() || there()) {
                broken.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert!(pages.len() > 30 && count > 1000, "{} pages with {count} links were found", pages.len());
}

#[test]
fn links_and_anchors_are_read() {
    let text = "# A [b](c.md), `D`\n```\n[no](x)\n```\n[one](a/b.md#the-end) [w](https://x.y) \
                [t](t.rs \"it_is\")\n# A b, D";
    let link = |file: &str, heading: Option<&str>, test: Option<&str>| Link {
        file: file.to_owned(),
        heading: heading.map(str::to_owned),
        test: test.map(str::to_owned),
    };
    let found =
        [link("c.md", None, None), link("a/b.md", Some("the-end"), None), link("t.rs", None, Some("it_is"))];
    assert_eq!(links(text), found);
    let expected = ["a-b-d".to_owned(), "a-b-d-1".to_owned()];
    assert_eq!(anchors(text), BTreeSet::from(expected));
}
