//! The meaning of the data of options. Everything is borrowed from the option's bytes.

use crate::proto::{self, STRING_BYTES_MAX};
use zerocopy::FromBytes;
use zerocopy::network_endian::{U16, U32};

/// Most queries of one SET_META_CONTEXT or LIST_META_CONTEXT.
pub const META_QUERIES_MAX: u32 = 64;

/// An error reply: its type, and a text for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub kind: u32,
    pub text: &'static str,
}

impl Refusal {
    pub const fn invalid(text: &'static str) -> Self {
        Self { kind: proto::NBD_REP_ERR_INVALID, text }
    }

    pub const fn too_big(text: &'static str) -> Self {
        Self { kind: proto::NBD_REP_ERR_TOO_BIG, text }
    }
}

const TRUNCATED: Refusal = Refusal::invalid("the option's data ends too early");

/// Reads fields one after the other.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn u16(&mut self) -> Result<u16, Refusal> {
        let (value, rest) = U16::read_from_prefix(self.0).map_err(|_| TRUNCATED)?;
        self.0 = rest;
        Ok(value.get())
    }

    fn u32(&mut self) -> Result<u32, Refusal> {
        let (value, rest) = U32::read_from_prefix(self.0).map_err(|_| TRUNCATED)?;
        self.0 = rest;
        Ok(value.get())
    }

    /// A string with its length before it.
    fn string(&mut self) -> Result<&'a str, Refusal> {
        let length = self.u32()? as usize;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(TRUNCATED)?;
        self.0 = rest;
        string(bytes).ok_or(Refusal::invalid("a string is too long, is not UTF-8, or has a NUL"))
    }

    fn end(&self) -> Result<(), Refusal> {
        if self.0.is_empty() { Ok(()) } else { Err(Refusal::invalid("the option's data is too long")) }
    }
}

/// `bytes` as a string of the protocol.
pub(crate) fn string(bytes: &[u8]) -> Option<&str> {
    if bytes.len() > STRING_BYTES_MAX || bytes.contains(&0) {
        return None;
    }
    std::str::from_utf8(bytes).ok()
}

/// The data of INFO and GO.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InfoOption<'a> {
    pub name: &'a str,
    /// The client asks for the export's name.
    pub wants_name: bool,
    /// The client asks for the export's description.
    pub wants_description: bool,
}

impl<'a> InfoOption<'a> {
    pub fn parse(data: &'a [u8]) -> Result<Self, Refusal> {
        let mut fields = Fields(data);
        let name = fields.string()?;
        let mut option = Self { name, wants_name: false, wants_description: false };
        for _ in 0..fields.u16()? {
            match fields.u16()? {
                proto::NBD_INFO_NAME => option.wants_name = true,
                proto::NBD_INFO_DESCRIPTION => option.wants_description = true,
                // The others are told unasked, or unknown.
                _ => {}
            }
        }
        fields.end()?;
        Ok(option)
    }
}

/// The data of SET_META_CONTEXT and LIST_META_CONTEXT.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MetaOption<'a> {
    pub name: &'a str,
    /// A query names `base:allocation`.
    pub names_allocation: bool,
    /// There is no query, or one for the whole namespace `base:`. A list has all contexts then.
    pub wildcard: bool,
}

impl<'a> MetaOption<'a> {
    pub fn parse(data: &'a [u8]) -> Result<Self, Refusal> {
        let mut fields = Fields(data);
        let name = fields.string()?;
        let queries = fields.u32()?;
        if queries > META_QUERIES_MAX {
            return Err(Refusal::too_big("too many metadata queries"));
        }
        let mut option = Self { name, names_allocation: false, wildcard: queries == 0 };
        for _ in 0..queries {
            match fields.string()? {
                "base:allocation" => option.names_allocation = true,
                "base:" => option.wildcard = true,
                query if query.contains(':') => {}
                _ => return Err(Refusal::invalid("a metadata query has no namespace")),
            }
        }
        fields.end()?;
        Ok(option)
    }
}
