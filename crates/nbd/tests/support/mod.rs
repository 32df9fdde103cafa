//! A naive client, written from the specification with numbers of its own: it shares no encoder with the
//! server.
#![allow(dead_code, reason = "each test uses a part")]

use entresol_nbd::{BlockSizes, Closed, Event, Export, Exports, Handshake, Opened, Step, Wanted};

pub const FIXED: u32 = 1;
pub const NO_ZEROES: u32 = 2;

/// Three exports: `disk` of 1 MiB; `archive`, read-only; `odd`, with other block sizes and fast zeros.
pub fn exports() -> Exports {
    let disk = Export { description: "a volume".to_owned(), ..Export::new("disk", 1 << 20) };
    let archive = Export { read_only: true, rotational: true, ..Export::new("archive", 64 << 20) };
    let blocks = BlockSizes { minimum: 4096, preferred: 8192, maximum: 64 << 10 };
    let odd = Export { blocks, multi_conn: false, fast_zero: true, ..Export::new("odd", 40 << 12) };
    Exports::new(vec![disk, archive, odd]).unwrap()
}

pub fn flags(flags: u32) -> Vec<u8> {
    flags.to_be_bytes().to_vec()
}

pub fn option(number: u32, data: &[u8]) -> Vec<u8> {
    [b"IHAVEOPT", &number.to_be_bytes()[..], &(data.len() as u32).to_be_bytes(), data].concat()
}

pub fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat()
}

/// INFO (6) or GO (7).
pub fn info(number: u32, name: &str, infos: &[u16]) -> Vec<u8> {
    let mut data = string(name);
    data.extend((infos.len() as u16).to_be_bytes());
    infos.iter().for_each(|info| data.extend(info.to_be_bytes()));
    option(number, &data)
}

pub fn go(name: &str) -> Vec<u8> {
    info(7, name, &[])
}

/// LIST_META_CONTEXT (9) or SET_META_CONTEXT (10).
pub fn meta(number: u32, name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = string(name);
    data.extend((queries.len() as u32).to_be_bytes());
    queries.iter().for_each(|query| data.extend(string(query)));
    option(number, &data)
}

/// A request without payload.
pub fn request(command: u16, flags: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = vec![0x25, 0x60, 0x95, 0x13];
    bytes.extend(flags.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes
}

/// A part of a message, from its front.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(count);
        self.0 = rest;
        bytes
    }

    pub fn number(&mut self, bytes: usize) -> u64 {
        self.bytes(bytes).iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}

/// A reply to an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionReply {
    pub option: u32,
    pub kind: u32,
    pub data: Vec<u8>,
}

pub fn option_replies(output: &[u8]) -> Vec<OptionReply> {
    let mut reader = Reader(output);
    let mut replies = Vec::new();
    while !reader.0.is_empty() {
        assert_eq!(reader.number(8), 0x0003_e889_0455_65a9);
        let (option, kind) = (reader.number(4) as u32, reader.number(4) as u32);
        let length = reader.number(4) as usize;
        replies.push(OptionReply { option, kind, data: reader.bytes(length).to_vec() });
    }
    replies
}

/// A server in its handshake, and what became of it.
pub struct Server {
    pub exports: Exports,
    pub handshake: Handshake,
    pub opened: Option<Opened>,
    pub closed: Option<Closed>,
}

impl Server {
    /// After the greeting. `client` are the client's flags.
    pub fn greeted(client: u32) -> Self {
        let mut server = Self { exports: exports(), handshake: Handshake::new(), opened: None, closed: None };
        assert_eq!(server.talk(&flags(client))[..18], *b"NBDMAGICIHAVEOPT\x00\x03");
        server
    }

    pub fn usual() -> Self {
        Self::greeted(FIXED | NO_ZEROES)
    }

    /// In the transmission phase with structured replies and `base:allocation`.
    pub fn structured(export: &str) -> Opened {
        let mut server = Self::usual();
        server.talk(&option(8, &[]));
        server.talk(&meta(10, export, &["base:allocation"]));
        server.talk(&go(export));
        server.opened.unwrap()
    }

    /// In the transmission phase with simple replies.
    pub fn simple(export: &str) -> Opened {
        let mut server = Self::usual();
        server.talk(&go(export));
        server.opened.unwrap()
    }

    /// Sends `bytes`, all of which the server must take, and returns what it says.
    pub fn talk(&mut self, mut bytes: &[u8]) -> Vec<u8> {
        let mut said = Vec::new();
        loop {
            said.extend_from_slice(self.handshake.output());
            self.handshake.sent(self.handshake.output().len());
            if self.opened.is_some() || self.closed.is_some() {
                assert!(bytes.is_empty(), "{} bytes are left", bytes.len());
                return said;
            }
            let (consumed, step) = self.handshake.receive(bytes, &self.exports);
            bytes = &bytes[consumed..];
            match step {
                Step::Continue if consumed == 0 && self.handshake.output().is_empty() => {
                    assert!(bytes.is_empty(), "{} bytes are left", bytes.len());
                    return said;
                }
                Step::Continue => {}
                Step::Opened(opened) => self.opened = Some(opened),
                Step::Closed(closed) => self.closed = Some(closed),
            }
        }
    }

    /// The replies to an option.
    pub fn ask(&mut self, option: &[u8]) -> Vec<OptionReply> {
        option_replies(&self.talk(option))
    }
}

/// All that a server does with the bytes of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transcript {
    pub output: Vec<u8>,
    pub export: Option<usize>,
    pub structured: bool,
    pub events: Vec<Event>,
    pub payloads: Vec<u8>,
    pub closed: Option<Closed>,
    /// Bytes that the server did not take.
    pub left: usize,
}

/// Gives `input` to a server in pieces of the sizes that `piece` says. `watch` sees the handshake after each
/// step.
pub fn drive(
    input: &[u8],
    exports: &Exports,
    mut piece: impl FnMut() -> usize,
    mut watch: impl FnMut(&Handshake),
) -> Transcript {
    let mut transcript = Transcript::default();
    let mut handshake = Handshake::new();
    let mut opened: Option<Opened> = None;
    let (mut at, mut end) = (0, 0);
    loop {
        let bytes = &input[at..end];
        transcript.output.extend_from_slice(handshake.output());
        handshake.sent(handshake.output().len());
        let mut idle = true;
        if let Some(opened) = &mut opened {
            match opened.requests.wanted() {
                Wanted::Payload(wanted) => {
                    let taken = wanted.min(bytes.len());
                    transcript.payloads.extend_from_slice(&bytes[..taken]);
                    opened.requests.payload_taken(taken);
                    at += taken;
                    idle = taken == 0;
                }
                Wanted::Nothing => assert_eq!(opened.requests.receive(bytes), (0, None)),
                Wanted::Request(_) | Wanted::Skipped(_) => {
                    let (consumed, event) = opened.requests.receive(bytes);
                    at += consumed;
                    idle = consumed == 0;
                    transcript.events.extend(event);
                }
            }
        } else if transcript.closed.is_none() {
            let (consumed, step) = handshake.receive(bytes, exports);
            at += consumed;
            watch(&handshake);
            idle = consumed == 0 && handshake.output().is_empty();
            match step {
                Step::Continue => {}
                Step::Opened(now) => {
                    transcript.export = Some(now.export);
                    transcript.structured = now.replies.is_structured();
                    opened = Some(now);
                    idle = false;
                }
                Step::Closed(closed) => {
                    transcript.closed = Some(closed);
                    idle = false;
                }
            }
        }
        if idle && end == input.len() {
            transcript.left = input.len() - at;
            return transcript;
        }
        if idle {
            end = input.len().min(end + piece());
        }
    }
}
