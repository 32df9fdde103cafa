//! The public items of a crate, from the pages that rustdoc has made: these have each signature as a person
//! would write it, and need no nightly compiler.

use anyhow::{Context, Result, bail};
use std::fs;
use std::path::Path;

/// All items of the documentation in `folder`: declarations, methods, and the traits that are implemented, a
/// line each, sorted by path. Traits that the compiler finds by itself (`Send`) are left out.
pub(super) fn items(folder: &Path) -> Result<Vec<String>> {
    let read = |name: &str| {
        let path = folder.join(name);
        fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))
    };
    let mut items = Vec::new();
    for line in between(&read("index.html")?, "id=\"reexport.", "</dt>") {
        // The rest of the tag is before it.
        items.push(text(line.split_once('>').map_or(line, |(_, rest)| rest)));
    }
    let all = read("all.html")?;
    let list = all.split("class=\"all-items\"").skip(1);
    let links =
        list.flat_map(|part| between(part.split("</ul>").next().unwrap_or_default(), "<a href=\"", "\""));
    for link in links {
        items.extend(of_page(&read(link)?, link)?);
    }
    if items.is_empty() {
        bail!("no item was found in {}; rustdoc may make other pages now", folder.display());
    }
    items.sort();
    Ok(items)
}

/// The item of one page, and its methods.
fn of_page(page: &str, link: &str) -> Result<Vec<String>> {
    let path = link.trim_end_matches(".html").replace('/', "::");
    // `struct.Name`: the kind is in the declaration.
    let (folder, name) = path.rsplit_once("::").map_or(("", path.as_str()), |(folder, name)| (folder, name));
    let name = name.split_once('.').map_or(name, |(_, name)| name);
    let path = if folder.is_empty() { name.to_owned() } else { format!("{folder}::{name}") };
    let declaration = between(page, "<pre class=\"rust item-decl\">", "</pre>");
    let Some(declaration) = declaration.first() else { bail!("{link} has no declaration") };
    let mut found = vec![format!("{path}: {}", text(declaration))];
    let part = |from: &str, until: &str| {
        let part = page.split(from).nth(1).unwrap_or_default();
        part.split(until).next().unwrap_or_default()
    };
    let methods = part("id=\"implementations-list\"", "id=\"trait-implementations");
    for method in between(methods, "<section id=\"", "</section>") {
        // Associated items; an impl's own section has an id of another kind.
        if method.starts_with("method.") || method.starts_with("associatedconstant.") {
            let header = between(method, "class=\"code-header\">", "</h4>");
            found.extend(header.iter().map(|header| format!("{path}::{}", text(header))));
        }
    }
    let traits = part("id=\"trait-implementations-list\"", "id=\"synthetic-implementations");
    for one in between(traits, "<section id=\"impl-", "</section>") {
        let header = between(one, "class=\"code-header\">", "</h3>");
        // Not a trait that a program can name.
        let named =
            header.iter().map(|header| text(header)).filter(|header| !header.contains("StructuralPartialEq"));
        found.extend(named.map(|header| format!("{path}: {header}")));
    }
    Ok(found)
}

/// What is between each `begin` and the next `end`.
fn between<'t>(text: &'t str, begin: &str, end: &str) -> Vec<&'t str> {
    text.split(begin).skip(1).filter_map(|part| part.split_once(end).map(|(inner, _)| inner)).collect()
}

/// HTML as plain text in one line: without tags, comments of rustdoc and the words of its folds.
fn text(html: &str) -> String {
    let mut kept = String::new();
    let mut rest = html;
    while let Some((before, tag)) = rest.split_once('<') {
        kept.push_str(before);
        let (name, after) = tag.split_once('>').unwrap_or((tag, ""));
        rest = match name.split([' ', '>']).next() {
            Some("summary") => after.split_once("</summary>").map_or("", |(_, after)| after),
            // A method of a trait has its documentation's toggle and its own line.
            Some("br") => {
                kept.push(' ');
                after
            }
            _ => after,
        };
    }
    kept.push_str(rest);
    for (entity, sign) in
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&nbsp;", " "), ("&amp;", "&")]
    {
        kept = kept.replace(entity, sign);
    }
    // A sign that leads to the traits of a result; an attribute that ends without a break.
    let kept = kept.replace('ⓘ', "").replace(")]pub", ")] pub");
    kept.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_gives_its_declaration_and_methods() {
        let page = "<pre class=\"rust item-decl\"><code>pub struct <b>A</b> { <details><summary><span>Show 2 fields\
                    </span></summary>pub a: &amp;<a href=\"x\">u8</a>,\n}</details></code></pre>\
                    <div id=\"implementations-list\"><section id=\"impl-A\" class=\"impl\"><h3 class=\"code-header\">impl A\
                    </h3></section><section id=\"method.new\" class=\"method\"><h4 class=\"code-header\">pub fn \
                    <a>new</a>() -&gt; Self</h4></section></div><div id=\"trait-implementations-list\">\
                    <section id=\"impl-Clone-for-A\" class=\"impl\"><h3 class=\"code-header\">impl Clone for A</h3></section>\
                    <section id=\"method.clone\" class=\"method\"><h4 class=\"code-header\">fn clone()</h4></section>\
                    <div id=\"synthetic-implementations-list\"><section id=\"impl-Send-for-A\" class=\"impl\">\
                    <h3 class=\"code-header\">impl Send for A</h3></section>";
        let found = of_page(page, "m/struct.A.html").unwrap();
        let expected =
            ["m::A: pub struct A { pub a: &u8, }", "m::A::pub fn new() -> Self", "m::A: impl Clone for A"];
        assert_eq!(found, expected);
        assert!(of_page("<pre>", "struct.A.html").is_err());
    }
}
