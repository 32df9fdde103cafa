//! README's ways in: each command of the table that is this program's is given as it stands there, in order.

mod support;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use support::{Folder, text};

/// The commands between backquotes in the lines of README's first table.
fn ways() -> Vec<Vec<String>> {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("two folders above this crate");
    let readme = std::fs::read_to_string(root.join("README.md")).expect("README.md");
    let table =
        readme.split("| you have |").nth(1).expect("the table").split("\n\n").next().unwrap_or_default();
    let rows: Vec<_> = table.lines().skip(2).collect();
    assert_eq!(rows.len(), 4, "{table}");
    let commands = |row: &str| {
        let cell = row.split(" | ").nth(1).expect("the commands").to_owned();
        cell.split("<br>").map(|command| command.trim_matches('`').to_owned()).collect::<Vec<_>>()
    };
    rows.into_iter().map(commands).collect()
}

/// Ended when the test does, whatever happens.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn given(command: &str, folder: &Folder) -> Command {
    let mut words = command.split(' ');
    assert_eq!(words.next(), Some("entresol"), "{command}");
    let mut given = Command::new(env!("CARGO_BIN_EXE_entresol"));
    given.args(words).current_dir(folder.root()).stdin(Stdio::null());
    given
}

#[test]
fn each_way_has_three_commands_and_ours_work() {
    let ways = ways();
    assert!(ways.iter().all(|commands| commands.len() == 3), "{ways:?}");
    let folder = Folder::new();
    for (name, bytes) in [("disk.img", 256 << 20), ("flash.img", 64 << 20)] {
        std::fs::File::create(folder.path(name)).and_then(|file| file.set_len(bytes)).expect("a file");
    }
    let mut servers = Vec::new();
    let ours = ways.iter().flatten().filter(|command| command.starts_with("entresol "));
    let mut count = 0;
    for command in ours {
        count += 1;
        if command.starts_with("entresol serve") {
            let child = given(command, &folder).stdout(Stdio::null()).spawn().expect("it starts");
            servers.push(Server(child));
            while !folder.path("data.sock").exists() {
                std::thread::sleep(Duration::from_millis(5));
            }
            continue;
        }
        let output = given(command, &folder).output().expect("it runs");
        assert_eq!(output.status.code(), Some(0), "{command}: {}", text(&output.stderr));
        assert!(!output.stdout.is_empty(), "{command}");
    }
    assert_eq!(count, 6, "{ways:?}");
    assert!(folder.path("report.html").exists() && servers.len() == 1);
}
