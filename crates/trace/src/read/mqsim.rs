//! MQSim's lines: `nanoseconds device sector sectors op`, operation 0 = write, 1 = read.
//! The devices share one space of sectors: MQSim, too, reads their number and does not use it.

use super::text::{Line, LineParser, Object, fields, number, quoted, sectors};
use crate::Op;

pub(super) struct Mqsim;

impl LineParser for Mqsim {
    fn line<'a>(&mut self, line: &'a str) -> Result<Line<'a>, String> {
        let [time, device, first, count, op] = fields(line, ' ', "ns device lsn sectors op")?;
        number(device, "the device")?;
        Ok(Line::Extent {
            object: Object::Only,
            first: sectors(first, "the sector")?,
            bytes: sectors(count, "the number of sectors")?,
            op: match op {
                "0" => Op::Write,
                "1" => Op::Read,
                _ => return Err(format!("the operation is {}, not 0 (write) or 1 (read)", quoted(op))),
            },
            time_us: number(time, "the time")? / 1000,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_and_sectors() {
        let line = Mqsim.line("11413000 0 657728 16 1").expect("a line of the format");
        let object = Object::Only;
        let expected =
            Line::Extent { object, first: 657_728 * 512, bytes: 8192, op: Op::Read, time_us: 11_413 };
        assert_eq!(line, expected);
        for bad in ["1 0 2 16 2", "1 0 2 16", "1 0 2 -16 1", "1 x 2 16 1"] {
            assert!(Mqsim.line(bad).is_err(), "{bad}");
        }
    }
}
