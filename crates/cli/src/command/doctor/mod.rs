//! `entresol doctor`: what this machine and its devices are fit for, in sentences. It changes nothing.

mod drive;
mod machine;

use crate::args::DoctorArgs;
use crate::failure::Failure;
use crate::output;
use drive::Drive;
use entresol_lab::report::{size_of, terminal};
use machine::Machine;
use std::path::Path;

/// Least bytes of a flash device in write-back mode; half of it is the least in write-through.
const FLASH_BYTES_MIN: u64 = 16 << 20;
/// DRAM for each GiB of flash under the usual policies, in MiB: write-through (`sce`), write-back
/// (`face-gsc`). Source: docs/results/BLOCK.md, "Memory".
const DRAM_MIB: (f64, f64) = (1.3, 5.0);

/// Looks, and says what it has found.
pub fn run(args: &DoctorArgs) -> Result<(), Failure> {
    let root = Path::new("/");
    let machine = Machine::look(root);
    let look = |option: &str, path: &Path| {
        Drive::look(root, path).map_err(|why| Failure::input(format!("{option} {}: {why}", path.display())))
    };
    let disk = args.disk.as_deref().map(|path| look("--disk", path)).transpose()?;
    let flash = args.flash.as_deref().map(|path| look("--flash", path)).transpose()?;
    let mut text = machine.told();
    for (name, drive) in [("disk", &disk), ("flash", &flash)] {
        if let Some(drive) = drive {
            text.push_str(&paragraph(name, &drive.told(name == "flash")));
        }
    }
    text.push_str(&paragraph("advice", &advice(&machine, disk.as_ref(), flash.as_ref())));
    output::print(&text)
}

/// Sentences with their heading: each begins a line.
fn paragraph(heading: &str, sentences: &[String]) -> String {
    let lines = sentences.iter().enumerate();
    let lines = lines.map(|(at, line)| format!("{:<8} {line}", if at == 0 { heading } else { "" }));
    lines.map(|line| terminal::wrapped(&line, output::widths().text, "         ")).collect()
}

/// What to do, from what was found.
fn advice(machine: &Machine, disk: Option<&Drive>, flash: Option<&Drive>) -> Vec<String> {
    let mut advice = Vec::new();
    if let (Some(disk), Some(flash)) = (disk, flash) {
        advice.extend(of_both(machine, disk, flash));
    }
    advice.push(match (machine.ublk, machine.nbd) {
        (true, _) => "Clients: the kernel's driver ublk, `entresol serve --ublk` (docs/BLOCK.md).".to_owned(),
        (_, true) => "Clients: the kernel's nbd driver; attach.py keeps file systems mounted over restarts.".to_owned(),
        _ => "Clients: nbdfuse and a loop device, or qemu; `modprobe nbd` or `modprobe ublk_drv` for the kernel's own."
            .to_owned(),
    });
    if disk.is_none() || flash.is_none() {
        advice.push(
            "Name the devices for more: ".to_owned()
                + &unbroken("entresol doctor --disk /dev/sdb --flash /dev/nvme0n1p3"),
        );
    }
    advice
}

fn of_both(machine: &Machine, disk: &Drive, flash: &Drive) -> Vec<String> {
    let mut advice = Vec::new();
    if let Some(why) = flash.busy.as_ref().or(disk.busy.as_ref()) {
        return vec![format!("Nothing can be made of these yet: {why}.")];
    }
    if flash.bytes < FLASH_BYTES_MIN {
        return vec![format!("The flash is too small: write-back needs {}.", size(FLASH_BYTES_MIN))];
    }
    if let Some(held) = &flash.held {
        advice.push(format!(
            "The flash device is not empty: it holds {held}. `create` refuses it without --overwrite."
        ));
    }
    if flash.rotates == Some(true) {
        advice.push(
            "The flash device is a rotating disk by its own account: as a cache it would slow the disk down."
                .to_owned(),
        );
    }
    if disk.rotates == Some(false) && flash.rotates == Some(false) {
        advice.push("Both devices are SSDs: a cache pays only if the disk is far, as a network volume is. Measure both with fio.".to_owned());
    }
    let share = 100.0 * flash.bytes as f64 / disk.bytes.max(1) as f64;
    advice.push(format!("The flash is {share:.0} % of the disk; begin with a quarter of the data."));
    let gib = flash.bytes as f64 / f64::from(1 << 30);
    let (through, back) = (gib * DRAM_MIB.0, gib * DRAM_MIB.1);
    let mib = |mib: f64| size((mib * f64::from(1 << 20)) as u64);
    advice.push(format!(
        "Write-through (`create`'s usual mode) takes about {} of memory; a lost flash device loses nothing.",
        mib(through)
    ));
    let room =
        machine.memory.is_none_or(|free| (back * f64::from(1 << 20)) as u64 + machine::JOURNAL_BYTES < free);
    advice.push(match (room, flash.volatile) {
        (false, _) => format!("Write-back would take about {} of memory, which this machine does not have free.", mib(back)),
        (true, Some(true)) => format!(
            "Write-back takes about {}, and is faster; a lost flash device then means a restored backup. This flash flushes \
             a volatile cache at each sync: a drive with power-loss protection syncs sooner.",
            mib(back)
        ),
        (true, _) => format!("Write-back takes about {}, and is faster; a lost flash device then means a restored backup.", mib(back)),
    });
    let (disk, flash) = (disk.path.display(), flash.path.display());
    let create = format!("entresol volume create data.toml --disk {disk} --flash {flash}");
    advice.push(format!("Next: {}", unbroken(&create)));
    advice
}

/// A command: it can be copied, as it stays in one line.
fn unbroken(command: &str) -> String {
    command.replace(' ', "\u{a0}")
}

fn size(bytes: u64) -> String {
    size_of(bytes as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn drive(bytes: u64, rotates: bool) -> Drive {
        Drive { path: PathBuf::from("/dev/x"), bytes, rotates: Some(rotates), ..Drive::default() }
    }

    #[test]
    fn a_small_memory_is_no_place_for_write_back() {
        let machine = Machine { memory: Some(1 << 30), ..Machine::default() };
        let said = of_both(&machine, &drive(4 << 40, true), &drive(1 << 40, false)).join(" ");
        assert!(said.contains("does not have free") && said.contains("25 % of the disk"), "{said}");
        let machine = Machine { memory: Some(64 << 30), ..Machine::default() };
        let said = of_both(&machine, &drive(4 << 40, true), &drive(1 << 40, false)).join(" ");
        assert!(said.contains("is faster") && said.contains(&unbroken("entresol volume create")), "{said}");
    }

    #[test]
    fn what_cannot_be_a_cache_is_told_first() {
        let machine = Machine::default();
        let small = of_both(&machine, &drive(1 << 40, true), &drive(1 << 20, false));
        assert!(small[0].contains("too small") && small.len() == 1, "{small:?}");
        let mut mounted = drive(1 << 40, true);
        mounted.busy = Some("/dev/x is mounted".to_owned());
        let said = of_both(&machine, &mounted, &drive(1 << 38, false));
        assert!(said[0].contains("/dev/x is mounted") && said.len() == 1, "{said:?}");
    }
}
