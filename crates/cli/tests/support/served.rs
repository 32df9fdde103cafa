//! A volume with a running server, for tests of the command.
#![allow(dead_code, reason = "each file of tests uses a part")]

use crate::client::Client;
use crate::support::{Folder, done};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// Not a whole number of pages.
pub const DISK_BYTES: u64 = (24 << 20) + 3 * 512;

/// A disk with bytes on it, a flash device, and a volume.
pub fn volume(mode: &str) -> Folder {
    let folder = Folder::new();
    let bytes: Vec<u8> = (0..DISK_BYTES as usize).map(|at| (at / 512 % 251) as u8).collect();
    folder.file("disk", bytes);
    File::create(folder.path("flash")).unwrap().set_len(12 << 20).unwrap();
    let (config, disk, flash) = (folder.at("data.toml"), folder.at("disk"), folder.at("flash"));
    done(&["volume", "create", &config, "--disk", &disk, "--flash", &flash, "--mode", mode]);
    folder.keep_journal(Some("journal"));
    folder
}

/// A running server, until dropped.
pub struct Served(pub Child);

impl Served {
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

impl Drop for Served {
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
