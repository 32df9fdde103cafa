//! Named bugs that directed tests notice. A mutant is chosen once for a process, so each has a process of its
//! own: the test binary again.

use std::process::Command;

/// The environment names the mutant.
const MUTANT: &str = "ENTRESOL_MUTANT";

/// Chooses the mutant that the environment names, if it does.
pub fn bring_to_life() {
    if let Ok(mutant) = std::env::var(MUTANT) {
        // Another test of this process may have done so.
        let _ = entresol_core::mutant::choose(&mutant);
    }
}

/// Of each mutant the test that notices it.
///
/// # Panics
/// If one does not.
pub fn hunt(noticed: &[(&str, &str)]) {
    for (mutant, test) in noticed {
        let this = std::env::current_exe().unwrap();
        let run = Command::new(this).args(["--exact", test]).env(MUTANT, mutant).output().unwrap();
        let text = String::from_utf8_lossy(&run.stdout);
        let panic = text.lines().skip_while(|line| !line.contains("panicked at"));
        println!("{mutant}: {}", panic.take(3).collect::<Vec<_>>().join(" "));
        assert!(!run.status.success(), "{mutant} was not noticed by {test}");
    }
}
