//! The handshake: fixed newstyle, with one option at a time.
//!
//! Invariants:
//!
//! 1. At most one option's data and one option's replies are in memory: nothing is consumed while there is
//!    output to send.
//! 2. Data that is not needed (unknown options, options that are too long) is skipped, not kept.
//! 3. Each option but EXPORT_NAME has exactly one final reply, after its data was received.

use crate::closed::Closed;
use crate::export::{Export, Exports};
use crate::options::{self, InfoOption, MetaOption, Refusal};
use crate::proto::*;
use crate::replies::{ALLOCATION_CONTEXT, Replies};
use crate::requests::Requests;
use crate::session::Session;
use zerocopy::network_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

/// Longest data of an option, in bytes. Longer ones are refused.
pub const OPTION_BYTES_MAX: usize = 64 << 10;
/// Most options of a handshake. A client that sends more is disconnected.
pub const OPTIONS_MAX: u32 = 64;

const ALLOCATION: &str = "base:allocation";
const CLIENT_FLAGS: u32 = NBD_FLAG_C_FIXED_NEWSTYLE | NBD_FLAG_C_NO_ZEROES;

/// The outcome of the bytes that a handshake was given.
#[derive(Debug)]
pub enum Step {
    /// Send [`Handshake::output`] if there is any, else receive more.
    Continue,
    /// Send [`Handshake::output`]; then the transmission begins.
    Opened(Opened),
    /// Send [`Handshake::output`] and close the connection.
    Closed(Closed),
}

/// A client has chosen an export.
#[derive(Debug)]
pub struct Opened {
    /// Index of the export in the [`Exports`] of this call.
    pub export: usize,
    /// Decodes the requests.
    pub requests: Requests,
    /// Encodes the replies. May be copied to other threads.
    pub replies: Replies,
}

/// The meaning of the next bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    ClientFlags,
    Head,
    Data { option: u32, length: usize },
    Skip { option: u32, left: u32, refusal: Refusal },
    Ended,
}

/// The server's side of a handshake.
///
/// Memory: at most [`OPTION_BYTES_MAX`] for an option, 4 KiB for a name, and twice the replies to one option
/// (a vector that grows). The longest replies are those to LIST, 24 bytes and the name for each export, and
/// to INFO, 130 bytes with name and description of one.
#[derive(Debug)]
pub struct Handshake {
    phase: Phase,
    /// The part of the message that was received.
    input: Vec<u8>,
    output: Vec<u8>,
    /// Bytes of `output` that were sent.
    sent: usize,
    options: u32,
    client_flags: u32,
    structured: bool,
    /// Name of the export for which `base:allocation` is selected.
    allocation: Option<String>,
    /// All options but ABORT are refused so, and the connection ends so.
    refusing: Option<(Refusal, Closed)>,
}

impl Default for Handshake {
    fn default() -> Self {
        Self::new()
    }
}

impl Handshake {
    /// A new connection. The first output is the server's greeting.
    pub fn new() -> Self {
        let greeting = RawGreeting {
            init: U64::new(NBDMAGIC),
            magic: U64::new(IHAVEOPT),
            flags: U16::new(NBD_FLAG_FIXED_NEWSTYLE | NBD_FLAG_NO_ZEROES),
        };
        Self {
            phase: Phase::ClientFlags,
            input: Vec::new(),
            output: greeting.as_bytes().to_vec(),
            sent: 0,
            options: 0,
            client_flags: 0,
            structured: false,
            allocation: None,
            refusing: None,
        }
    }

    /// The output to send before more is received.
    pub fn output(&self) -> &[u8] {
        &self.output[self.sent..]
    }

    /// The first `bytes` of the output were sent.
    ///
    /// # Panics
    /// If there is less output.
    pub fn sent(&mut self, bytes: usize) {
        assert!(bytes <= self.output().len(), "{bytes} bytes sent, of {}", self.output().len());
        self.sent += bytes;
        if self.output().is_empty() {
            self.output.clear();
            self.sent = 0;
        }
    }

    /// Options that are received from now on are refused with `NBD_REP_ERR_SHUTDOWN`.
    pub fn shut_down(&mut self) {
        let refusal = Refusal { kind: NBD_REP_ERR_SHUTDOWN, text: "the server shuts down" };
        self.refusing = Some((refusal, Closed::ShuttingDown));
    }

    /// Options that are received from now on are refused with `NBD_REP_ERR_POLICY`: the server has as many
    /// connections as it may have.
    pub fn refuse_connection(&mut self) {
        let text = "too many connections are open (connections_max)";
        self.refusing = Some((Refusal { kind: NBD_REP_ERR_POLICY, text }, Closed::TooManyConnections));
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        let allocation = self.allocation.as_ref().map_or(0, String::capacity);
        self.input.capacity() + self.output.capacity() + allocation
    }

    /// Takes bytes from the client, and says how many of `bytes` were consumed. It stops after each option:
    /// nothing is consumed while there is output, nor after the handshake has ended. The rest belongs to the
    /// next call, or to the transmission.
    pub fn receive(&mut self, bytes: &[u8], exports: &Exports) -> (usize, Step) {
        let mut consumed = 0;
        while self.output.is_empty() {
            let rest = &bytes[consumed..];
            let step = match self.phase {
                Phase::ClientFlags => self.gather(rest, size_of::<U32>(), &mut consumed, Self::client_flags),
                Phase::Head => self.gather(rest, size_of::<RawOption>(), &mut consumed, Self::head),
                Phase::Data { option, length } => {
                    self.gather(rest, length, &mut consumed, |this| this.data(option, exports))
                }
                Phase::Skip { option, left, refusal } => {
                    let skipped = rest.len().min(left as usize);
                    consumed += skipped;
                    let left = left - skipped as u32;
                    self.phase = Phase::Skip { option, left, refusal };
                    (left == 0).then(|| self.refuse(option, refusal))
                }
                Phase::Ended => None,
            };
            match step {
                Some(Step::Continue) => {}
                Some(last) => {
                    self.phase = Phase::Ended;
                    return (consumed, last);
                }
                None => break,
            }
        }
        (consumed, Step::Continue)
    }

    /// Collects a message of `length` bytes; when it is whole, handles it.
    fn gather(
        &mut self,
        bytes: &[u8],
        length: usize,
        consumed: &mut usize,
        handle: impl FnOnce(&mut Self) -> Step,
    ) -> Option<Step> {
        self.input.reserve_exact(length - self.input.len());
        let taken = bytes.len().min(length - self.input.len());
        self.input.extend_from_slice(&bytes[..taken]);
        *consumed += taken;
        if self.input.len() < length {
            return None;
        }
        let step = handle(self);
        self.input.clear();
        Some(step)
    }

    fn client_flags(&mut self) -> Step {
        self.client_flags = U32::read_from_bytes(&self.input).expect("four bytes were gathered").get();
        if self.client_flags & !CLIENT_FLAGS != 0 {
            return Step::Closed(Closed::ClientFlags { found: self.client_flags });
        }
        self.phase = Phase::Head;
        Step::Continue
    }

    /// An option's head was received: decides the use of its data.
    fn head(&mut self) -> Step {
        let head = RawOption::read_from_bytes(&self.input).expect("a head was gathered");
        let (option, length) = (head.option.get(), head.length.get());
        if head.magic.get() != IHAVEOPT {
            return Step::Closed(Closed::OptionMagic { found: head.magic.get() });
        }
        self.options += 1;
        if self.options > OPTIONS_MAX {
            return Step::Closed(Closed::TooManyOptions);
        }
        if self.client_flags & NBD_FLAG_C_FIXED_NEWSTYLE == 0 && option != NBD_OPT_EXPORT_NAME {
            return Step::Closed(Closed::NotFixed { option });
        }
        let refusal = match option {
            NBD_OPT_ABORT => {
                self.acknowledge(option);
                return Step::Closed(Closed::Aborted);
            }
            NBD_OPT_EXPORT_NAME if self.refusing.is_some() => {
                return Step::Closed(self.refusing.map_or(Closed::NoExport, |(_, closed)| closed));
            }
            NBD_OPT_EXPORT_NAME if length as usize > STRING_BYTES_MAX => {
                return Step::Closed(Closed::NoExport);
            }
            NBD_OPT_EXPORT_NAME => None,
            _ if self.refusing.is_some() => self.refusing.map(|(refusal, _)| refusal),
            NBD_OPT_LIST | NBD_OPT_STRUCTURED_REPLY => {
                (length > 0).then_some(Refusal::invalid("this option has no data"))
            }
            NBD_OPT_INFO | NBD_OPT_GO | NBD_OPT_LIST_META_CONTEXT | NBD_OPT_SET_META_CONTEXT => {
                (length as usize > OPTION_BYTES_MAX).then_some(Refusal::too_big("the option is too long"))
            }
            NBD_OPT_STARTTLS => Some(Refusal { kind: NBD_REP_ERR_UNSUP, text: "this server has no TLS" }),
            _ => Some(Refusal { kind: NBD_REP_ERR_UNSUP, text: "this server does not know the option" }),
        };
        self.phase = match refusal {
            Some(refusal) => Phase::Skip { option, left: length, refusal },
            None => Phase::Data { option, length: length as usize },
        };
        Step::Continue
    }

    /// An option's data was received.
    fn data(&mut self, option: u32, exports: &Exports) -> Step {
        self.phase = Phase::Head;
        // Taken out for the time of the answer, which borrows from it.
        let input = std::mem::take(&mut self.input);
        let answer = match option {
            NBD_OPT_EXPORT_NAME => Ok(self.export_name(&input, exports)),
            NBD_OPT_LIST => Ok(self.list(exports)),
            NBD_OPT_INFO | NBD_OPT_GO => self.info(option, &input, exports),
            NBD_OPT_LIST_META_CONTEXT | NBD_OPT_SET_META_CONTEXT => self.meta(option, &input, exports),
            _ => {
                self.structured = true;
                Ok(self.acknowledge(option))
            }
        };
        self.input = input;
        answer.unwrap_or_else(|refusal| self.refuse(option, refusal))
    }

    fn export_name(&mut self, input: &[u8], exports: &Exports) -> Step {
        let Some(index) = options::string(input).and_then(|name| exports.find(name)) else {
            return Step::Closed(Closed::NoExport);
        };
        let raw = self.raw_export(&exports.as_slice()[index]);
        self.output.extend_from_slice(raw.as_bytes());
        if self.client_flags & NBD_FLAG_C_NO_ZEROES == 0 {
            self.output.resize(raw.as_bytes().len() + EXPORT_NAME_ZEROES, 0);
        }
        self.open(index, exports)
    }

    fn list(&mut self, exports: &Exports) -> Step {
        for Export { name, .. } in exports.as_slice() {
            let length = U32::new(name.len() as u32);
            self.reply(NBD_OPT_LIST, NBD_REP_SERVER, &[length.as_bytes(), name.as_bytes()]);
        }
        self.acknowledge(NBD_OPT_LIST)
    }

    fn info(&mut self, option: u32, input: &[u8], exports: &Exports) -> Result<Step, Refusal> {
        let asked = InfoOption::parse(input)?;
        let index = find(exports, asked.name)?;
        let export = &exports.as_slice()[index];
        let told = RawInfoExport { info: U16::new(NBD_INFO_EXPORT), export: self.raw_export(export) };
        self.reply(option, NBD_REP_INFO, &[told.as_bytes()]);
        let texts = [
            (NBD_INFO_NAME, &export.name, asked.wants_name),
            (NBD_INFO_DESCRIPTION, &export.description, asked.wants_description),
        ];
        for (info, text, asked) in texts {
            if asked && (info == NBD_INFO_NAME || !text.is_empty()) {
                self.reply(option, NBD_REP_INFO, &[U16::new(info).as_bytes(), text.as_bytes()]);
            }
        }
        let blocks = RawInfoBlockSize {
            info: U16::new(NBD_INFO_BLOCK_SIZE),
            minimum: U32::new(export.blocks.minimum),
            preferred: U32::new(export.blocks.preferred),
            maximum: U32::new(export.blocks.maximum),
        };
        self.reply(option, NBD_REP_INFO, &[blocks.as_bytes()]);
        self.acknowledge(option);
        Ok(if option == NBD_OPT_GO { self.open(index, exports) } else { Step::Continue })
    }

    fn meta(&mut self, option: u32, input: &[u8], exports: &Exports) -> Result<Step, Refusal> {
        let set = option == NBD_OPT_SET_META_CONTEXT;
        if set {
            // Also if it is refused: it replaces the earlier selection.
            self.allocation = None;
            if !self.structured {
                return Err(Refusal::invalid("structured replies must be negotiated first"));
            }
        }
        let asked = MetaOption::parse(input)?;
        let index = find(exports, asked.name)?;
        if asked.names_allocation || (asked.wildcard && !set) {
            let context = U32::new(if set { ALLOCATION_CONTEXT } else { 0 });
            self.reply(option, NBD_REP_META_CONTEXT, &[context.as_bytes(), ALLOCATION.as_bytes()]);
        }
        if set && asked.names_allocation {
            self.allocation = Some(exports.as_slice()[index].name.clone());
        }
        Ok(self.acknowledge(option))
    }

    fn raw_export(&self, export: &Export) -> RawExport {
        RawExport { bytes: U64::new(export.bytes), flags: U16::new(export.flags(self.structured)) }
    }

    fn open(&mut self, index: usize, exports: &Exports) -> Step {
        let export = &exports.as_slice()[index];
        let session = Session {
            bytes: export.bytes,
            blocks: export.blocks,
            read_only: export.read_only,
            fast_zero: export.fast_zero,
            structured: self.structured,
            allocation: self.allocation.as_ref() == Some(&export.name),
        };
        Step::Opened(Opened {
            export: index,
            requests: Requests::new(session),
            replies: Replies::new(self.structured),
        })
    }

    fn acknowledge(&mut self, option: u32) -> Step {
        self.reply(option, NBD_REP_ACK, &[]);
        Step::Continue
    }

    fn refuse(&mut self, option: u32, refusal: Refusal) -> Step {
        self.reply(option, refusal.kind, &[refusal.text.as_bytes()]);
        self.phase = Phase::Head;
        Step::Continue
    }

    fn reply(&mut self, option: u32, kind: u32, data: &[&[u8]]) {
        let length = data.iter().map(|part| part.len()).sum::<usize>();
        let head = RawOptionReply {
            magic: U64::new(NBD_REP_MAGIC),
            option: U32::new(option),
            kind: U32::new(kind),
            length: U32::new(length as u32),
        };
        self.output.extend_from_slice(head.as_bytes());
        for part in data {
            self.output.extend_from_slice(part);
        }
    }
}

fn find(exports: &Exports, name: &str) -> Result<usize, Refusal> {
    let unknown = Refusal { kind: NBD_REP_ERR_UNKNOWN, text: "there is no such export" };
    exports.find(name).ok_or(unknown)
}
