//! A store is opened with five types, all of this crate. A change that needs another one is seen here.

use entresol_store::{Files, OpenFiles, Options, PolicyKind, Store};

#[test]
fn five_types_open_a_store() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let files = Files::new(at("disk"), 32 << 20, at("log"), 16 << 20).with_flash(
        at("flash"),
        16 << 20,
        PolicyKind::FaceGsc,
    );
    let OpenFiles { store, .. } = files.create(Options::default()).expect("a new store");
    store.create_table("letters").expect("a table");
    store.shutdown().expect("all is durable");
    let store: Store = files.open(Options::default()).expect("the same store").store;
    assert!(store.table("letters").expect("the catalogue").is_some());
}
