//! fio's iolog, version 2 (`file action [offset length]`) and 3 (`µs file action [offset length]`); see
//! "Trace file format" in fio's manual. In version 2 only `wait` lines say how time passes.

use super::text::{Line, LineParser, Object, number, quoted};
use crate::Op;

/// The parser; which version is known from the first line.
#[derive(Default)]
pub(super) struct Fio {
    version: Option<Version>,
}

enum Version {
    /// With the time that has passed, microseconds.
    Two(u64),
    Three,
}

impl LineParser for Fio {
    fn line<'a>(&mut self, line: &'a str) -> Result<Line<'a>, String> {
        let Some(version) = &mut self.version else {
            self.version = Some(match line.trim() {
                "fio version 2 iolog" => Version::Two(0),
                "fio version 3 iolog" => Version::Three,
                other => {
                    return Err(format!(
                        "expected `fio version 2 iolog` or version 3, found {}",
                        quoted(other)
                    ));
                }
            });
            return Ok(Line::Nothing);
        };
        let mut words = line.split_whitespace();
        let time_us = match version {
            Version::Two(now_us) => *now_us,
            Version::Three => match words.next() {
                Some(word) => number(word, "the time")?,
                None => return Ok(Line::Nothing),
            },
        };
        let Some(file) = words.next() else { return Ok(Line::Nothing) };
        let action = words.next().ok_or_else(|| format!("no action after {}", quoted(file)))?;
        let arguments: Vec<&str> = words.collect();
        let op = match (action, arguments.len()) {
            ("read", 2) => Op::Read,
            ("write", 2) => Op::Write,
            ("add" | "open" | "close", 0) | ("sync" | "datasync" | "trim", _) => return Ok(Line::Nothing),
            ("wait", 1 | 2) => {
                if let Version::Two(now_us) = version {
                    *now_us = now_us.saturating_add(number(arguments[0], "the wait")?);
                }
                return Ok(Line::Nothing);
            }
            ("read" | "write", found) => {
                return Err(format!("expected an offset and a length, found {found} words"));
            }
            _ => return Err(format!("the action is {}, not one of fio's", quoted(action))),
        };
        let first = number(arguments[0], "the offset")?;
        let bytes = number(arguments[1], "the length")?;
        Ok(Line::Extent { object: Object::Named(file), first, bytes, op, time_us })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&'static str]) -> Vec<Line<'static>> {
        let mut fio = Fio::default();
        let all = lines.iter().map(|line| fio.line(line).expect("fio's"));
        all.filter(|line| *line != Line::Nothing).collect()
    }

    #[test]
    fn both_versions() {
        let three =
            ["fio version 3 iolog", "27 /a add", "163 /a open", "173 /a read 45056 4096", "1329 /a close"];
        let object = Object::Named("/a");
        let expected = Line::Extent { object, first: 45_056, bytes: 4096, op: Op::Read, time_us: 173 };
        assert_eq!(read(&three), [expected]);
        let two = ["fio version 2 iolog", "/a add", "/a wait 500 0", "/a write 0 512", "/a sync 0 0"];
        let object = Object::Named("/a");
        let expected = Line::Extent { object, first: 0, bytes: 512, op: Op::Write, time_us: 500 };
        assert_eq!(read(&two), [expected]);
    }

    #[test]
    fn other_lines_are_refused() {
        assert!(Fio::default().line("fio version 4 iolog").is_err());
        for bad in ["/a", "/a erase", "/a read 1", "/a read x 1"] {
            let mut fio = Fio::default();
            fio.line("fio version 2 iolog").expect("the header");
            assert!(fio.line(bad).is_err(), "{bad}");
        }
    }
}
