//! The extension is compiled for a patched server with pages of 8 KiB, and says so to others.

use std::fs;
use std::path::Path;
use std::process::Command;

/// What the compiler says of the extension's header, with these headers in the place of PostgreSQL's.
fn compile(headers: &[(&str, &str)]) -> String {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in headers {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let door = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().join("doors/postgres");
    let mut cc = Command::new("cc");
    cc.args(["-fsyntax-only", "-nostdinc", "-I"]).arg(folder.path()).arg("-I").arg(&door);
    let said = cc.arg(door.join("entresol/door.h")).output().unwrap();
    assert!(!said.status.success());
    String::from_utf8_lossy(&said.stderr).into_owned()
}

#[test]
fn a_server_without_the_hooks_is_told_what_it_lacks() {
    let said = compile(&[("postgres.h", "")]);
    assert!(said.contains("this PostgreSQL has no hooks for a flash cache"), "{said}");
    let said = compile(&[("postgres.h", ""), ("storage/flashcache.h", "")]);
    assert!(!said.contains("has no hooks"), "{said}");
}
