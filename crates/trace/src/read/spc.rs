//! The Storage Performance Council's trace format 1.0: `unit,lba,size,opcode,timestamp` and optional fields
//! after them: 512-byte sectors, bytes, r or w, seconds.

use super::text::{Line, LineParser, Object, decimal_us, fields, number, quoted, sectors};
use crate::Op;

pub(super) struct Spc;

impl LineParser for Spc {
    fn line<'a>(&mut self, line: &'a str) -> Result<Line<'a>, String> {
        let required = line.match_indices(',').nth(4).map_or(line, |(end, _)| &line[..end]);
        let [unit, lba, size, op, time] = fields(required, ',', "unit,lba,size,r|w,seconds")?;
        number(unit, "the unit")?;
        Ok(Line::Extent {
            object: Object::Named(unit),
            first: sectors(lba, "the block number")?,
            bytes: number(size, "the size")?,
            op: match op {
                "r" | "R" => Op::Read,
                "w" | "W" => Op::Write,
                _ => return Err(format!("the operation is {}, not r or w", quoted(op))),
            },
            time_us: decimal_us(time, "the time", 1_000_000)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_and_seconds_and_fields_beyond() {
        let object = Object::Named("1");
        let expected =
            Line::Extent { object, first: 240_840 * 512, bytes: 3072, op: Op::Write, time_us: 26_214 };
        for line in ["1,240840,3072,w,0.026214", "1,240840,3072,W,0.026214,extra,more"] {
            assert_eq!(Spc.line(line).expect("a line of the format"), expected);
        }
        for bad in ["1,2,3,x,0.1", "1,2,3,r", "x,2,3,r,0.1", "1,2,3,r,soon"] {
            assert!(Spc.line(bad).is_err(), "{bad}");
        }
    }
}
