//! The `entresol` command: see the library.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    entresol_command::main()
}
