//! The software bill of materials: CycloneDX 1.5 in JSON, of the crates that are compiled in.
//! Source of the format: <https://cyclonedx.org/docs/1.5/json/>.

use super::crates::Crate;
use super::{Release, VERSION};
use crate::programs::output;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::process::Command;

/// The name of a crate in purl's form, which is also its reference within the document.
fn purl(name: &str, version: &str) -> String {
    format!("pkg:cargo/{name}@{version}")
}

/// The document of what is made of the crate `root`. Its serial number is left out, since it would differ
/// between two builds.
pub(crate) fn json(release: &Release, root: &str, crates: &[Crate]) -> Result<String> {
    let date = output(Command::new("date").args([
        "-u",
        "+%Y-%m-%dT%H:%M:%SZ",
        "-d",
        &format!("@{}", release.date),
    ]))?;
    let root = crates.iter().find(|one| one.name == root).with_context(|| format!("the crate {root}"))?;
    let mut main = component(root);
    main["type"] = json!("application");
    let components: Vec<_> = crates.iter().filter(|one| one.name != root.name).map(component).collect();
    let dependencies: Vec<_> = crates
        .iter()
        .map(|one| {
            let uses: Vec<_> = one.uses.iter().map(|(name, version)| purl(name, version)).collect();
            json!({"ref": purl(&one.name, &one.version), "dependsOn": uses})
        })
        .collect();
    let document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": date,
            "tools": {"components": [{"type": "application", "name": "cargo xtask package", "version": VERSION}]},
            "component": main,
        },
        "components": components,
        "dependencies": dependencies,
    });
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

fn component(one: &Crate) -> Value {
    let mut component = json!({
        "type": "library",
        "bom-ref": purl(&one.name, &one.version),
        "name": one.name,
        "version": one.version,
        "purl": purl(&one.name, &one.version),
    });
    if let Some(about) = &one.description {
        component["description"] = json!(about.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    if let Some(licence) = one.spdx() {
        component["licenses"] = json!([{"expression": licence}]);
    }
    if let Some(sum) = &one.checksum {
        component["hashes"] = json!([{"alg": "SHA-256", "content": sum}]);
    }
    component
}
