//! A configuration as text: TOML, with a comment for each option.

use crate::config::{ConfigError, VolumeConfig, refuse};
use std::path::Path;

impl VolumeConfig {
    /// The lines of the options that a running server changes without another cache.
    fn steering_toml(&self) -> String {
        let daily = quoted(&self.flash_writes_per_day);
        let Self { sequential_bypass_bytes, hits_to_disk, dirty_percent_max, .. } = self;
        let Self { dirty_age_seconds, switch_policy, .. } = self;
        format!(
            "# What bypasses the cache. `entresol volume set` changes these six in a running server, too.\n\
             # Sequential streams that are longer, in bytes; 0: none.\n\
             sequential_bypass_bytes = {sequential_bypass_bytes}\n\
             # A part of the hits is read from disk while reads from flash take longer.\n\
             hits_to_disk = {hits_to_disk}\n\
             # Writes to flash: \"unlimited\", device writes such as \"0.5x\", or bytes such as \"200G\".\n\
             flash_writes_per_day = {daily}\n\
             # Write-back: at most this percentage of the cache is newer than disk; more writes bypass it. 100: no limit.\n\
             dirty_percent_max = {dirty_percent_max}\n\
             # Write-back: what is newer than disk for so many seconds is copied there, and everything when the volume is idle;\n\
             # 0: when its room is needed.\n\
             dirty_age_seconds = {dirty_age_seconds}\n\
             # true: the policy changes by itself, to one that finds the cache's pages, when shadows of it did better for a while.\n\
             switch_policy = {switch_policy}\n"
        )
    }

    /// The file, with a comment for each option.
    ///
    /// # Errors
    /// If a path is not UTF-8.
    pub fn to_toml(&self) -> Result<String, ConfigError> {
        let path = |path: &Path| match path.to_str() {
            Some(text) => Ok(quoted(text)),
            None => refuse(format!("the path {} is not UTF-8; choose another one", path.display())),
        };
        let (disk, flash, label) = (path(&self.disk)?, path(&self.flash)?, path(&self.label)?);
        let (socket, journal) = (path(&self.socket)?, path(&self.journal)?);
        let (name, mode, policy) = (quoted(&self.name), quoted(&self.mode), quoted(&self.policy));
        let Self { sce_fragment_pages, sce_workers, sce_pace_permille, pass_trims, .. } = self;
        let Self { cache, page_bytes, slots, direct_io, read_only, workers, connections_max, .. } = self;
        let journal_bytes = self.journal_bytes;
        let steering = self.steering_toml();
        let Self { requests_max, in_flight_bytes_max, handshake_seconds_max, transfer_seconds_max, .. } =
            self;
        Ok(format!(
            "# A volume of Entresol: a disk with a flash cache. docs/BLOCK.md explains all of it.\n\
             # Changes are read when `entresol serve` starts.\n\n\
             # The name of the NBD export.\n\
             name = {name}\n\
             # The disk, used in place: its bytes are the volume's bytes.\n\
             disk = {disk}\n\
             # The flash device.\n\
             flash = {flash}\n\
             # The disk's label. Disk, label and flash belong together: never change this line alone.\n\
             label = {label}\n\
             # The server's Unix socket. The control socket has the same name and .control.\n\
             socket = {socket}\n\n\
             # false: the disk alone serves. Refused while the flash may have newer pages.\n\
             cache = {cache}\n\
             # write-through: a write is on the disk when it is flushed; a lost flash device loses nothing.\n\
             # write-back: a flushed write is on flash and reaches the disk later. It is faster, and a lost flash\n\
             # device then loses the last writes: choose it only if you could bear that.\n\
             mode = {mode}\n\
             # sce in write-through, face-gsc in write-back, or another one. To change it: `entresol volume set`.\n\
             policy = {policy}\n\
             # Bytes of a page of the cache, and how many fit on flash. `create` sets both.\n\
             page_bytes = {page_bytes}\n\
             slots = {slots}\n\
             # sce: pages of a fragment, populations under way at once, and begun per thousand accesses; 0: the usual numbers.\n\
             sce_fragment_pages = {sce_fragment_pages}\n\
             sce_workers = {sce_workers}\n\
             sce_pace_permille = {sce_pace_permille}\n\
             # Past the operating system's page cache (O_DIRECT).\n\
             direct_io = {direct_io}\n\n\
             # Write-back: a file in memory (tmpfs) with acknowledged writes that are not durable yet, so that a server that\n\
             # is killed loses none. \"\": none is kept. It must not be removed while a killed server is not started again.\n\
             journal = {journal}\n\
             journal_bytes = {journal_bytes}\n\n\
             {steering}\n\
             # Trims (discards) are passed to the disk, which has the room again, if it can take them.\n\
             pass_trims = {pass_trims}\n\
             # Clients cannot write.\n\
             read_only = {read_only}\n\
             # Threads that carry out requests, and limits.\n\
             workers = {workers}\n\
             connections_max = {connections_max}\n\
             requests_max = {requests_max} # of one connection, under way\n\
             in_flight_bytes_max = {in_flight_bytes_max} # of all requests under way\n\
             handshake_seconds_max = {handshake_seconds_max}\n\
             transfer_seconds_max = {transfer_seconds_max} # without progress, for a reply or the data of a write\n"
        ))
    }
}

/// A TOML string. JSON's escapes are TOML's, too.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
