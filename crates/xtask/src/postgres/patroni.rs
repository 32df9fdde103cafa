//! The suite `flash-patroni`: three nodes with a flash each, led by Patroni and etcd, under load
//! (`benches/patroni_rounds.py`).

use super::test::Bench;
use crate::paths;
use crate::programs::User;
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::process::{Command, Stdio};

/// Rounds in the gate.
const ROUNDS: u32 = 3;
/// Names a Python that has the modules.
const PYTHON: &str = "ENTRESOL_PYTHON";

fn has(command: &mut Command) -> bool {
    let command = command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// What is missing for it, with what to do. Patroni starts its Python again as `user`, who may not be able to
/// read one in another user's folder.
fn missing(python: &OsString, user: &User) -> Option<String> {
    if !has(Command::new("etcd").arg("--version"))
        || !has(Command::new("etcdctl").arg("version").env("ETCDCTL_API", "3"))
    {
        return Some("etcd is missing: apt install etcd-server etcd-client".to_owned());
    }
    let imports = "import patroni.dcs.etcd3, psycopg";
    (!has(user.command(python).args(["-c", imports]))).then(|| {
        format!(
            "for the user of the servers, {} has no patroni or psycopg: pip install 'patroni[etcd3]' 'psycopg[binary]' in an environment, and name \
             its Python in {PYTHON}",
            python.to_string_lossy()
        )
    })
}

/// `rounds` switch-overs and failovers; a few if it was not `named`. Without the programs it says so, and
/// then passes.
pub(super) fn test(bench: &Bench, rounds: u32, named: bool) -> Result<()> {
    let python = std::env::var_os(PYTHON).unwrap_or_else(|| "python3".into());
    match missing(&python, &bench.user) {
        Some(why) if named => bail!("{why}"),
        Some(why) => {
            println!("patroni: skipped: {why}");
            return Ok(());
        }
        None => {}
    }
    let folder = paths::postgres().join("test/patroni");
    let mut harness = Command::new(python);
    harness.arg(paths::repository().join("benches/patroni_rounds.py"));
    let rounds = if named { rounds } else { rounds.min(ROUNDS) };
    harness.arg(bench.build.installed.join("bin")).arg(&folder).args(["--rounds", &rounds.to_string()]);
    harness.arg("--json").arg(folder.with_extension("json"));
    if let Some((user, group)) = bench.user.ids() {
        harness.arg("--user").arg(format!("{user}:{group}"));
    }
    let status = harness.status().context("the harness of Patroni cannot be started")?;
    if !status.success() {
        bail!("patroni: a row was lost, or the nodes did not come together: the lines above say which");
    }
    Ok(())
}
