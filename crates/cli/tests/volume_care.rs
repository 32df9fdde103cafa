//! Looking after a volume: the commands of stores recognise its flash, a check, what is told after a detach,
//! and a making that was cut off.

#[path = "../../block/tests/support/client.rs"]
mod client;
#[path = "support/served.rs"]
mod served;
mod support;

use served::{ReadCounts, connect, filled, volume, volume_under};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;
use support::{Folder, done, entresol, refused, text};

/// Pages that are newer than disk, and a clean end.
fn used(folder: &Folder) {
    let server = ReadCounts::start(folder, &[]);
    let mut client = connect(folder);
    (0..100).for_each(|page| client.write(page * 4096, &filled(page, 4096)).unwrap());
    client.flush().unwrap();
    server.stop();
}

#[test]
fn the_commands_of_stores_name_those_of_volumes() {
    for (mode, policy) in [("write-back", None), ("write-through", Some("face-gsc")), ("write-through", None)]
    {
        let folder = volume_under(mode, policy);
        used(&folder);
        let (config, flash, disk) = (folder.at("data.toml"), folder.at("flash"), folder.at("disk"));
        let blank = folder.file("blank", vec![0; 24 << 20]);
        for disk in [&disk, &blank] {
            refused(&["check", &flash, disk], &["the cache of a volume", "entresol volume check"]);
            refused(&["detach", &flash, disk], &["the cache of a volume", "entresol volume detach"]);
        }
        let told = done(&["volume", "check", &config]).0;
        assert!(told.contains("\nsound\n"), "{told}");
        done(&["volume", "detach", &config]);
        let told = done(&["volume", "check", &config]).0;
        assert!(told.contains("\nsound\n"), "{told}");
    }
}

#[test]
fn a_check_finds_what_is_broken() {
    let folder = volume("write-back");
    used(&folder);
    let (config, flash) = (folder.at("data.toml"), folder.at("flash"));
    let content = std::fs::read(&flash).unwrap();
    let page = filled(50, 4096);
    let at = content.windows(4096).step_by(512).position(|found| found == page).expect("on flash") * 512;
    OpenOptions::new().write(true).open(&flash).unwrap().write_all_at(&[1], at as u64 + 77).unwrap();
    let output = entresol(&["volume", "check", &config]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("NOT sound"), "{}", text(&output.stdout));
    // Another volume's flash.
    let other = volume("write-back");
    used(&other);
    std::fs::copy(other.path("flash"), &flash).unwrap();
    let output = entresol(&["volume", "check", &config]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    assert!(text(&output.stdout).contains("do not belong together"), "{}", text(&output.stdout));
    // Writes that wait are told; a server is not disturbed.
    let server = ReadCounts::start(&other, &[]);
    refused(&["volume", "check", &other.at("data.toml")], &["has it open"]);
    connect(&other).write(0, &filled(7, 4096)).unwrap();
    server.kill();
    let told = done(&["volume", "check", &other.at("data.toml")]).0;
    assert!(told.contains("the journal has 1 writes"), "{told}");
}

#[test]
fn after_a_detach_the_status_says_what_may_be_taken_away() {
    let folder = volume("write-back");
    let config = folder.at("data.toml");
    used(&folder);
    let shown = || done(&["volume", "status", &config]).0;
    assert!(shown().contains("newer than disk       100"), "{}", shown());
    done(&["volume", "detach", &config]);
    assert!(shown().contains("the flash device may be taken away"), "{}", shown());
    assert!(!shown().contains("newer than disk"), "{}", shown());
    let json: serde_json::Value =
        serde_json::from_str(&done(&["volume", "status", &config, "--json"]).0).unwrap();
    assert_eq!((&json["detached"], &json["dirty_pages"]), (&true.into(), &0.into()));
    used(&folder);
    assert!(shown().contains("newer than disk       100"), "bound again: {}", shown());
}

fn blank(folder: &Folder) {
    for (name, bytes) in [("disk", 24 << 20), ("flash", 12 << 20)] {
        File::create(folder.path(name)).unwrap().set_len(bytes).unwrap();
    }
}

fn create(folder: &Folder) -> Vec<String> {
    let words =
        ["volume", "create", "data.toml", "--disk", "disk", "--flash", "flash", "--mode", "write-back"];
    let at = |word: &str| if folder.path(word).exists() { folder.at(word) } else { word.to_owned() };
    words.iter().map(|word| if *word == "data.toml" { folder.at(word) } else { at(word) }).collect()
}

/// Until a file has its blocks, a sync after each write to it takes several times as long.
#[test]
fn a_sparse_flash_gets_its_blocks() {
    for (more, is_filled) in [(None, true), (Some("--sparse"), false)] {
        let folder = Folder::new();
        blank(&folder);
        let blocks = |name: &str| folder.path(name).metadata().unwrap().blocks() * 512;
        if blocks("flash") > 0 {
            return println!(
                "skipped: the file system of {} knows no sparse files",
                folder.path("").display()
            );
        }
        let mut words = create(&folder);
        words.extend(more.map(str::to_owned));
        done(&words.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(blocks("flash") >= 12 << 20, is_filled, "{}", blocks("flash"));
        assert_eq!(blocks("disk"), 0, "the disk is as its owner made it");
    }
}

/// `create` is killed at any moment. The next one makes the volume, if the first has not.
#[test]
fn a_making_that_was_killed_does_not_block_the_next() {
    let (mut cut_off, mut was_whole) = (0, 0);
    for round in 0..120 {
        let folder = Folder::new();
        blank(&folder);
        let line = create(&folder);
        let mut child = Command::new(env!("CARGO_BIN_EXE_entresol"))
            .args(&line)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        sleep(Duration::from_micros(200 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        let names = folder.names();
        if folder.path("data.label").exists() {
            was_whole += 1;
            assert!(folder.path("data.toml").exists(), "{names:?}");
        } else {
            cut_off += usize::from(names.iter().any(|name| name.contains("making")));
            let line: Vec<&str> = line.iter().map(String::as_str).collect();
            done(&line);
        }
        assert!(!folder.path("data.label.making").exists());
        folder.keep_journal(Some("journal"));
        ReadCounts::start(&folder, &[]).stop();
    }
    println!("{cut_off} were cut off, {was_whole} were whole");
}

/// Each state that a kill can leave, as far as it can be made by hand.
#[test]
fn a_half_made_volume_is_made_anew_and_a_whole_one_is_not() {
    let made = volume("write-back");
    let whole = std::fs::read(made.path("data.label")).unwrap();
    let flash = std::fs::read(made.path("flash")).unwrap();
    for (label, is_flash_made, has_config) in [
        (&whole[..0], false, false),
        (&whole[..whole.len() / 2], false, false),
        (&vec![0; whole.len()][..], false, false),
        (&whole, false, false),
        (&whole, true, false),
        (&whole, true, true),
    ] {
        let folder = Folder::new();
        blank(&folder);
        folder.file("data.label.making", label);
        if is_flash_made {
            folder.file("flash", &flash);
        }
        if has_config {
            let text = std::fs::read_to_string(made.path("data.toml")).unwrap();
            let (old, new) = (made.root().to_str().unwrap(), folder.root().to_str().unwrap());
            folder.file("data.toml", text.replace(old, new));
            refused(&["serve", &folder.at("data.toml")], &["create` was cut off"]);
        }
        let line = create(&folder);
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        done(&line);
        folder.keep_journal(Some("journal"));
        used(&folder);
        // It is whole: a label that is in the making is none of its own.
        folder.file("data.label.making", label);
        refused(&line, &["data.toml", "exists"]);
        std::fs::remove_file(folder.path("data.toml")).unwrap();
        refused(&line, &["data.label", "exists"]);
    }
}

/// The flash of a volume whose label is lost, with pages newer than disk.
#[test]
fn a_flash_whose_label_is_lost_is_wiped_as_the_sentence_says() {
    let folder = volume("write-back");
    used(&folder);
    for name in ["data.label", "data.toml"] {
        std::fs::remove_file(folder.path(name)).unwrap();
    }
    let line = create(&folder);
    let line: Vec<&str> = line.iter().map(String::as_str).chain(["--overwrite"]).collect();
    let output = entresol(&line);
    let sentence = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{sentence}");
    let wipe = sentence.trim().split("wipe the flash device: ").nth(1).expect("a command").to_owned();
    let wipe = wipe.replace("of=FLASH", &format!("of={}", folder.at("flash")));
    let mut words = wipe.split(' ');
    let status = Command::new(words.next().unwrap()).args(words).stderr(Stdio::null()).status().unwrap();
    assert!(status.success(), "{wipe}");
    done(&line);
}

/// SIGHUP, as when the terminal is closed: the server serves on.
#[test]
fn a_hangup_does_not_end_a_server() {
    let folder = volume("write-back");
    let server = ReadCounts::start(&folder, &[]);
    let mut client = connect(&folder);
    for round in 0..3 {
        let id = server.0.id().to_string();
        assert!(Command::new("kill").args(["-HUP", &id]).status().unwrap().success());
        client.write(0, &filled(round, 4096)).unwrap();
        assert_eq!(connect(&folder).read(0, 4096).unwrap(), filled(round, 4096));
    }
    server.stop();
}

/// Options that cannot work are refused before anything is made.
#[test]
fn a_volume_that_could_not_be_served_is_not_made() {
    let folder = Folder::new();
    blank(&folder);
    let line = create(&folder);
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    let long = folder.path(&"d".repeat(60)).join("e".repeat(60));
    std::fs::create_dir_all(&long).unwrap();
    let config = long.join("data.toml").to_str().unwrap().to_owned();
    let deep: Vec<&str> =
        line.iter().map(|word| if word.ends_with("data.toml") { &config } else { *word }).collect();
    refused(&deep, &["its path has", "99 at most", "--socket"]);
    assert_eq!(std::fs::read_dir(&long).unwrap().count(), 0);
    // The longest that works: .control is added for the control socket.
    let (folder_bytes, most) = (folder.root().to_str().unwrap().len() + 1, 99);
    let socket = folder.at(&"s".repeat(most - folder_bytes));
    let too_long = format!("{socket}s");
    refused(&[&deep[..], &["--socket", &too_long]].concat(), &["its path has 100 bytes"]);
    for forgotten in ["0.5", "200", "1"] {
        let more = ["--flash-writes-per-day", forgotten];
        refused(&[&line[..], &more].concat(), &["flash_writes_per_day", "unit forgotten", "0.5x"]);
    }
    done(&[&deep[..], &["--socket", &socket]].concat());
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace("journal = \"/dev", "journal = \"\" # \"/dev")).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_entresol"))
        .args(["serve", &config])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
    assert!(done(&["volume", "status", &config]).0.contains("running"));
    ReadCounts(child).stop();
}

/// What the owner has written into the file stays.
#[test]
fn a_change_keeps_the_owners_comments() {
    let folder = volume("write-back");
    let config = folder.at("data.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let own = text.replace("workers = 16", "workers = 24 # one for each disk of the array");
    let own =
        own.replace("dirty_percent_max = 100", "# asked by operations\ndirty_percent_max = 100 # for now");
    folder.file("data.toml", format!("# the database of the shop\n{own}"));
    done(&["volume", "set", &config, "dirty-percent-max", "80"]);
    done(&["volume", "set", &config, "mode", "write-through"]);
    let text = std::fs::read_to_string(&config).unwrap();
    for kept in [
        "# the database of the shop\n",
        "workers = 24 # one for each disk of the array\n",
        "# asked by operations\ndirty_percent_max = 80 # for now\n",
        "\nmode = \"write-through\"\n",
    ] {
        assert!(text.contains(kept), "{kept}: {text}");
    }
}
