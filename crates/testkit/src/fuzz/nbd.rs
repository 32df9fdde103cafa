//! Fuzz target of the NBD protocol: a server without devices, which answers each request at once. For any
//! bytes of a client it says the same however they are split, and stays below its limits.

use entresol_nbd::{
    Command, ErrorCode, Event, Export, Exports, Extent, Handshake, OPTION_BYTES_MAX, Opened, Replies,
    Request, Step, Wanted,
};
use entresol_runtime::rng::Rng;

/// Bound of a handshake's memory: an option, a name, and twice the longest replies.
const HEAP_BYTES_MAX: usize = OPTION_BYTES_MAX + 4096 + 1024;
const EXPORT_BYTES: u64 = 1 << 20;

/// The first byte is a seed for the splits. The remaining bytes are the client's.
pub(super) fn nbd(input: &[u8]) {
    let Some((&seed, stream)) = input.split_first() else { return };
    let whole = serve(stream, || stream.len());
    let mut rng = Rng::new(seed.into());
    let split = serve(stream, || 1 + rng.below(40) as usize);
    assert!(whole == split, "{} bytes said, {} when the stream was split", whole.len(), split.len());
}

fn exports() -> Exports {
    let archive = Export { read_only: true, fast_zero: true, ..Export::new("archive", EXPORT_BYTES) };
    let disk = Export { description: "a disk".to_owned(), ..Export::new("disk", EXPORT_BYTES) };
    Exports::new(vec![disk, archive]).expect("these exports can be offered")
}

/// Gives `stream` to a server, in pieces. Returns what it says; reads have no data.
fn serve(stream: &[u8], mut piece: impl FnMut() -> usize) -> Vec<u8> {
    let exports = exports();
    let mut handshake = Handshake::new();
    let mut said = Vec::new();
    let (mut at, mut end) = (0, 0);
    let mut opened = loop {
        said.extend_from_slice(handshake.output());
        handshake.sent(handshake.output().len());
        let (consumed, step) = handshake.receive(&stream[at..end], &exports);
        at += consumed;
        assert!(handshake.heap_bytes() <= HEAP_BYTES_MAX, "{} bytes", handshake.heap_bytes());
        match step {
            Step::Continue if consumed > 0 || !handshake.output().is_empty() => {}
            Step::Continue if end == stream.len() => return said,
            Step::Continue => end = stream.len().min(end + piece()),
            Step::Opened(opened) => {
                said.extend_from_slice(handshake.output());
                break opened;
            }
            Step::Closed(_) => return said,
        }
    };
    while let Some(consumed) = transmit(&mut opened, &stream[at..end], &mut said) {
        at += consumed;
        if consumed == 0 {
            if end == stream.len() {
                break;
            }
            end = stream.len().min(end + piece());
        }
    }
    said
}

/// Takes one message, and says how many bytes were consumed. `None`: the connection has ended.
fn transmit(opened: &mut Opened, bytes: &[u8], said: &mut Vec<u8>) -> Option<usize> {
    let event = match opened.requests.wanted() {
        Wanted::Nothing => return None,
        Wanted::Payload(wanted) => {
            let taken = wanted.min(bytes.len());
            opened.requests.payload_taken(taken);
            return Some(taken);
        }
        Wanted::Request(_) | Wanted::Skipped(_) => opened.requests.receive(bytes),
    };
    match event {
        (_, Some(Event::Closed(_))) => return None,
        (_, Some(Event::Request(request))) => answer(opened.replies, opened.export, request, said),
        (_, Some(Event::Refused(refused))) => {
            let reply = opened.replies.error(refused.cookie, refused.error, refused.reason);
            said.extend_from_slice(&reply);
        }
        (_, None) => {}
    }
    Some(event.0)
}

fn answer(replies: Replies, export: usize, request: Request, said: &mut Vec<u8>) {
    let Request { cookie, command } = request;
    if let Some((offset, length)) = range(command) {
        let end = offset.checked_add(length.into()).expect("an admitted range ends");
        assert!(length > 0 && end <= EXPORT_BYTES && (offset | end) % 512 == 0, "{command:?}");
    }
    let writes =
        matches!(command, Command::Write { .. } | Command::Trim { .. } | Command::WriteZeroes { .. });
    assert!(!writes || export == 0, "{command:?} on a read-only export");
    match command {
        Command::Read { offset, length, whole: true } => {
            said.extend_from_slice(&replies.read(cookie, offset, length));
        }
        Command::Read { offset, length, whole: false } => {
            said.extend_from_slice(&replies.read_part(cookie, offset, length, false));
            said.extend_from_slice(&replies.error(cookie, ErrorCode::Io, "an error after a part"));
        }
        Command::BlockStatus { length, one, .. } => {
            let extent = |at| Extent { bytes: 4096, hole: false, zero: at % 2 == 0 };
            replies.block_status(cookie, (length, one), (0..256).map(extent), said);
        }
        _ => said.extend_from_slice(&replies.done(cookie)),
    }
}

fn range(command: Command) -> Option<(u64, u32)> {
    match command {
        Command::Flush => None,
        Command::Read { offset, length, .. }
        | Command::Write { offset, length, .. }
        | Command::Trim { offset, length, .. }
        | Command::WriteZeroes { offset, length, .. }
        | Command::Cache { offset, length }
        | Command::BlockStatus { offset, length, .. } => Some((offset, length)),
    }
}

fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let length = data.len() as u32;
    [b"IHAVEOPT", &number.to_be_bytes()[..], &length.to_be_bytes(), data].concat()
}

fn request(command: u16, flags: u16, offset: u64, length: u32) -> Vec<u8> {
    let head = [0x2560_u16, 0x9513, flags, command].map(u16::to_be_bytes).concat();
    let payload = vec![0x5a; if command == 1 { length as usize } else { 0 }];
    [&head, &[command as u8; 8][..], &offset.to_be_bytes(), &length.to_be_bytes(), &payload].concat()
}

/// Sessions that reach every option and every command.
pub(super) fn samples() -> Vec<(String, Vec<u8>)> {
    let start = |seed: u8, client: u8| vec![seed, 0, 0, 0, client];
    let info = |number, name: &[u8], infos: &[u8]| {
        let length = (name.len() as u32).to_be_bytes();
        option(number, &[&length, name, &[0, infos.len() as u8 / 2], infos].concat())
    };
    let meta = |number| {
        let queries = b"\x00\x00\x00\x02\x00\x00\x00\x05base:\x00\x00\x00\x0fbase:allocation";
        option(number, &[b"\x00\x00\x00\x04disk", &queries[..]].concat())
    };
    let disconnect = request(2, 0, 0, 0);
    let commands = || {
        let ranges = (0..8).filter(|command| *command != 2).map(|command| {
            let length = if command == 3 { 0 } else { 1024 };
            [request(command, 0, 0, length), request(command, 1, u64::from(length), length)].concat()
        });
        ranges.flatten().collect::<Vec<_>>()
    };
    let special = [
        request(0, 4, 0, 65536),
        request(7, 8, 0, 4096),
        request(6, 2, 0, 512),
        request(1, 0, EXPORT_BYTES, 512),
        request(0, 0, 0_u64.wrapping_sub(512), 1024),
    ]
    .concat();
    let simple = [start(1, 3), info(7, b"disk", &[]), commands(), disconnect.clone()];
    let structured = [
        start(2, 3),
        option(8, &[]),
        meta(9),
        meta(10),
        info(7, b"disk", &[0, 3]),
        commands(),
        special,
        disconnect,
    ];
    let named = [start(3, 1), option(1, b"archive"), commands()];
    let asks = info(6, b"disk", &[0, 1, 0, 2]);
    let options = [
        start(4, 3),
        option(3, &[]),
        option(5, &[]),
        option(99, b"data"),
        option(6, b"?"),
        asks,
        option(2, &[]),
    ];
    [
        ("simple", simple.concat()),
        ("structured", structured.concat()),
        ("export-name", named.concat()),
        ("options", options.concat()),
    ]
    .map(|(name, bytes)| (name.to_owned(), bytes))
    .to_vec()
}
