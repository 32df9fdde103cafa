//! The fuzz targets on the stable toolchain: the corpus, and some thousands of seeded mutations of it.
//!
//! `ENTRESOL_FUZZ=n` makes n times as many mutations; `ENTRESOL_SEED=n` begins with another seed. A failure
//! prints target, seed and number, and `fuzz/crashes` is where its input belongs: every file there is
//! replayed, too.

use entresol_runtime::rng::Rng;
use entresol_testkit::fuzz::{TARGETS, Target, mutate::mutate};
use std::path::{Path, PathBuf};

fn folder(kind: &str, target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz").join(kind).join(target)
}

fn files(kind: &str, target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let Ok(entries) = std::fs::read_dir(folder(kind, target)) else { return Vec::new() };
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

fn number(name: &str, usual: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}, which is no number")),
        Err(_) => usual,
    }
}

fn try_target(target: Target, input: &[u8], what: &str) {
    let result = std::panic::catch_unwind(|| (target.run)(input));
    if let Err(payload) = result {
        let path = std::env::temp_dir().join(format!("entresol-fuzz-{}", target.name));
        std::fs::write(&path, input).unwrap();
        let message = payload.downcast_ref::<String>().map_or("", |message| message);
        panic!("target {}, {what}: {message}; the input is in {}", target.name, path.display());
    }
}

fn fuzz(name: &str, mutations: u64) {
    let target = entresol_testkit::fuzz::target(name).unwrap();
    let corpus = files("corpus", name);
    assert!(!corpus.is_empty(), "there is no corpus for {name}");
    for (path, input) in corpus.iter().chain(&files("crashes", name)) {
        try_target(target, input, &path.display().to_string());
    }
    try_target(target, &[], "no bytes");
    let seed = number("ENTRESOL_SEED", 1);
    for at in 0..mutations * number("ENTRESOL_FUZZ", 1) {
        let mut rng = Rng::new(Rng::new(seed).next_u64() ^ at);
        let mut pick = || &corpus[rng.below(corpus.len() as u64) as usize].1;
        let (input, other) = (pick(), pick());
        try_target(target, &mutate(input, other, &mut rng), &format!("seed {seed}, mutation {at}"));
    }
}

#[test]
fn structures_are_read_or_refused() {
    for name in ["superblock", "segment", "summary", "label", "page"] {
        fuzz(name, 4000);
    }
}

#[test]
fn traces_are_read_or_refused() {
    fuzz("trace", 8000);
}

#[test]
fn nbd_clients_are_served_or_refused() {
    fuzz("nbd", 8000);
}

#[test]
fn logs_are_read_or_refused() {
    fuzz("wal", 600);
}

#[test]
fn stores_recover_or_are_refused() {
    fuzz("recover", 600);
}

#[test]
fn the_corpus_is_small_and_complete() {
    let mut bytes = 0;
    for target in TARGETS {
        let files = files("corpus", target.name);
        assert!(!files.is_empty(), "there is no corpus for {}", target.name);
        bytes += files.iter().map(|(_, content)| content.len()).sum::<usize>();
    }
    assert!(bytes < 200 << 10, "the corpus has {bytes} bytes");
}
