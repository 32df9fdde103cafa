//! MSR Cambridge's CSV: `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`: Windows file time (100
//! ns since 1601), bytes.

use super::text::{Line, LineParser, Object, fields, number, quoted};
use crate::Op;

pub(super) struct Msr;

impl LineParser for Msr {
    fn line<'a>(&mut self, line: &'a str) -> Result<Line<'a>, String> {
        let names = "timestamp,host,disk,Read|Write,offset,size,response";
        let [time, host, disk, op, offset, size, response] = fields(line, ',', names)?;
        if time.eq_ignore_ascii_case("timestamp") {
            return Ok(Line::Nothing);
        }
        // It is not used: captures whose clocks were set back have negative ones.
        number(response.strip_prefix('-').unwrap_or(response), "the response time")?;
        number(disk, "the disk's number")?;
        Ok(Line::Extent {
            object: Object::Disk(host, disk),
            first: number(offset, "the offset")?,
            bytes: number(size, "the size")?,
            op: match op {
                _ if op.eq_ignore_ascii_case("read") => Op::Read,
                _ if op.eq_ignore_ascii_case("write") => Op::Write,
                _ => return Err(format!("the type is {}, not Read or Write", quoted(op))),
            },
            time_us: number(time, "the timestamp")? / 10,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_times_and_bytes() {
        let line =
            Msr.line("128166372003061629,usr,0,Read,7014609920,24576,41286").expect("a line of the format");
        let expected = Line::Extent {
            object: Object::Disk("usr", "0"),
            first: 7_014_609_920,
            bytes: 24_576,
            op: Op::Read,
            time_us: 12_816_637_200_306_162,
        };
        assert_eq!(line, expected);
        let line = expected;
        let back = Msr.line("128166372003061629,usr,0,Read,7014609920,24576,-41286");
        assert_eq!(back.as_ref(), Ok(&line), "a response time that is not used");
        for bad in [
            "1,usr,0,Read,0,512,-",
            "1,usr,0,Read,0,512,x",
            "1,usr,0,Trim,0,512,1",
            "1,usr,0,Read,0,512",
            "1,usr,0,Read,0,,1",
            "1,usr,a,Read,0,1,1",
        ] {
            assert!(Msr.line(bad).is_err(), "{bad}");
        }
    }
}
