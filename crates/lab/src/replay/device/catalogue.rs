//! Devices and memories by name, from TOML: rates, prices, power, endurance.
//!
//! Invariant: a catalogue that was read holds only rates above zero, and no two entries of one kind have one
//! name.

use entresol_core::Costs;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What a device is used as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// Flash: may be the cache, or below the database.
    Flash,
    /// Disk, array or volume: below the database.
    Disk,
}

/// One device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceSpec {
    /// Name on the command line.
    pub name: String,
    /// What it is.
    pub description: String,
    /// What it is used as.
    pub kind: DeviceKind,
    /// Capacity in 10⁹ bytes.
    pub capacity_gb: f64,
    /// 4 KiB random reads a second with a full queue.
    pub random_read_iops: f64,
    /// 4 KiB random writes a second with a full queue, in steady state.
    pub random_write_iops: f64,
    /// Sequential reads, 10⁶ bytes a second; without it every page costs a random read, whatever its size.
    pub sequential_read_mb_s: Option<f64>,
    /// As `sequential_read_mb_s`, for writes.
    pub sequential_write_mb_s: Option<f64>,
    /// A lone random read, microseconds; without it 1 / rate.
    pub read_us: Option<f64>,
    /// A lone random write until it is acknowledged, microseconds; without it 1 / rate.
    pub write_us: Option<f64>,
    /// A magnetic disk: up to so many 10³ bytes that a request leaves out pass under the head at the
    /// sequential rate, sooner than it positions anew (Ruemmler, Wilkes, IEEE Computer 27(3), 1994).
    #[serde(default)]
    pub gap_kb: f64,
    /// Currency of the price.
    #[serde(default = "dollars")]
    pub currency: String,
    /// Price of 10⁹ bytes.
    pub price_per_gb: Option<f64>,
    /// Power drawn by 10⁹ bytes, watts (3LA §4, assumption A1).
    pub watts_per_gb: Option<f64>,
    /// How often the whole capacity may be written before it is worn out.
    pub rated_full_writes: Option<f64>,
    /// Name of the detailed model (`entresol devices`).
    pub model: Option<String>,
}

/// One kind of memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemorySpec {
    /// Name on the command line.
    pub name: String,
    /// What it is.
    pub description: String,
    /// Currency of the price.
    #[serde(default = "dollars")]
    pub currency: String,
    /// Price of 10⁹ bytes.
    pub price_per_gb: f64,
    /// Power drawn by 10⁹ bytes, watts.
    pub watts_per_gb: f64,
}

/// What a machine is made of: a list of prices for `entresol advise`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineSpec {
    /// Name on the command line.
    pub name: String,
    /// What it is.
    #[serde(default)]
    pub description: String,
    /// Name of its memory.
    pub memory: String,
    /// Names of flash devices to choose from.
    pub flash: Vec<String>,
    /// Name of the device under the database.
    pub disk: String,
}

fn dollars() -> String {
    "USD".into()
}

/// All devices and memories known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalogue {
    /// Devices, in the order of the file.
    #[serde(default, rename = "device")]
    pub devices: Vec<DeviceSpec>,
    /// Memories, in the order of the file.
    #[serde(default, rename = "memory")]
    pub memories: Vec<MemorySpec>,
    /// Machines, in the order of the file.
    #[serde(default, rename = "machine")]
    pub machines: Vec<MachineSpec>,
}

/// A catalogue that cannot be used, or that lacks what was asked for.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CatalogueError {
    /// Not TOML of the expected form.
    #[error("{name} is not a list of devices: {reason}")]
    Form {
        /// The file.
        name: String,
        /// Line and reason.
        reason: String,
    },
    /// A number that cannot be.
    #[error("{name}: {field} of {entry:?} is {found}, and must be more than 0")]
    Number {
        /// The file.
        name: String,
        /// The device or memory.
        entry: String,
        /// The number's name.
        field: &'static str,
        /// What it is.
        found: String,
    },
    /// Two entries of one name.
    #[error("{name}: {entry:?} is there twice; rename one")]
    Twice {
        /// The file.
        name: String,
        /// The name.
        entry: String,
    },
    /// Only rates are known.
    #[error(
        "{device} has no detailed model; its entry would name one (`model`, see `entresol devices`), or leave --exact-devices out"
    )]
    NoModel {
        /// The device.
        device: String,
    },
    /// Not in the catalogue.
    #[error("no {what} is called {name:?}; known are: {known}")]
    Unknown {
        /// What was looked for.
        what: &'static str,
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
}

/// What a cache of pages of `page_bytes` on `flash` above `disk` costs.
pub fn costs(flash: &DeviceSpec, disk: &DeviceSpec, page_bytes: u32) -> Costs {
    let nanos = |seconds: f64| (seconds * 1e9).round().clamp(1.0, f64::from(u32::MAX)) as u32;
    let alone = |iops: f64, mb_s: Option<f64>| {
        // A request takes a random access, and the time of its data.
        let data = mb_s.map_or(0.0, |mb_s| f64::from(page_bytes) / (mb_s * 1e6));
        nanos((1.0 / iops).max(data))
    };
    let in_row = |iops: f64, mb_s: Option<f64>| match mb_s {
        Some(mb_s) => nanos(f64::from(page_bytes) / (mb_s * 1e6)),
        None => nanos(1.0 / iops),
    };
    Costs {
        flash_read_ns: alone(flash.random_read_iops, flash.sequential_read_mb_s),
        flash_read_in_row_ns: in_row(flash.random_read_iops, flash.sequential_read_mb_s),
        flash_write_ns: alone(flash.random_write_iops, flash.sequential_write_mb_s),
        flash_write_in_row_ns: in_row(flash.random_write_iops, flash.sequential_write_mb_s),
        disk_read_ns: alone(disk.random_read_iops, disk.sequential_read_mb_s),
        disk_write_ns: alone(disk.random_write_iops, disk.sequential_write_mb_s),
        write_worth_permille: 0,
    }
}

impl Catalogue {
    /// Today's devices and the papers'.
    pub fn builtin() -> Self {
        Self::parse("the built-in catalogue", include_str!("catalogue.toml"))
            .expect("the built-in catalogue is tested")
    }

    /// Reads a catalogue; `name` is what errors call it.
    ///
    /// # Errors
    /// [`CatalogueError::Form`], [`CatalogueError::Number`] or [`CatalogueError::Twice`].
    pub fn parse(name: &str, text: &str) -> Result<Self, CatalogueError> {
        let form = |error: toml::de::Error| CatalogueError::Form {
            name: name.to_owned(),
            reason: error.to_string().split_whitespace().collect::<Vec<_>>().join(" "),
        };
        let catalogue: Self = toml::from_str(text).map_err(form)?;
        let mut seen: Vec<&str> = Vec::new();
        let names =
            catalogue.devices.iter().map(|d| &d.name).chain(catalogue.memories.iter().map(|m| &m.name));
        for entry in names.chain(catalogue.machines.iter().map(|m| &m.name)) {
            if seen.contains(&entry.as_str()) {
                return Err(CatalogueError::Twice { name: name.to_owned(), entry: entry.clone() });
            }
            seen.push(entry);
        }
        let positive = |entry: &str, field, value: f64| {
            if value > 0.0 && value.is_finite() {
                return Ok(());
            }
            let found = value.to_string();
            Err(CatalogueError::Number { name: name.to_owned(), entry: entry.to_owned(), field, found })
        };
        for device in &catalogue.devices {
            device.numbers().try_for_each(|(field, value)| positive(&device.name, field, value))?;
        }
        for memory in &catalogue.memories {
            positive(&memory.name, "price_per_gb", memory.price_per_gb)?;
            positive(&memory.name, "watts_per_gb", memory.watts_per_gb)?;
        }
        Ok(catalogue)
    }

    /// These entries, and those of `other` whose names are not here.
    #[must_use]
    pub fn over(mut self, other: Self) -> Self {
        let known = |name: &str| {
            self.devices.iter().any(|d| d.name == name) || self.memories.iter().any(|m| m.name == name)
        };
        let machines: Vec<_> = other.machines.into_iter().filter(|m| !self.has_machine(&m.name)).collect();
        let devices: Vec<_> = other.devices.into_iter().filter(|d| !known(&d.name)).collect();
        let memories: Vec<_> = other.memories.into_iter().filter(|m| !known(&m.name)).collect();
        self.devices.extend(devices);
        self.memories.extend(memories);
        self.machines.extend(machines);
        self
    }

    fn has_machine(&self, name: &str) -> bool {
        self.machines.iter().any(|machine| machine.name == name)
    }

    /// The machine of that name.
    ///
    /// # Errors
    /// [`CatalogueError::Unknown`].
    pub fn machine(&self, name: &str) -> Result<&MachineSpec, CatalogueError> {
        find("list of prices", self.machines.iter(), |machine| &machine.name, name)
    }

    /// The machine that these entries alone describe: their first machine, or else one of their first memory,
    /// all their flash devices and their first disk; what is missing is `usual`'s.
    pub fn own_machine(&self, usual: &MachineSpec) -> MachineSpec {
        if let Some(machine) = self.machines.first() {
            return machine.clone();
        }
        let of = |kind| self.devices.iter().filter(move |device| device.kind == kind).map(|d| d.name.clone());
        let flash: Vec<String> = of(DeviceKind::Flash).collect();
        MachineSpec {
            name: String::new(),
            description: String::new(),
            memory: self.memories.first().map_or_else(|| usual.memory.clone(), |memory| memory.name.clone()),
            flash: if flash.is_empty() { usual.flash.clone() } else { flash },
            disk: of(DeviceKind::Disk).next().unwrap_or_else(|| usual.disk.clone()),
        }
    }

    /// The device to be used as the flash cache.
    ///
    /// # Errors
    /// [`CatalogueError::Unknown`].
    pub fn flash(&self, name: &str) -> Result<&DeviceSpec, CatalogueError> {
        let flash = |device: &&DeviceSpec| device.kind == DeviceKind::Flash;
        find("flash device", self.devices.iter().filter(flash), |device| &device.name, name)
    }

    /// The device under the database: any.
    ///
    /// # Errors
    /// [`CatalogueError::Unknown`].
    pub fn device(&self, name: &str) -> Result<&DeviceSpec, CatalogueError> {
        find("device", self.devices.iter(), |device| &device.name, name)
    }

    /// The memory of that name.
    ///
    /// # Errors
    /// [`CatalogueError::Unknown`].
    pub fn memory(&self, name: &str) -> Result<&MemorySpec, CatalogueError> {
        find("memory", self.memories.iter(), |memory| &memory.name, name)
    }
}

fn find<'a, T>(
    what: &'static str,
    all: impl Iterator<Item = &'a T> + Clone,
    name_of: impl Fn(&T) -> &String,
    name: &str,
) -> Result<&'a T, CatalogueError> {
    let known = || all.clone().map(|entry| name_of(entry).as_str()).collect::<Vec<_>>().join(", ");
    all.clone().find(|entry| name_of(entry) == name).ok_or_else(|| CatalogueError::Unknown {
        what,
        name: name.to_owned(),
        known: known(),
    })
}

impl DeviceSpec {
    /// Every number that must be above zero, with its name.
    fn numbers(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let always = [
            ("capacity_gb", Some(self.capacity_gb)),
            ("random_read_iops", Some(self.random_read_iops)),
            ("random_write_iops", Some(self.random_write_iops)),
            ("sequential_read_mb_s", self.sequential_read_mb_s),
            ("sequential_write_mb_s", self.sequential_write_mb_s),
            ("read_us", self.read_us),
            ("write_us", self.write_us),
            ("price_per_gb", self.price_per_gb),
            ("watts_per_gb", self.watts_per_gb),
            ("rated_full_writes", self.rated_full_writes),
        ];
        always.into_iter().filter_map(|(name, value)| Some((name, value?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_catalogue_has_the_papers_rates() {
        let catalogue = Catalogue::builtin();
        for medium in crate::paper::face::MEDIA {
            let device = catalogue.device(medium.profile).expect("every medium of table 1");
            assert_eq!(
                (device.random_read_iops, device.random_write_iops, device.price_per_gb),
                (medium.random_read_iops, medium.random_write_iops, Some(medium.dollars_per_gb)),
                "{}",
                device.name
            );
            assert_eq!(
                (device.sequential_read_mb_s, device.sequential_write_mb_s),
                (Some(medium.sequential_read_mb_s), Some(medium.sequential_write_mb_s))
            );
        }
        for device in &catalogue.devices {
            if let Some(model) = &device.model {
                entresol_device::Profile::named(model).expect("a model of crates/device");
            }
        }
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let device = |rate: &str, name: &str| {
            format!(
                "[[device]]\nname='{name}'\ndescription=''\nkind='flash'\ncapacity_gb=1\nrandom_read_iops={rate}\n\
                 random_write_iops=1\nsequential_read_mb_s=1\nsequential_write_mb_s=1\n"
            )
        };
        let parse = |text: &str| Catalogue::parse("mine.toml", text).map_err(|error| error.to_string());
        assert!(parse(&device("5", "a")).is_ok());
        let error = parse(&device("0", "a")).expect_err("no rate");
        assert!(error.contains("mine.toml") && error.contains("random_read_iops"), "{error}");
        assert!(parse(&device("nan", "a")).is_err());
        assert!(parse(&(device("1", "a") + &device("1", "a"))).expect_err("twice").contains("twice"));
        assert!(parse("[[device]]\nname='a'\n").expect_err("missing").contains("mine.toml"));
        assert!(parse(&(device("1", "a") + "colour=1\n")).expect_err("unknown field").contains("colour"));
    }

    #[test]
    fn built_in_machines_are_made_of_built_in_parts() {
        let catalogue = Catalogue::builtin();
        assert!(catalogue.machines.len() >= 3 && catalogue.machine("today").is_ok());
        for machine in &catalogue.machines {
            let memory = catalogue.memory(&machine.memory).expect("there");
            catalogue.device(&machine.disk).expect("there");
            for flash in &machine.flash {
                let flash = catalogue.flash(flash).expect("there");
                assert!(flash.price_per_gb.is_some() && flash.currency == memory.currency, "{}", flash.name);
            }
        }
    }

    #[test]
    fn entries_alone_make_a_machine() {
        let mine = "[[memory]]\nname='ours'\ndescription=''\nprice_per_gb=1\nwatts_per_gb=1\n";
        let builtin = Catalogue::builtin();
        let usual = builtin.machine("today").expect("built in");
        let machine = Catalogue::parse("mine", mine).expect("a memory").own_machine(usual);
        assert_eq!(
            (machine.memory.as_str(), &machine.flash, &machine.disk),
            ("ours", &usual.flash, &usual.disk)
        );
        let text = format!("{mine}[[machine]]\nname='m'\nmemory='ours'\nflash=['slc']\ndisk='cloud'\n");
        let machine = Catalogue::parse("mine", &text).expect("a machine").own_machine(usual);
        assert_eq!((machine.disk.as_str(), machine.flash[0].as_str()), ("cloud", "slc"));
        assert!(builtin.machine("1970").is_err_and(|error| error.to_string().contains("today")));
    }

    #[test]
    fn ones_own_entries_go_before_the_built_in_ones() {
        let mine = "[[memory]]\nname='dram'\ndescription='mine'\nprice_per_gb=1\nwatts_per_gb=1\n";
        let both = Catalogue::parse("mine", mine).expect("a memory").over(Catalogue::builtin());
        assert_eq!(both.memory("dram").expect("there").description, "mine");
        let unknown = both.flash("raid0-8").expect_err("not flash").to_string();
        assert!(unknown.contains("no flash device") && unknown.contains("nvme"), "{unknown}");
        assert!(both.device("raid0-8").is_ok());
    }
}
