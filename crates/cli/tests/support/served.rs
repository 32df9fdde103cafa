//! A volume with a running server, for tests of the command.
#![allow(dead_code, reason = "each file of tests uses a part")]

use crate::client::Client;
use crate::support::{Folder, done};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// Not a whole number of pages.
pub const DISK_BYTES: u64 = (24 << 20) + 3 * 512;

/// Modes and policies: what a volume has unless its owner says otherwise, and a log in write-through.
pub const CACHES: [(&str, Option<&str>); 3] =
    [("write-back", None), ("write-through", None), ("write-through", Some("face-gsc"))];

/// A disk with bytes on it, a flash device, and a volume with the usual policy, whose dirty pages stay so
/// while it is idle.
pub fn volume(mode: &str) -> Folder {
    volume_under(mode, None)
}

/// As [`volume`], under a policy.
pub fn volume_under(mode: &str, policy: Option<&str>) -> Folder {
    let folder = Folder::new();
    let bytes: Vec<u8> = (0..DISK_BYTES as usize).map(|at| (at / 512 % 251) as u8).collect();
    folder.file("disk", bytes);
    File::create(folder.path("flash")).unwrap().set_len(12 << 20).unwrap();
    let (config, disk, flash) = (folder.at("data.toml"), folder.at("disk"), folder.at("flash"));
    let create = ["volume", "create", &config, "--disk", &disk, "--flash", &flash, "--mode", mode];
    done(&[&create[..], &policy.map_or(vec![], |policy| vec!["--policy", policy])].concat());
    folder.keep_journal(Some("journal"));
    done(&["volume", "set", &config, "dirty-age-seconds", "0"]);
    folder
}

/// A running server, until dropped.
pub struct ReadCounts(pub Child);

impl ReadCounts {
    pub fn start(folder: &Folder, more: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_entresol"))
            .args(["serve", &folder.at("data.toml")])
            .args(more)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("ready: volume data"), "{line}");
        Self(child)
    }

    pub fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// SIGTERM; a clean end.
    pub fn stop(mut self) {
        let id = self.0.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        assert_eq!(self.0.wait().unwrap().code(), Some(0));
    }
}

impl Drop for ReadCounts {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn connect(folder: &Folder) -> Client {
    Client::connect(&folder.path("data.sock")).unwrap()
}

/// `length` bytes that tell `number`.
pub fn filled(number: u64, length: usize) -> Vec<u8> {
    number.to_le_bytes().repeat(length / 8)
}
