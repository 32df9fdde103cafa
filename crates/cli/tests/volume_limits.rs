//! Limits: of a server's connections, bytes and time, where a client that reaches one harms itself alone; and
//! of file systems.

#[path = "../../block/tests/support/client.rs"]
mod client;
#[path = "support/served.rs"]
mod served;
mod support;

use client::{Client, WRITE};
use served::{ReadCounts, connect, filled, volume};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;
use support::{Folder, refused};

/// A volume whose configuration has these lines instead of the usual ones.
fn limited(lines: &[&str]) -> Folder {
    let folder = volume("write-through");
    let mut config = std::fs::read_to_string(folder.path("data.toml")).unwrap();
    for line in lines {
        let key = line.split_once(" = ").unwrap().0;
        let usual = config.lines().find(|usual| usual.starts_with(&format!("{key} = "))).unwrap().to_owned();
        config = config.replace(&usual, line);
    }
    folder.file("data.toml", config);
    folder
}

#[test]
fn a_block_device_needs_the_feature_and_the_driver() {
    let has_driver = Path::new("/dev/ublk-control").exists();
    if cfg!(feature = "ublk") && has_driver {
        println!("skipped: this machine has the driver");
        return;
    }
    let folder = volume("write-through");
    let why = if cfg!(feature = "ublk") { "modprobe ublk_drv" } else { "--features ublk" };
    refused(&["serve", "--ublk", &folder.at("data.toml")], &["ublk: ", why]);
    // The volume is as it was.
    ReadCounts::start(&folder, &[]).stop();
}

/// The server has ended the connection: nothing else comes. If it does not, the client's patience ends.
fn has_ended(stream: &mut UnixStream) {
    match stream.read(&mut [0]) {
        Ok(0) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        other => panic!("the connection goes on: {other:?}"),
    }
}

#[test]
fn one_connection_too_many_is_closed() {
    let folder = limited(&["connections_max = 2"]);
    let server = ReadCounts::start(&folder, &[]);
    let mut both = [connect(&folder), connect(&folder)];
    let mut third = UnixStream::connect(folder.path("data.sock")).unwrap();
    third.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    third.read_to_end(&mut Vec::new()).expect("the connection ends");
    // One that asks for the export (NBD_OPT_GO) is told.
    let mut fourth = UnixStream::connect(folder.path("data.sock")).unwrap();
    fourth.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let go = [&3u32.to_be_bytes()[..], b"IHAVEOPT", &7u32.to_be_bytes(), &10u32.to_be_bytes()].concat();
    fourth.write_all(&[&go[..], &4u32.to_be_bytes(), b"data", &[0, 0]].concat()).unwrap();
    let mut told = [0; 18 + 20];
    fourth.read_exact(&mut told).unwrap();
    assert_eq!(told[18 + 12..18 + 16], (0x8000_0002_u32).to_be_bytes(), "NBD_REP_ERR_POLICY");
    let mut text = vec![0; u32::from_be_bytes(told[18 + 16..].try_into().unwrap()) as usize];
    fourth.read_exact(&mut text).unwrap();
    assert!(String::from_utf8(text).unwrap().contains("connections_max"));
    drop(fourth);
    both.iter_mut().for_each(|client| client.write(0, &filled(1, 4096)).unwrap());
    // One that leaves makes room.
    let [mut first, second] = both;
    drop(second);
    let room = (0..500).find_map(|_| {
        thread::sleep(Duration::from_millis(20));
        Client::connect(&folder.path("data.sock")).ok()
    });
    assert_eq!(room.expect("room for another").read(0, 4096).unwrap(), filled(1, 4096));
    first.flush().unwrap();
    server.stop();
}

#[test]
fn clients_that_stop_halfway_are_disconnected() {
    let folder = limited(&["handshake_seconds_max = 1", "transfer_seconds_max = 1"]);
    let server = ReadCounts::start(&folder, &[]);
    let mut good = connect(&folder);
    // In the handshake: nothing, and a part of it.
    let mut silent = [&b""[..], b"\0\0\0\x03IHAVE"].map(|said| {
        let mut stream = UnixStream::connect(folder.path("data.sock")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.read_exact(&mut [0; 18]).unwrap();
        stream.write_all(said).unwrap();
        stream
    });
    // In the data of a write.
    let mut writer = connect(&folder);
    writer.send(WRITE, 0, 0, 8192, &filled(7, 4096)).unwrap();
    silent.iter_mut().for_each(has_ended);
    has_ended(&mut writer.stream);
    // Between requests a client may be silent; and what was not written whole was not written.
    let owners: Vec<u8> = (0..8192).map(|at| (at / 512 % 251) as u8).collect();
    assert_eq!(good.read(0, 8192).unwrap(), owners);
    server.stop();
}

/// The most memory that the server ever had, in bytes.
fn peak(server: &ReadCounts) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.0.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

#[test]
fn requests_under_way_have_so_many_bytes_at_most() {
    const LIMIT: u64 = 64 << 20;
    const WRITE_BYTES: usize = 20 << 20;
    let folder = limited(&[&format!("in_flight_bytes_max = {LIMIT}"), "transfer_seconds_max = 1"]);
    let server = ReadCounts::start(&folder, &[]);
    let before = peak(&server);
    // Each sends all of its write but the last bytes: those for whom there is room, at once.
    let clients: Vec<_> = (0..12)
        .map(|_| {
            let mut client = connect(&folder);
            client.stream.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
            thread::spawn(move || {
                let data = vec![9; WRITE_BYTES - 512];
                client.send(WRITE, 0, 0, WRITE_BYTES as u32, &data).unwrap();
                has_ended(&mut client.stream);
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    let grown = peak(&server) - before;
    assert!(grown < LIMIT + (16 << 20), "{grown} bytes for a limit of {LIMIT}");
    // All of it is free again, and nothing was written.
    let mut good = connect(&folder);
    assert_eq!(good.read(512, 512).unwrap(), [1; 512]);
    good.write(0, &vec![3; WRITE_BYTES]).unwrap();
    assert_eq!(good.read(0, WRITE_BYTES).unwrap(), vec![3; WRITE_BYTES]);
    server.stop();
}

/// Something that is mounted, until dropped.
struct Mounted(PathBuf);

impl Mounted {
    /// `None`, after a sentence: this user cannot mount.
    fn new(at: &Path, arguments: &[&str]) -> Option<Self> {
        std::fs::create_dir(at).unwrap();
        let mounted = Command::new("mount").args(arguments).arg(at).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self(at.to_owned()));
        }
        println!("skipped: `mount {}` is not possible here", arguments.join(" "));
        None
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_file_system_below_label_or_journal_is_a_sentence() {
    let folder = volume("write-back");
    let (config, disk, flash) = (folder.at("new.toml"), folder.at("disk"), folder.at("flash"));
    let full = folder.path("full");
    let Some(_mounted) = Mounted::new(&full, &["-t", "tmpfs", "-o", "size=64k", "none"]) else { return };
    let label = folder.at("full/label");
    let create = ["volume", "create", &config, "--disk", &disk, "--flash", &flash, "--label", &label];
    refused(&create, &["full/label", "no space", "65536 are free"]);
    assert!(!folder.path("new.toml").exists() && std::fs::read_dir(&full).unwrap().next().is_none());
    folder.keep_journal(Some("full/journal"));
    refused(&["serve", &folder.at("data.toml")], &["full/journal", "no space"]);
    // The volume is as it was.
    folder.keep_journal(Some("journal"));
    let server = ReadCounts::start(&folder, &[]);
    assert_eq!(connect(&folder).read(512, 512).unwrap(), [1; 512]);
    server.stop();
}

/// The first line of what a command says; `None` if it fails.
fn said(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok().filter(|output| output.status.success());
    output.map(|output| String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or("").to_owned())
}

#[test]
fn a_mounted_disk_is_refused() {
    let folder = Folder::new();
    let (disk, flash) = (folder.file("disk", vec![0; 8 << 20]), folder.file("flash", vec![0; 12 << 20]));
    let device = said("mkfs.ext4", &["-q", &disk]).and_then(|_| said("losetup", &["-f", "--show", &disk]));
    let Some(device) = device else {
        println!("skipped: mkfs.ext4 or losetup is not possible here");
        return;
    };
    let mounted = Mounted::new(&folder.path("mounted"), &[&device]);
    if mounted.is_some() {
        let config = folder.at("data.toml");
        refused(
            &["volume", "create", &config, "--disk", &device, "--flash", &flash],
            &[&device, "in use: mounted"],
        );
        assert!(!folder.path("data.toml").exists() && !folder.path("data.label").exists());
    }
    drop(mounted);
    said("losetup", &["-d", &device]);
}
