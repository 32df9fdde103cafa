//! `entresol volume create`.

use super::volume::{absolute, opening};
use crate::args::CreateArgs;
use crate::failure::Failure;
use crate::output;
use crate::progress::Counted;
use anyhow::Context;
use entresol_block::{OpenError, Server, VolumeConfig, create_volume_with, is_half_made, write_flash_holes};
use entresol_lab::report::{size_of, whole};
use std::io::Write as _;

/// Why a volume was not made.
struct Making(Failure);

impl From<OpenError> for Making {
    fn from(error: OpenError) -> Self {
        Self(opening(error))
    }
}

impl From<Failure> for Making {
    fn from(failure: Failure) -> Self {
        Self(failure)
    }
}

impl From<anyhow::Error> for Making {
    fn from(error: anyhow::Error) -> Self {
        Self(error.into())
    }
}

/// Makes a volume, and its configuration.
pub fn run(args: &CreateArgs) -> Result<(), Failure> {
    let path = absolute(&args.config)?;
    let shown = path.display();
    let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
    if name.is_empty() {
        return Err(Failure::input(format!("{shown}: does not name a file; give a path such as data.toml")));
    }
    let label = absolute(args.label.as_deref().unwrap_or(&path.with_extension("label")))?;
    // The configuration of a volume whose making was cut off is of no use.
    let is_half_made = is_half_made(&label);
    if path.symlink_metadata().is_ok() && !is_half_made {
        return Err(Failure::input(format!("{shown}: exists; name a new file for the configuration")));
    }
    let folder = path.parent().filter(|folder| folder.is_dir());
    let folder = folder
        .ok_or_else(|| Failure::input(format!("{shown}: its folder does not exist; create it first")))?;
    let config = VolumeConfig {
        name: name.to_owned(),
        disk: absolute(&args.disk)?,
        flash: absolute(&args.flash)?,
        socket: args.socket.as_deref().map_or(Ok(path.with_extension("sock")), absolute)?,
        journal: VolumeConfig::usual_journal(name, &label),
        flash_writes_per_day: args.flash_writes_per_day.clone(),
        label,
        page_bytes: args.page_bytes,
        ..VolumeConfig::usual(&args.mode)
    };
    let policy = args.policy.clone().unwrap_or(config.policy);
    let config = VolumeConfig { policy, ..config };
    if [&config.label, &config.socket].contains(&&path) || config.label == config.socket {
        return Err(Failure::input(format!(
            "{shown}: the configuration, the label and the socket are three files; give them three paths"
        )));
    }
    // Everything that can be refused is refused before anything is made.
    Server::check_socket_path(&config.socket).map_err(|error| Failure::input(error.to_string()))?;
    config.steer_options().map_err(|error| Failure::input(error.to_string()))?;
    config.to_toml().map_err(|error| Failure::input(error.to_string()))?;
    let mut file = tempfile::NamedTempFile::new_in(folder)
        .map_err(|error| Failure::input(format!("{shown}: cannot be written ({error})")))?;
    let persist = |config: &VolumeConfig| -> Result<(), Making> {
        let text = config.to_toml().map_err(|error| Failure::input(error.to_string()))?;
        let written = file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all());
        written.with_context(|| format!("writing {shown}"))?;
        let kept = if is_half_made { file.persist(&path) } else { file.persist_noclobber(&path) };
        kept.map_err(|error| error.error).with_context(|| format!("writing {shown}"))?;
        Ok(())
    };
    let config = create_volume_with(&config, args.overwrite, persist).map_err(|Making(failure)| failure)?;
    if !args.sparse {
        fill(&config);
    }
    let meaning = match args.mode.as_str() {
        "write-back" => {
            "A flushed write is on flash and reaches the disk later. If the flash device is lost, so are the last writes."
        }
        _ => "A flushed write is on the disk. If the flash device is lost, nothing is.",
    };
    output::print(&format!(
        "made the volume {name}: {} pages of {} fit on flash; {}, {}\n{meaning}\n\
         keep {}: disk and flash are not opened without it\nserve it with: entresol serve {shown}\n",
        whole(config.slots as f64),
        size_of(config.page_bytes as f64),
        config.policy,
        config.mode,
        config.label.display(),
    ))
}

/// A flash that is a sparse file gets its blocks. The volume is made: if that fails, it is slower at first.
fn fill(config: &VolumeConfig) {
    let bar = Counted::of_bytes("writing the blocks of the flash");
    if let Err(error) = write_flash_holes(config, &mut |done, total| bar.show(done, total)) {
        drop(bar);
        output::notice(&format!(
            "{error}; the volume is made, but its first writes to flash will be slower: its file has no blocks yet"
        ));
    }
}
