//! Files of devices and prices, in addition to the built-in ones.

use crate::failure::Failure;
use entresol_lab::replay::device::{Catalogue, MachineSpec};
use std::path::Path;

/// The machine's parts that a file of prices does not name.
const USUAL: &str = "today";

/// The entries of the file that `option` names.
fn own(option: &str, path: &Path) -> Result<Catalogue, Failure> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::input(format!("{option} {shown}: cannot be read ({error})")))?;
    Catalogue::parse(&shown.to_string(), &text).map_err(|error| Failure::input(format!("{option}: {error}")))
}

/// The entries of the file that `option` names, before the built-in ones.
pub fn read(option: &str, path: &Path) -> Result<Catalogue, Failure> {
    Ok(own(option, path)?.over(Catalogue::builtin()))
}

/// Prices: a built-in list, or the TOML file of that name; with the machine that they are for.
pub fn prices(name: &str) -> Result<(Catalogue, MachineSpec), Failure> {
    let builtin = Catalogue::builtin();
    let listed = builtin.machine(name).cloned();
    match listed {
        Ok(machine) => Ok((builtin, machine)),
        Err(unknown) if !Path::new(name).exists() => {
            Err(Failure::input(format!("--prices {name}: there is no such file, and {unknown}")))
        }
        Err(_) => {
            let own = own("--prices", Path::new(name))?;
            let machine = own.own_machine(builtin.machine(USUAL).expect("the usual machine is built in"));
            Ok((own.over(builtin), machine))
        }
    }
}
