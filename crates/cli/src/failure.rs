//! How the command ends when it does not end well: an exit status and one sentence on stderr.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use entresol_runtime::say;
use std::error::Error;
use std::process::ExitCode;

/// Why the command failed.
#[derive(Debug)]
pub enum Failure {
    /// The arguments make no command, or help was asked for.
    Arguments(clap::Error),
    /// The request, or its input, is not possible. The sentence says what to do.
    Input(String),
    /// The work failed.
    Run(anyhow::Error),
    /// The work was done and a check failed.
    Check(String),
}

impl Failure {
    /// Bad input, with the sentence to show.
    pub fn input(sentence: impl Into<String>) -> Self {
        Failure::Input(sentence.into())
    }

    /// The sentence alone.
    pub fn into_sentence(self) -> String {
        let sentence = match self {
            Failure::Arguments(error) => sentence_of(&error),
            Failure::Input(sentence) | Failure::Check(sentence) => sentence,
            Failure::Run(error) => format!("{error:#}"),
        };
        one_line(&sentence)
    }

    /// Says what went wrong and returns the exit status.
    pub fn report(self) -> ExitCode {
        let status = match &self {
            Failure::Arguments(error) if is_help(error.kind()) => {
                // Help is an answer; if it is not read, nothing is lost.
                let _ = error.print();
                return if error.use_stderr() { ExitCode::from(2) } else { ExitCode::SUCCESS };
            }
            Failure::Check(_) => 1,
            _ => 2,
        };
        say::tell(&format!("entresol: {}", self.into_sentence()));
        ExitCode::from(status)
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Failure::Run(error)
    }
}

fn is_help(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    )
}

/// clap's message in one sentence; our own parsers' sentences stand as they are.
fn sentence_of(error: &clap::Error) -> String {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let argument = context(ContextKind::InvalidArg).map(|arg| arg.split(' ').next().unwrap_or(arg));
    if let (ErrorKind::ValueValidation, Some(argument), Some(reason)) =
        (error.kind(), argument, error.source())
    {
        return format!("{argument}: {reason}");
    }
    let text = error.to_string();
    let end = ["\n\nUsage:", "\nUsage:", "\n\nFor more information"];
    let cut = end.iter().filter_map(|mark| text.find(mark)).min().unwrap_or(text.len());
    let message = text[..cut].trim().trim_start_matches("error: ");
    let parts: Vec<&str> = message.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let joined = parts.join("; ").replace(":;", ":");
    format!("{joined}; see `entresol --help`")
}

fn one_line(text: &str) -> String {
    text.split('\n').map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_is_one_line() {
        assert_eq!(one_line("first\n  second\n\n"), "first; second");
    }
}
