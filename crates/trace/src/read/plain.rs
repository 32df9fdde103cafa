//! One page number a line. A line with `*` marks a phase (as in the LIRS authors' traces) and an empty line
//! nothing.

use super::text::{Line, LineParser, quoted};

pub(super) struct Plain;

impl LineParser for Plain {
    fn line<'a>(&mut self, line: &'a str) -> Result<Line<'a>, String> {
        let text = line.trim();
        if text.is_empty() || text == "*" {
            return Ok(Line::Nothing);
        }
        match text.parse::<u32>() {
            Ok(page) => Ok(Line::Page(page)),
            Err(_) if text.bytes().all(|byte| byte.is_ascii_digit()) => Err(format!(
                "page number {} has more than 32 bits; the largest is {}",
                quoted(text),
                u32::MAX
            )),
            Err(_) => Err(format!("expected a page number or *, found {}", quoted(text))),
        }
    }
}

/// Whether there is a number on each line, however large.
pub(super) fn only_numbers(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && *line != "*").peekable();
    lines.peek().is_some() && lines.all(|line| line.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_marks() {
        let lines = ["3082", " 0 ", "*", "", "4294967295"].map(|line| Plain.line(line).expect("plain"));
        let expected = [Line::Page(3082), Line::Page(0), Line::Nothing, Line::Nothing, Line::Page(u32::MAX)];
        assert_eq!(lines, expected);
        assert!(Plain.line("4294967296").expect_err("33 bits").contains("32 bits"));
        for bad in ["-1", "1.5", "page", "1 2"] {
            assert!(Plain.line(bad).is_err(), "{bad}");
        }
    }
}
