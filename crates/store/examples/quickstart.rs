//! A store with a flash cache, on three files: write rows, be killed, come back, read them all.
//!
//! `cargo run --release -p entresol-store --example quickstart [FOLDER]`

use entresol_core::PolicyKind;
use entresol_store::{Direction, Files, Lock, OpenFiles, Options};
use std::error::Error;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Transactions to be acknowledged before the kill, and rows of each.
const TRANSACTIONS: u64 = 300;
const ROWS: u64 = 50;

/// Where everything lies. Flash is a file here; give it a file on an SSD, or the SSD itself.
fn files(folder: &Path) -> Files {
    Files::new(folder.join("disk.img"), 64 << 20, folder.join("log.img"), 64 << 20).with_flash(
        folder.join("flash.img"),
        16 << 20,
        PolicyKind::FaceGsc,
    )
}

/// A megabyte of memory, so that most pages live on flash and disk.
fn options() -> Options {
    Options { frames: 256, checkpoint_interval: Some(Duration::from_millis(200)), ..Options::default() }
}

/// Writes transactions for ever, and says so after each commit.
fn write_until_killed(folder: &Path) -> Result<(), Box<dyn Error>> {
    let OpenFiles { store, notices, .. } = files(folder).create(options())?;
    notices.iter().for_each(|notice| eprintln!("{notice}"));
    let table = store.create_table("letters")?;
    for number in 0u64.. {
        let mut txn = store.begin();
        for row in 0..ROWS {
            // Spread over the table, so that all of its pages are in use all the time.
            let key = (number * ROWS + row).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
            txn.insert(
                table,
                &key,
                format!("row {row} of transaction {number}, {:200}", "Dear reader").as_bytes(),
            )?;
        }
        txn.commit()?;
        println!("{number}"); // Durable: from here on nobody may lose it.
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, folder] = &arguments[..]
        && word == "write-until-killed"
    {
        return write_until_killed(Path::new(folder));
    }
    let temporary = std::env::temp_dir().join(format!("entresol-quickstart-{}", std::process::id()));
    let folder = arguments.first().map_or(temporary, PathBuf::from);
    std::fs::create_dir_all(&folder)?;

    // A process that writes, and is killed in the middle of it.
    let mut writer = Command::new(std::env::current_exe()?)
        .args(["write-until-killed".as_ref(), folder.as_os_str()])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut acknowledged = 0;
    for line in BufReader::new(writer.stdout.take().ok_or("no pipe")?).lines() {
        acknowledged = line?.parse::<u64>()? + 1;
        if acknowledged == TRANSACTIONS {
            writer.kill()?; // SIGKILL. What it still said before is read to the end.
        }
    }
    println!("the writer ended: {}; it had acknowledged {acknowledged} transactions", writer.wait()?);

    // Restart: the flash cache is warm, and recovery reads from it.
    let OpenFiles { store, restart, .. } = files(&folder).open(options())?;
    println!(
        "restart took {:.1?}: {} KiB of log, {} pages fetched, {} of them from flash",
        restart.duration,
        restart.log_bytes >> 10,
        restart.pages_fetched,
        restart.pages_from_flash
    );
    let table = store.table("letters")?.ok_or("the table is gone")?;
    let mut rows = 0;
    let mut txn = store.begin();
    txn.scan(table, &[0; 8], &[0xff; 8], Direction::Forward, Lock::None, &mut |_, _| {
        rows += 1;
        true
    })?;
    txn.commit()?;
    println!("{rows} rows are there: {} transactions, each of them whole or not at all", rows / ROWS);
    if rows < acknowledged * ROWS || rows % ROWS != 0 {
        return Err(format!("{} rows were acknowledged", acknowledged * ROWS).into());
    }
    let tier = store.metrics().tier;
    println!("pages read from flash: {}, from disk: {}", tier.flash_hits, tier.disk_reads);
    store.shutdown()?;
    if arguments.is_empty() {
        std::fs::remove_dir_all(folder)?;
    }
    Ok(())
}
