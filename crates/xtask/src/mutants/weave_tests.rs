//! Mutants in small sources.

use super::*;

fn place(anchor: &str, replacement: &str) -> Place {
    Place {
        file: "crates/a/src/b.rs".to_owned(),
        anchor: anchor.to_owned(),
        replacement: replacement.to_owned(),
    }
}

/// `source` with mutants called `m0`, `m1` and so on; their conditions read `<m0>`.
fn woven(source: &str, mutants: &[(&str, &str)]) -> Result<String, Vec<String>> {
    let places: Vec<_> = mutants.iter().map(|(anchor, replacement)| place(anchor, replacement)).collect();
    let names: Vec<_> = (0..places.len()).map(|at| format!("m{at}")).collect();
    let named: Vec<_> = names.iter().map(String::as_str).zip(&places).collect();
    let mut text = weave("b.rs", source, &named)?;
    for name in &names {
        text = text.replace(&is_alive("b.rs", name), &format!("<{name}>"));
    }
    Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn fault(source: &str, mutants: &[(&str, &str)]) -> String {
    woven(source, mutants).expect_err("it does not fit").join("\n")
}

#[test]
fn only_the_words_that_differ_change() {
    let source = "fn f() {\n    if a && b {\n        c();\n    }\n}\n";
    let mutant = ("if a && b {", "if a && b && !ALIVE {");
    assert_eq!(woven(source, &[mutant]).unwrap(), "fn f() { if a && b && !<m0> { c(); } }");
    let left_out = ("c();", "if !ALIVE { c(); }");
    assert_eq!(woven(source, &[left_out]).unwrap(), "fn f() { if a && b { if !<m0> { c(); } } }");
    let added = ("c();", "c(); if ALIVE { d(); }");
    assert_eq!(woven(source, &[added]).unwrap(), "fn f() { if a && b { c(); if <m0> { d(); } } }");
}

#[test]
fn an_anchor_fits_however_its_lines_are_wrapped() {
    let mutant = ("let same = a == b;", "let same = a == b || ALIVE;");
    assert_eq!(woven("let same =\n        a == b;", &[mutant]).unwrap(), "let same = a == b || <m0> ;");
}

#[test]
fn comments_do_not_count() {
    let source = "a();\n// Why.\nb(); // How.\nc();";
    let mutant = ("a();\nb();\nc();", "a();\n// Why not?\nif ALIVE { d(); }\nb();\nc();");
    assert_eq!(woven(source, &[mutant]).unwrap(), "a(); // Why. if <m0> { d(); } b(); // How. c();");
}

#[test]
fn an_anchor_does_not_fit_a_part_of_a_word() {
    assert!(fault("let unsafe_copies = 1;", &[("copies = 1", "copies = ALIVE")]).contains("is not there"));
}

#[test]
fn an_anchor_that_is_missing_is_named() {
    let told = fault("fn f() {}", &[("if a {", "if a && !ALIVE {")]);
    assert!(
        told.starts_with("b.rs: mutant m0: the anchor \"if a {\" is not there; write the lines"),
        "{told}"
    );
}

#[test]
fn an_anchor_that_is_there_twice_is_named() {
    let told = fault("if a { b(); } if a { c(); }", &[("if a {", "if a && !ALIVE {")]);
    assert!(
        told.contains("m0") && told.contains("is there 2 times; add a line before or after it"),
        "{told}"
    );
}

#[test]
fn every_fault_is_told() {
    let told = fault("f(); f();", &[("f();", "if !ALIVE { f(); }"), ("g();", "if !ALIVE { g(); }")]);
    assert!(told.contains("m0") && told.contains("m1"), "{told}");
}

#[test]
fn two_mutants_share_a_line() {
    let source = "let both = a && b;";
    let first = ("let both = a && b;", "let both = a && !ALIVE && b;");
    let second = ("let both = a && b;", "let both = a && b && !ALIVE;");
    assert_eq!(woven(source, &[first, second]).unwrap(), "let both = a && !<m0> && b && !<m1> ;");
    // In one place.
    assert_eq!(woven(source, &[second, second]).unwrap(), "let both = a && b && !<m0> && !<m1> ;");
}

#[test]
fn two_mutants_of_the_same_words_are_refused() {
    let first = ("= a;", "= if ALIVE { 0 } else { a };");
    let second = ("= a;", "= if ALIVE { 1 } else { a };");
    let told = fault("let b = a;", &[first, second]);
    assert!(told.contains("mutants m0 and m1 change the same words"), "{told}");
}

#[test]
fn a_replacement_that_changes_nothing_is_refused() {
    assert!(fault("f();", &[("f();", "f ( ) ;")]).contains("the same as its anchor"));
    assert!(fault("f();", &[("", "ALIVE")]).contains("its anchor is empty"));
}

#[test]
fn a_mutant_at_the_end_of_a_file_fits() {
    assert_eq!(
        woven("fn f() {}", &[("fn f() {}", "fn f() {} fn g() { ALIVE; }")]).unwrap(),
        "fn f() {} fn g() { <m0>; }"
    );
}
