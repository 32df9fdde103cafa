//! Writes the fuzz corpus: `cargo run -p entresol-testkit --example corpus [FOLDER]` (default:
//! `fuzz/corpus`).

use anyhow::Context;
use std::path::PathBuf;

fn main() -> anyhow::Result<()> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "fuzz/corpus".to_owned());
    let mut total = 0;
    for (target, name, bytes) in entresol_testkit::fuzz::samples() {
        let folder = PathBuf::from(&folder).join(target);
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let path = folder.join(&name);
        std::fs::write(&path, &bytes).with_context(|| path.display().to_string())?;
        println!("{target}/{name}: {} bytes", bytes.len());
        total += bytes.len();
    }
    println!("{total} bytes");
    Ok(())
}
