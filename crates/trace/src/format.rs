//! The formats of traces, by the names that the command line uses.

use std::fmt;

/// A trace file's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Entresol's own: compact, checksummed, versioned (docs/TRACES.md).
    Entresol,
    /// A PostgreSQL capture: 9-byte records `{u32 µs, u8 op, u32 page}`.
    Postgresql,
    /// CloudPhysics: `version,time,op,size,lbn`.
    CloudPhysics,
    /// MQSim: `ns device lsn sectors op`.
    Mqsim,
    /// libCacheSim's oracleGeneral: 24-byte records.
    OracleGeneral,
    /// libCacheSim's oracleGeneralOpNS: 27-byte records.
    OracleGeneralOpNs,
    /// libCacheSim's vscsi, version 1 or 2: 32- or 40-byte records.
    Vscsi,
    /// MSR Cambridge: `timestamp,host,disk,Read|Write,offset,size,response`.
    Msr,
    /// Storage Performance Council: `asu,lba,size,op,seconds`.
    Spc,
    /// The text that `blkparse` prints.
    Blkparse,
    /// fio's iolog, version 2 or 3.
    Fio,
    /// One page number a line; `*` marks a phase (LIRS).
    Plain,
    /// Apache Parquet: a table with a row a request.
    Parquet,
}

impl Format {
    /// All formats, in the order in which content is tried.
    pub const ALL: [Format; 13] = [
        Format::Entresol,
        Format::Fio,
        Format::CloudPhysics,
        Format::Msr,
        Format::Spc,
        Format::Mqsim,
        Format::Blkparse,
        Format::Plain,
        Format::Postgresql,
        Format::Vscsi,
        Format::OracleGeneral,
        Format::OracleGeneralOpNs,
        Format::Parquet,
    ];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Entresol => "entresol",
            Format::Postgresql => "postgresql",
            Format::CloudPhysics => "cloudphysics",
            Format::Mqsim => "mqsim",
            Format::OracleGeneral => "oraclegeneral",
            Format::OracleGeneralOpNs => "oraclegeneralopns",
            Format::Vscsi => "vscsi",
            Format::Msr => "msr",
            Format::Spc => "spc",
            Format::Blkparse => "blkparse",
            Format::Fio => "fio",
            Format::Plain => "plain",
            Format::Parquet => "parquet",
        }
    }

    /// What its files look like, in one line.
    pub const fn description(self) -> &'static str {
        match self {
            Format::Entresol => "Entresol's own: compact, versioned, checksummed",
            Format::Postgresql => {
                "PostgreSQL capture, 9-byte records {u32 µs, u8 op, u32 page}, with FILE.pages"
            }
            Format::CloudPhysics => "CSV: version,time,op,size,lbn",
            Format::Mqsim => "lines: nanoseconds device sector sectors op",
            Format::OracleGeneral => "libCacheSim, 24-byte records",
            Format::OracleGeneralOpNs => "libCacheSim with operations, 27-byte records",
            Format::Vscsi => "libCacheSim's vscsi, version 1 or 2",
            Format::Msr => "MSR Cambridge CSV: time,host,disk,Read|Write,offset,size,response",
            Format::Spc => "Storage Performance Council: unit,sector,bytes,r|w,seconds",
            Format::Blkparse => "the text that blkparse prints",
            Format::Fio => "fio iolog, version 2 or 3",
            Format::Plain => "one page number a line; a line with * marks a phase (LIRS)",
            Format::Parquet => "Apache Parquet: columns page, or offset and size; op, time_us, object",
        }
    }

    /// The format called `name`; case, `-` and `_` do not matter, and `lirs`, `pg`, `postgres` are other
    /// names.
    pub fn from_name(name: &str) -> Option<Self> {
        let bare: String = name.chars().filter(|c| !matches!(c, '-' | '_')).collect();
        let bare = bare.to_ascii_lowercase();
        match bare.as_str() {
            "lirs" => Some(Format::Plain),
            "pg" | "postgres" => Some(Format::Postgresql),
            _ => Self::ALL.into_iter().find(|format| format.name() == bare),
        }
    }

    /// All names, separated by commas.
    pub fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for format in Format::ALL {
            assert_eq!(Format::from_name(format.name()), Some(format));
        }
        assert_eq!(Format::from_name("oracleGeneral"), Some(Format::OracleGeneral));
        assert_eq!(Format::from_name("Oracle-General-OpNS"), Some(Format::OracleGeneralOpNs));
        assert_eq!(Format::from_name("lirs"), Some(Format::Plain));
        assert_eq!(Format::from_name("tape"), None);
    }
}
