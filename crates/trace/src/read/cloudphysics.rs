//! CloudPhysics' CSV: `version,time,op,size,lbn`: seconds, a SCSI operation code in hexadecimal, bytes, a
//! 512-byte sector.

use super::text::{Line, LineParser, Object, decimal_us, fields, number, quoted, sectors};
use crate::Op;

pub(super) struct CloudPhysics;

impl LineParser for CloudPhysics {
    fn line<'a>(&mut self, line: &'a str) -> Result<Line<'a>, String> {
        let names = "version,time,op,size,lbn";
        if line == names {
            return Ok(Line::Nothing);
        }
        let [version, time, op, size, lbn] = fields(line, ',', names)?;
        number(version, "the version")?;
        Ok(Line::Extent {
            object: Object::Only,
            first: sectors(lbn, "the block number")?,
            bytes: number(size, "the size")?,
            op: operation(u8::from_str_radix(op, 16).ok())
                .ok_or_else(|| format!("the operation is {}, not 28 (read) or 2a (write)", quoted(op)))?,
            time_us: decimal_us(time, "the time", 1_000_000)?,
        })
    }
}

/// The meaning of a SCSI operation code: READ and WRITE (6), (10), (12), (16).
pub(super) fn operation(code: Option<u8>) -> Option<Op> {
    match code? {
        0x08 | 0x28 | 0xA8 | 0x88 => Some(Op::Read),
        0x0A | 0x2A | 0xAA | 0x8A => Some(Op::Write),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_and_seconds() {
        let line = CloudPhysics.line("1,5633898,2a,512,42932745").expect("a line of the format");
        let expected = Line::Extent {
            object: Object::Only,
            first: 42_932_745 * 512,
            bytes: 512,
            op: Op::Write,
            time_us: 5_633_898_000_000,
        };
        assert_eq!(line, expected);
        for bad in ["1,2,3b,512,4", "1,2,28,512", "1,2,28,x,4", "a,2,28,512,4", "1,2,28,512,4,5"] {
            assert!(CloudPhysics.line(bad).is_err(), "{bad}");
        }
    }
}
