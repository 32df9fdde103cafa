//! `entresol volume` and `entresol serve`, as processes: contents, kills, clean stops, and bad input.

#[path = "../../block/tests/support/client.rs"]
mod client;
#[path = "support/served.rs"]
mod served;
mod support;

use client::{CACHE, Client, DISC, FLUSH, FUA, READ, TRIM, WRITE, WRITE_ZEROES};
use served::{CACHES, DISK_BYTES, ReadCounts, connect, filled, volume, volume_under};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};
use support::{done, refused};

#[test]
fn a_flushed_write_survives_a_kill() {
    for (mode, policy) in CACHES {
        let folder = volume_under(mode, policy);
        let mut expected = std::fs::read(folder.path("disk")).unwrap();
        for round in 0..6u64 {
            let server = ReadCounts::start(&folder, &[]);
            let mut client = connect(&folder);
            assert_eq!(client.bytes, DISK_BYTES);
            let found: Vec<u8> = (0..DISK_BYTES)
                .step_by(1 << 20)
                .flat_map(|at| client.read(at, (DISK_BYTES - at).min(1 << 20) as usize).unwrap())
                .collect();
            let differs = (0..found.len()).find(|at| found[*at] != expected[*at]);
            assert_eq!(differs, None, "{mode}, round {round}");
            let clients = (0..3u64).map(|task| {
                let mut client = connect(&folder);
                thread::spawn(move || {
                    // Each has sectors of its own in pages that all share.
                    (0..60u64)
                        .map(|step| {
                            let sector = (step * 7919 + round * 104_729) % (DISK_BYTES / 512 / 4) * 4 + task;
                            let data = filled(round << 32 | task << 16 | step, 512);
                            client.write(sector * 512, &data).unwrap();
                            (sector as usize * 512, data)
                        })
                        .collect::<Vec<_>>()
                })
            });
            for written in clients.collect::<Vec<_>>() {
                for (at, data) in written.join().unwrap() {
                    expected[at..at + 512].copy_from_slice(&data);
                }
            }
            // Whole pages and parts, the bytes after the last page, zeros with FUA.
            let data = filled(round, 70_000 / 512 * 512);
            let at = DISK_BYTES as usize - data.len();
            client.write(at as u64, &data).unwrap();
            expected[at..].copy_from_slice(&data);
            assert_eq!(client.ask(TRIM, 0, 0, 1 << 20, &[]).unwrap(), 0);
            client.flush().unwrap();
            // What was trimmed is there, or zeros.
            let found = client.read(0, 1 << 20).unwrap();
            for (sector, was) in found.chunks(512).zip(expected.chunks_mut(512)) {
                assert!(sector == was || sector == [0; 512], "{mode}, round {round}");
                was.copy_from_slice(sector);
            }
            assert_eq!(client.ask(WRITE_ZEROES, FUA, 512 * round, 8192, &[]).unwrap(), 0);
            expected[512 * round as usize..][..8192].fill(0);
            match round % 3 {
                2 => server.stop(),
                _ => server.kill(),
            }
        }
        done(&["volume", "detach", &folder.at("data.toml")]);
        assert!(std::fs::read(folder.path("disk")).unwrap() == expected, "{mode}: the disk has everything");
    }
}

#[test]
fn a_running_server_is_asked() {
    let folder = volume("write-back");
    let config = folder.at("data.toml");
    let server = ReadCounts::start(&folder, &[]);
    let mode = std::fs::metadata(folder.path("data.sock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut client = connect(&folder);
    client.write(4096, &filled(77, 8192)).unwrap();
    client.flush().unwrap();
    let status = |running: bool| {
        let shown: serde_json::Value =
            serde_json::from_str(&done(&["volume", "status", &config, "--json"]).0).unwrap();
        assert_eq!(shown["running"], running);
        shown["dirty_pages"].as_u64().unwrap()
    };
    assert_eq!(status(true), 2);
    refused(&["serve", &config], &["a server listens there already"]);
    let other = folder.at("other.sock");
    refused(&["serve", &config, "--socket", &other], &["label", "has it open"]);
    assert!(std::fs::read(folder.path("disk")).unwrap()[4096..][..8192] != filled(77, 8192));
    done(&["volume", "set", &config, "mode", "write-through"]);
    assert!(std::fs::read_to_string(&config).unwrap().contains("\nmode = \"write-through\"\n"));
    assert_eq!(client.read(4096, 8192).unwrap(), filled(77, 8192));
    refused(&["volume", "set", &config, "mode", "write-around"], &["log"]);
    another_policy(&config, &mut client);
    done(&["volume", "set", &config, "mode", "write-back"]);
    // Other options at once; and what cannot be is refused, and changes nothing.
    for (name, value, line) in [
        ("sequential-bypass-bytes", "0", "sequential_bypass_bytes = 0"),
        ("hits-to-disk", "false", "hits_to_disk = false"),
        ("flash-writes-per-day", "100G", "flash_writes_per_day = \"100G\""),
        ("dirty-percent-max", "90", "dirty_percent_max = 90"),
        ("switch-policy", "true", "switch_policy = true"),
    ] {
        done(&["volume", "set", &config, name, value]);
        assert!(std::fs::read_to_string(&config).unwrap().contains(&format!("\n{line}\n")), "{name}");
    }
    let shown: serde_json::Value =
        serde_json::from_str(&done(&["volume", "status", &config, "--json"]).0).unwrap();
    assert_eq!(shown["flash_budget_left"], (100_u64 << 30) / 24);
    refused(&["volume", "set", &config, "flash-writes-per-day", "lots"], &["unlimited", "0.5x"]);
    refused(&["volume", "set", &config, "dirty-percent-max", "0"], &["1 to 100"]);
    refused(&["volume", "set", &config, "hits-to-disk", "maybe"], &["true or false"]);
    done(&["volume", "set", &config, "flash-writes-per-day", "unlimited"]);
    client.write(8192, &filled(76, 4096)).unwrap();
    client.write(8192, &filled(77, 8192)[4096..]).unwrap();
    client.flush().unwrap();
    done(&["volume", "drain", &config]);
    assert!(std::fs::read(folder.path("disk")).unwrap()[4096..][..8192] == filled(77, 8192));
    assert_eq!(status(true), 0);
    client.write(0, &filled(78, 512)).unwrap();
    done(&["volume", "detach", &config]);
    assert_eq!(client.read(0, 12288).unwrap()[4096..], filled(77, 8192));
    client.write(512, &filled(79, 512)).unwrap();
    client.flush().unwrap();
    server.stop();
    assert!(!folder.path("data.sock").exists());
    let disk = std::fs::read(folder.path("disk")).unwrap();
    assert!(disk[..512] == filled(78, 512) && disk[512..1024] == filled(79, 512));
    // It begins again with an empty cache.
    let server = ReadCounts::start(&folder, &["--read-only"]);
    let mut client = connect(&folder);
    assert_eq!(client.ask(FLUSH, 0, 0, 0, &[]).unwrap(), 0);
    assert_eq!(client.read(512, 512).unwrap(), filled(79, 512));
    assert_eq!(client.ask(WRITE, 0, 0, 512, &[1; 512]).unwrap(), 1, "read-only");
    server.stop();
    assert_eq!(status(false), 0);
}

/// Begun and ended under the usual policy of write-back, in write-through.
fn another_policy(config: &str, client: &mut Client) {
    let slots = || {
        let text = std::fs::read_to_string(config).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("slots = ")).unwrap();
        (
            line.parse::<u64>().unwrap(),
            text.lines().find(|line| line.starts_with("policy")).unwrap().to_owned(),
        )
    };
    let before = slots();
    assert_eq!(before.1, "policy = \"face-gsc\"");
    done(&["volume", "set", config, "policy", "reuse-slots"]);
    assert_eq!(slots().1, "policy = \"reuse-slots\"");
    assert!(slots().0 > before.0, "slots need less of the flash for themselves: {:?}, {before:?}", slots());
    assert_eq!(client.read(4096, 8192).unwrap(), filled(77, 8192));
    refused(&["volume", "set", config, "policy", "none"], &["choose one of", "face-gsc"]);
    let in_write_through = slots();
    // It has the other mode, too. Its slots survive a crash there, for which there is room on flash.
    done(&["volume", "set", config, "mode", "write-back"]);
    assert_eq!(slots().1, in_write_through.1);
    assert!(slots().0 < in_write_through.0, "{:?}", slots());
    assert_eq!(client.read(4096, 8192).unwrap(), filled(77, 8192));
    client.write(4096, &filled(77, 8192)).unwrap();
    done(&["volume", "set", config, "policy", "face-gsc"]);
    assert_eq!(slots(), before);
    assert_eq!(client.read(4096, 8192).unwrap(), filled(77, 8192));
    done(&["volume", "set", config, "mode", "write-through"]);
    assert_eq!(slots(), before, "face-gsc has this mode, too");
}

/// Without a server, the cache is emptied at once; a log's finds its pages under another log policy.
#[test]
fn a_policy_is_changed_without_a_server() {
    let folder = volume("write-back");
    let config = folder.at("data.toml");
    let pages = || {
        let shown: serde_json::Value =
            serde_json::from_str(&done(&["volume", "status", &config, "--json"]).0).unwrap();
        (shown["policy"].as_str().unwrap().to_owned(), shown["pages"].as_u64().unwrap())
    };
    let served = |number: u64| {
        let server = ReadCounts::start(&folder, &[]);
        let mut client = connect(&folder);
        assert_eq!(client.read(0, 4096).unwrap(), filled(number, 4096));
        client.write(0, &filled(number + 1, 4096)).unwrap();
        client.flush().unwrap();
        server.stop();
    };
    let server = ReadCounts::start(&folder, &[]);
    connect(&folder).write(0, &filled(1, 4096)).unwrap();
    server.stop();
    done(&["volume", "set", &config, "policy", "face"]);
    served(1);
    assert_eq!(pages().0, "face");
    assert!(pages().1 > 0);
    refused(&["volume", "set", &config, "policy", "sce"], &["sce", "write-through"]);
    done(&["volume", "set", &config, "mode", "write-through"]);
    done(&["volume", "set", &config, "policy", "sce"]);
    assert!(std::fs::read(folder.path("disk")).unwrap()[..4096] == filled(2, 4096));
    served(2);
    done(&["volume", "set", &config, "policy", "flashcache"]);
    served(3);
    done(&["volume", "set", &config, "policy", "face-gsc"]);
    assert_eq!(pages(), ("face-gsc".to_owned(), 0));
    served(4);
    let text = std::fs::read_to_string(&config).unwrap();
    folder.file("data.toml", text.replace("cache = true", "cache = false"));
    refused(&["volume", "set", &config, "policy", "sce"], &["cache = true"]);
}

/// A changed configuration has the owner, permissions and links of before, and the slots of the cache.
#[test]
fn a_configuration_is_changed_where_it_is() {
    let folder = volume_under("write-through", Some("lru"));
    let (config, link) = (folder.at("data.toml"), folder.at("link.toml"));
    let mode = |path: &str| std::fs::metadata(folder.path(path)).unwrap().permissions().mode() & 0o777;
    std::fs::set_permissions(&config, std::fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink("data.toml", &link).unwrap();
    let slots = || {
        let text = std::fs::read_to_string(&config).unwrap();
        text.lines().find(|line| line.starts_with("slots = ")).unwrap().to_owned()
    };
    let made = slots();
    let server = ReadCounts::start(&folder, &[]);
    let text = std::fs::read_to_string(&config).unwrap();
    folder.file("data.toml", text.replace(&made, "slots = 1280"));
    done(&["volume", "set", &link, "policy", "fifo"]);
    assert_eq!(slots(), made, "the server's cache has not changed its size");
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(mode("data.toml"), 0o640);
    // All of them are in the file in the end.
    let options = [
        ("policy", "face", "policy = \"face\""),
        ("hits-to-disk", "false", "hits_to_disk = false"),
        ("dirty-percent-max", "70", "dirty_percent_max = 70"),
        ("sequential-bypass-bytes", "4096", "sequential_bypass_bytes = 4096"),
    ];
    thread::scope(|scope| {
        for (name, value, _) in options {
            let config = &config;
            scope.spawn(move || done(&["volume", "set", config, name, value]));
        }
    });
    let text = std::fs::read_to_string(&config).unwrap();
    for (_, _, line) in options {
        assert!(text.contains(&format!("\n{line}\n")), "{line}: {text}");
    }
    server.stop();
    ReadCounts::start(&folder, &[]).stop();
}

#[test]
fn one_process_serves_several_volumes() {
    let folders = [volume("write-back"), volume("write-through")];
    let configs = folders.each_ref().map(|folder| folder.at("data.toml"));
    refused(&["serve", &configs[0], &configs[0]], &["label", "has it open"]);
    refused(&["serve", &configs[0], &configs[1], "--socket", "x"], &["one volume"]);
    refused(&["serve", &configs[0], "--metrics", "192.168.0.1:9399"], &["loopback"]);
    refused(&["serve", &configs[0], &configs[1], "--metrics", "127.0.0.1:1"], &["both called data"]);
    let text = std::fs::read_to_string(&configs[1]).unwrap();
    folders[1].file("data.toml", text.replace("name = \"data\"", "name = \"other\""));
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let server = ReadCounts::start(&folders[0], &[&configs[1], "--metrics", &port]);
    let scrape = |path: &str| {
        let mut stream = TcpStream::connect(&port).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    for (folder, number) in folders.iter().zip(1..) {
        connect(folder).write(0, &filled(number, 8192)).unwrap();
    }
    for (folder, number) in folders.iter().zip(1..) {
        assert_eq!(connect(folder).read(0, 8192).unwrap(), filled(number, 8192));
    }
    let told = scrape("/metrics");
    assert!(told.starts_with("HTTP/1.1 200 OK"), "{told}");
    for name in ["data", "other"] {
        let line = format!("entresol_block_requests_total{{cache=\"{name}\",command=\"write\"}} 1");
        assert!(told.lines().any(|found| found == line), "{told}");
        assert!(told.contains(&format!("entresol_slots{{cache=\"{name}\"}}")), "{told}");
    }
    assert!(scrape("/").starts_with("HTTP/1.1 404"));
    server.stop();
    assert!(folders.iter().all(|folder| !folder.path("data.sock").exists()));
}

#[test]
fn clients_that_misbehave_harm_nobody() {
    let folder = volume("write-back");
    let server = ReadCounts::start(&folder, &[]);
    let mut good = connect(&folder);
    good.write(0, &filled(5, 4096)).unwrap();
    for _ in 0..10 {
        // In the middle of the data of a write; with replies not read; with garbage.
        let mut bad = connect(&folder);
        bad.send(WRITE, 0, 0, 1 << 20, &[9; 5000]).unwrap();
        drop(bad);
        let mut bad = connect(&folder);
        (0..20).for_each(|_| _ = bad.send(READ, 0, 0, 1 << 20, &[]));
        drop(bad);
        let mut bad = connect(&folder);
        bad.stream.write_all(&[0xaa; 300]).unwrap();
        assert!(bad.reply().is_err());
    }
    assert_eq!(good.read(0, 4096).unwrap(), filled(5, 4096));
    // Errors reach the request that met them.
    assert_eq!(good.ask(READ, 0, DISK_BYTES, 512, &[]).unwrap(), 22);
    assert_eq!(good.ask(WRITE, 0, DISK_BYTES - 512, 1024, &[0; 1024]).unwrap(), 28);
    assert_eq!(good.ask(CACHE, 0, 0, 1 << 20, &[]).unwrap(), 0);
    // Requests under way are answered before the end.
    let wanted: Vec<u64> =
        (0..40u64).map(|at| good.send(WRITE, 0, at * 4096, 4096, &filled(at, 4096)).unwrap()).collect();
    good.send(DISC, 0, 0, 0, &[]).unwrap();
    let mut told: Vec<u64> = wanted
        .iter()
        .map(|_| good.reply().unwrap())
        .map(|(error, of)| [of, u64::MAX][usize::from(error > 0)])
        .collect();
    told.sort_unstable();
    assert_eq!(told, wanted);
    assert!(good.reply().is_err());
    let mut other = connect(&folder);
    (0..40u64).for_each(|at| assert_eq!(other.read(at * 4096, 4096).unwrap(), filled(at, 4096)));
    server.stop();
}

#[test]
fn clients_that_read_no_replies_stop_nobody() {
    let folder = volume("write-through");
    let config = std::fs::read_to_string(folder.path("data.toml")).unwrap();
    folder.file("data.toml", config.replace("workers = 16", "workers = 2"));
    let server = ReadCounts::start(&folder, &[]);
    let lazy = |_| {
        let mut client = connect(&folder);
        (0..100).for_each(|_| _ = client.send(READ, 0, 0, 1 << 20, &[]).unwrap());
        client
    };
    let mut lazy: Vec<Client> = (0..3).map(lazy).collect();
    // They have had their share, and keep no worker.
    thread::sleep(Duration::from_millis(200));
    let began = Instant::now();
    let mut good = connect(&folder);
    for at in 0..20u64 {
        good.write(at << 20, &filled(at, 1 << 20)).unwrap();
        assert_eq!(good.read(at << 20, 1 << 20).unwrap(), filled(at, 1 << 20));
    }
    good.flush().unwrap();
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    // One that begins to read finds every reply.
    let mut slow = lazy.remove(0);
    for _ in 0..100 {
        assert_eq!(slow.reply().unwrap().0, 0);
        slow.stream.read_exact(&mut vec![0; 1 << 20]).unwrap();
    }
    server.stop();
}

#[test]
fn what_cannot_be_is_refused() {
    let folder = volume("write-through");
    let (config, disk, flash) = (folder.at("data.toml"), folder.at("disk"), folder.at("flash"));
    let (new, odd) = (folder.at("new.toml"), folder.file("odd", [1; 1000]));
    let small = folder.file("small", [0; 64 << 10]);
    let names = folder.names();
    let create = |more: &[&str], parts: &[&str]| refused(&[&["volume", "create"], more].concat(), parts);
    create(&[&config, "--disk", &disk, "--flash", &flash], &["exists"]);
    create(&[&new, "--disk", &disk, "--flash", &disk], &["is the disk"]);
    create(&[&new, "--disk", &odd, "--flash", &flash], &["1000 bytes", "multiple of 512"]);
    create(&[&new, "--disk", &disk, "--flash", &small], &["65536 bytes"]);
    create(&[&new, "--disk", &disk, "--flash", &folder.at("absent")], &["absent"]);
    create(&[&new, "--disk", &disk, "--flash", folder.root().to_str().unwrap()], &["neither"]);
    create(&[&new, "--disk", &disk, "--flash", &flash, "--mode", "write-trough"], &["write-through"]);
    create(&[&new, "--disk", &disk, "--flash", &flash, "--policy", "arc"], &["face-gsc"]);
    create(&[&new, "--disk", &disk, "--flash", &flash, "--label", &folder.at("data.label")], &["exists"]);
    create(&[&new, "--disk", &flash, "--flash", &disk], &["unknown", "overwrite"]);
    assert_eq!(folder.names(), names, "nothing is left behind");
    refused(&["serve", &folder.at("absent.toml")], &["absent.toml", "volume create"]);
    refused(&["serve", &config, "--tcp", "192.168.0.1:10809"], &["loopback"]);
    refused(&["serve", &config, "--socket", &odd], &["no socket"]);
    refused(&["volume", "status", &odd], &["odd"]);
    assert_eq!(std::fs::read(&odd).unwrap(), [1; 1000]);
}

/// Runs another program's client; false if it is not installed.
fn tool(name: &str, arguments: &[&str]) -> bool {
    match Command::new(name).args(arguments).output() {
        Err(_) => {
            println!("skipped: {name} is not installed");
            false
        }
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned()
                + &String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{name} {arguments:?}: {said}");
            assert!(!said.contains("Pattern verification failed"), "{name} {arguments:?}: {said}");
            true
        }
    }
}

#[test]
fn clients_of_other_people() {
    let folder = volume("write-through");
    let server = ReadCounts::start(&folder, &[]);
    let uri = format!("nbd+unix:///data?socket={}", folder.at("data.sock"));
    tool("nbdinfo", &[&uri]);
    let copy = folder.at("copy");
    if tool("nbdcopy", &[&uri, &copy]) {
        assert!(std::fs::read(&copy).unwrap() == std::fs::read(folder.path("disk")).unwrap());
        let changed: Vec<u8> = (0..DISK_BYTES as usize).map(|at| (at / 300 % 241) as u8).collect();
        let changed_path = folder.file("changed", &changed);
        tool("nbdcopy", &["--flush", "--connections=2", &changed_path, &uri]);
        tool("nbdcopy", &[&uri, &copy]);
        assert!(std::fs::read(&copy).unwrap() == changed);
    }
    tool(
        "qemu-io",
        &[
            "-f",
            "raw",
            "-c",
            "write -P 7 1536 66560",
            "-c",
            "flush",
            "-c",
            "read -P 7 1536 66560",
            "-c",
            "write -z 4096 8192",
            "-c",
            "read -P 0 4096 8192",
            "-c",
            "discard 0 1M",
            "-c",
            "read -P 7 12288 512",
            &uri,
        ],
    );
    // The distribution's Python has it, another one need not.
    let has_libnbd = |python: &&str| {
        let output = Command::new(python).args(["-c", "import nbd"]).output();
        output.is_ok_and(|output| output.status.success())
    };
    if let Some(python) = ["python3", "/usr/bin/python3"].into_iter().find(has_libnbd) {
        tool(python, &[concat!(env!("CARGO_MANIFEST_DIR"), "/tests/nbd/clients.py"), &uri]);
    } else {
        println!("skipped: python3-libnbd is not installed");
    }
    let export = format!("--uri={uri}");
    for block in ["--bs=4k", "--bs=512"] {
        let load =
            ["--name=v", "--ioengine=nbd", "--rw=randrw", "--size=4m", "--iodepth=16", "--output=/dev/null"];
        tool(
            "fio",
            &[&load[..], &[&export, block, "--verify=crc32c", "--verify_state_save=0", "--fsync=64"]]
                .concat(),
        );
    }
    server.stop();
}
