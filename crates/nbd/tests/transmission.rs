//! Every command and every reply, as the bytes that the specification describes.

mod support;

use entresol_nbd::{Closed, Command, Cookie, ErrorCode, Event, Extent, Opened, Refused, Request, Wanted};
use support::{Reader, Server, request};

const READ: u16 = 0;
const WRITE: u16 = 1;
const DISC: u16 = 2;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;
const CACHE: u16 = 5;
const WRITE_ZEROES: u16 = 6;
const BLOCK_STATUS: u16 = 7;

const FUA: u16 = 1;
const NO_HOLE: u16 = 2;
const DF: u16 = 4;
const REQ_ONE: u16 = 8;
const FAST_ZERO: u16 = 16;

const MIB: u64 = 1 << 20;

/// The event of a request, which is consumed as a whole.
fn event(opened: &mut Opened, bytes: &[u8]) -> Event {
    let (consumed, event) = opened.requests.receive(bytes);
    assert_eq!(consumed, bytes.len());
    event.unwrap()
}

fn admitted(opened: &mut Opened, bytes: &[u8]) -> Command {
    match event(opened, bytes) {
        Event::Request(Request { cookie, command }) => {
            assert_eq!(cookie.0, bytes[8..16]);
            if let Command::Write { length, .. } = command {
                assert_eq!(opened.requests.wanted(), Wanted::Payload(length as usize));
                opened.requests.payload_taken(length as usize);
            }
            command
        }
        other => panic!("{other:?}"),
    }
}

fn refused(opened: &mut Opened, bytes: &[u8]) -> ErrorCode {
    match event(opened, bytes) {
        Event::Refused(Refused { cookie, error, reason }) => {
            assert_eq!(cookie.0, bytes[8..16]);
            assert!(!reason.is_empty());
            if bytes[6..8] == WRITE.to_be_bytes() {
                let length = u32::from_be_bytes(bytes[24..28].try_into().unwrap()) as usize;
                let wanted = if length == 0 { Wanted::Request(28) } else { Wanted::Skipped(length) };
                assert_eq!(opened.requests.wanted(), wanted);
                // Not even if it looks like requests.
                let payload = request(FLUSH, 0, 0, 0, 0).repeat(length.div_ceil(28));
                assert_eq!(opened.requests.receive(&payload[..length]), (length, None));
            }
            assert_eq!(opened.requests.wanted(), Wanted::Request(28));
            error
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn commands_are_decoded() {
    let mut disk = Server::structured("disk");
    let mut ask = |command, flags, offset, length| {
        admitted(&mut disk, &request(command, flags, 0x0102_0304_0506_0708, offset, length))
    };
    let (offset, length) = (512, 1024);
    assert_eq!(ask(READ, 0, 512, 1024), Command::Read { offset, length, whole: false });
    assert_eq!(ask(READ, DF | FUA, 512, 1024), Command::Read { offset, length, whole: true });
    assert_eq!(ask(WRITE, 0, 512, 1024), Command::Write { offset, length, fua: false });
    assert_eq!(ask(WRITE, FUA, 512, 1024), Command::Write { offset, length, fua: true });
    assert_eq!(ask(FLUSH, 0, 0, 0), Command::Flush);
    assert_eq!(ask(FLUSH, FUA, 0, 0), Command::Flush);
    assert_eq!(ask(TRIM, 0, 512, 1024), Command::Trim { offset, length, fua: false });
    assert_eq!(ask(TRIM, FUA, 512, 1024), Command::Trim { offset, length, fua: true });
    assert_eq!(ask(CACHE, 0, 512, 1024), Command::Cache { offset, length });
    let zeros = |fua, no_hole, fast| Command::WriteZeroes { offset, length, fua, no_hole, fast };
    assert_eq!(ask(WRITE_ZEROES, 0, 512, 1024), zeros(false, false, false));
    assert_eq!(ask(WRITE_ZEROES, FUA, 512, 1024), zeros(true, false, false));
    assert_eq!(ask(WRITE_ZEROES, NO_HOLE, 512, 1024), zeros(false, true, false));
    assert_eq!(ask(BLOCK_STATUS, 0, 512, 1024), Command::BlockStatus { offset, length, one: false });
    assert_eq!(ask(BLOCK_STATUS, REQ_ONE, 512, 1024), Command::BlockStatus { offset, length, one: true });
    let mut odd = Server::simple("odd");
    let command = admitted(&mut odd, &request(WRITE_ZEROES, FAST_ZERO | FUA, 1, 4096, 8192));
    let (offset, length) = (4096, 8192);
    assert_eq!(command, Command::WriteZeroes { offset, length, fua: true, no_hole: false, fast: true });
    // Without structured replies a read has one reply.
    let command = admitted(&mut odd, &request(READ, 0, 1, 4096, 8192));
    assert_eq!(command, Command::Read { offset, length, whole: true });
}

#[test]
fn limits_are_inclusive() {
    let mut archive = Server::structured("archive");
    let mut ask = |command, offset, length| {
        admitted(&mut archive, &request(command, 0, 1, offset, length));
    };
    ask(READ, 0, 32 << 20);
    ask(READ, 32 * MIB, 32 << 20);
    ask(READ, 64 * MIB - 512, 512);
    ask(CACHE, 0, 64 << 20);
    ask(BLOCK_STATUS, 0, 64 << 20);
    let mut disk = Server::simple("disk");
    admitted(&mut disk, &request(WRITE, 0, 1, 0, 1 << 20));
    admitted(&mut disk, &request(TRIM, 0, 1, MIB - 512, 512));
}

#[test]
fn a_range_after_the_end_is_refused() {
    let mut disk = Server::structured("disk");
    let mut ask = |command, offset, length| refused(&mut disk, &request(command, 0, 1, offset, length));
    for (offset, length) in [(MIB, 512), (MIB - 512, 1024), (0, (1 << 20) + 512), (u64::MAX - 511, 512)] {
        for command in [WRITE, WRITE_ZEROES] {
            assert_eq!(ask(command, offset, length), ErrorCode::NoSpc, "{command} {offset} {length}");
        }
        for command in [READ, TRIM, CACHE, BLOCK_STATUS] {
            assert_eq!(ask(command, offset, length), ErrorCode::Inval, "{command} {offset} {length}");
        }
    }
}

#[test]
fn an_export_that_has_grown_admits_the_new_range() {
    let mut disk = Server::simple("disk");
    let at_end = request(WRITE_ZEROES, 0, 1, MIB, 512);
    assert_eq!(refused(&mut disk, &at_end), ErrorCode::NoSpc);
    disk.requests.grow(2 * MIB);
    let zeroes = Command::WriteZeroes { offset: MIB, length: 512, fua: false, no_hole: false, fast: false };
    assert_eq!(admitted(&mut disk, &at_end), zeroes);
    disk.requests.grow(MIB);
    admitted(&mut disk, &request(READ, 0, 1, 2 * MIB - 512, 512));
    assert_eq!(refused(&mut disk, &request(READ, 0, 1, 2 * MIB, 512)), ErrorCode::Inval);
}

#[test]
fn lengths_and_offsets_keep_to_the_block_sizes() {
    let mut disk = Server::structured("disk");
    let mut odd = Server::structured("odd");
    for command in [READ, WRITE, TRIM, CACHE, WRITE_ZEROES, BLOCK_STATUS] {
        for (offset, length) in [(1, 512), (0, 511), (256, 256), (512, 0), (0, 0)] {
            let request = request(command, 0, 1, offset, length);
            assert_eq!(refused(&mut disk, &request), ErrorCode::Inval, "{command} {offset} {length}");
        }
        for (offset, length) in [(512, 4096), (4096, 512)] {
            let request = request(command, 0, 1, offset, length);
            assert_eq!(refused(&mut odd, &request), ErrorCode::Inval, "{command} {offset} {length}");
        }
    }
    let too_long = (64 << 10) + 4096;
    for command in [READ, WRITE] {
        assert_eq!(refused(&mut odd, &request(command, 0, 1, 0, too_long)), ErrorCode::Inval);
        admitted(&mut odd, &request(command, 0, 1, 0, 64 << 10));
    }
    assert_eq!(refused(&mut odd, &request(READ, DF, 1, 0, too_long)), ErrorCode::Overflow);
    for command in [TRIM, CACHE, WRITE_ZEROES, BLOCK_STATUS] {
        admitted(&mut odd, &request(command, 0, 1, 0, too_long));
    }
    for (offset, length) in [(512, 0), (0, 512)] {
        assert_eq!(refused(&mut disk, &request(FLUSH, 0, 1, offset, length)), ErrorCode::Inval);
    }
}

#[test]
fn a_read_only_export_is_not_changed() {
    for mut archive in [Server::structured("archive"), Server::simple("archive")] {
        for command in [WRITE, TRIM, WRITE_ZEROES] {
            assert_eq!(refused(&mut archive, &request(command, 0, 1, 0, 512)), ErrorCode::Perm);
        }
        // The reason is not the range.
        assert_eq!(refused(&mut archive, &request(WRITE, 0, 1, 64 * MIB, 512)), ErrorCode::Perm);
        for command in [READ, CACHE] {
            admitted(&mut archive, &request(command, 0, 1, 0, 512));
        }
        admitted(&mut archive, &request(FLUSH, 0, 1, 0, 0));
    }
}

#[test]
fn flags_and_commands_that_were_not_offered_are_refused() {
    let of = |command| match command {
        READ => DF,
        WRITE_ZEROES => NO_HOLE,
        BLOCK_STATUS => REQ_ONE,
        _ => 0,
    };
    let mut disk = Server::structured("disk");
    for command in [READ, WRITE, FLUSH, TRIM, CACHE, WRITE_ZEROES, BLOCK_STATUS] {
        for bit in 0..16 {
            let length = if command == FLUSH { 0 } else { 512 };
            let bytes = request(command, 1 << bit, 1, 0, length);
            if 1 << bit & (of(command) | FUA) != 0 {
                admitted(&mut disk, &bytes);
            } else {
                assert_eq!(refused(&mut disk, &bytes), ErrorCode::Inval, "{command} {bit}");
            }
        }
    }
    for command in [8, 9, 0x100, u16::MAX] {
        assert_eq!(refused(&mut disk, &request(command, 0, 1, 0, 512)), ErrorCode::Inval);
    }
    let mut simple = Server::simple("disk");
    assert_eq!(refused(&mut simple, &request(READ, DF, 1, 0, 512)), ErrorCode::Inval);
    assert_eq!(refused(&mut simple, &request(BLOCK_STATUS, 0, 1, 0, 512)), ErrorCode::Inval);
}

#[test]
fn a_disconnect_and_a_wrong_magic_end_the_stream() {
    let mut disk = Server::simple("disk");
    assert_eq!(event(&mut disk, &request(DISC, 0, 1, 0, 0)), Event::Closed(Closed::Disconnected));
    assert_eq!(disk.requests.wanted(), Wanted::Nothing);
    assert_eq!(disk.requests.receive(&request(READ, 0, 1, 0, 512)), (0, None));
    let mut disk = Server::simple("disk");
    let mut bytes = request(READ, 0, 1, 0, 512);
    bytes[3] += 1;
    assert_eq!(event(&mut disk, &bytes), Event::Closed(Closed::RequestMagic { found: 0x2560_9514 }));
    assert_eq!(disk.requests.receive(&request(READ, 0, 1, 0, 512)), (0, None));
}

#[test]
fn payloads_are_left_to_the_caller() {
    let mut disk = Server::simple("disk");
    let mut bytes = request(WRITE, 0, 7, 0, 1024);
    bytes.extend([0x25; 1024]);
    bytes.extend(request(FLUSH, 0, 8, 0, 0));
    let (consumed, _) = disk.requests.receive(&bytes);
    assert_eq!(consumed, 28);
    disk.requests.payload_taken(1000);
    assert_eq!(disk.requests.wanted(), Wanted::Payload(24));
    disk.requests.payload_taken(24);
    let (consumed, event) = disk.requests.receive(&bytes[28 + 1024..]);
    assert_eq!(consumed, 28);
    let command = Command::Flush;
    assert_eq!(event, Some(Event::Request(Request { cookie: Cookie([0, 0, 0, 0, 0, 0, 0, 8]), command })));
}

#[test]
#[should_panic(expected = "24 bytes of a payload were not taken")]
fn a_payload_is_never_taken_for_requests() {
    let mut disk = Server::simple("disk");
    disk.requests.receive(&request(WRITE, 0, 7, 0, 1024));
    disk.requests.payload_taken(1000);
    disk.requests.receive(&[0; 24]);
}

#[test]
#[should_panic(expected = "513 bytes of a payload taken")]
fn no_more_than_the_payload_is_taken() {
    let mut disk = Server::simple("disk");
    disk.requests.receive(&request(WRITE, 0, 7, 0, 512));
    disk.requests.payload_taken(513);
}

const COOKIE: Cookie = Cookie(*b"a cookie");

#[test]
fn simple_replies() {
    let replies = Server::simple("disk").replies;
    assert_eq!(replies.done(COOKIE).as_slice(), b"\x67\x44\x66\x98\0\0\0\0a cookie");
    assert_eq!(replies.read(COOKIE, 512, 1024).as_slice(), b"\x67\x44\x66\x98\0\0\0\0a cookie");
    let error = replies.error(COOKIE, ErrorCode::NotSup, "not fast");
    assert_eq!(error.as_slice(), b"\x67\x44\x66\x98\0\0\0\x5fa cookie");
}

#[test]
fn structured_replies() {
    let replies = Server::structured("disk").replies;
    assert_eq!(replies.done(COOKIE).as_slice(), b"\x67\x44\x66\x98\0\0\0\0a cookie");
    let whole = b"\x66\x8e\x33\xef\x00\x01\x00\x01a cookie\x00\x00\x04\x08\x01\0\0\0\0\0\x02\x00";
    assert_eq!(replies.read(COOKIE, 0x0100_0000_0000_0200, 1024).as_slice(), whole);
    let part = b"\x66\x8e\x33\xef\x00\x00\x00\x01a cookie\x00\x00\x04\x08\0\0\0\0\0\0\x02\x00";
    assert_eq!(replies.read_part(COOKIE, 512, 1024, false).as_slice(), part);
    let part = b"\x66\x8e\x33\xef\x00\x01\x00\x01a cookie\x02\x00\x00\x08\0\0\0\0\0\0\0\0";
    assert_eq!(replies.read_part(COOKIE, 0, 32 << 20, true).as_slice(), part);
    let error = replies.error(COOKIE, ErrorCode::Io, "flash");
    let expected = b"\x66\x8e\x33\xef\x00\x01\x80\x01a cookie\0\0\0\x0b\0\0\0\x05\0\x05flash";
    assert_eq!(error.as_slice(), expected);
}

#[test]
#[should_panic(expected = "cannot take it")]
fn a_simple_client_gets_no_parts() {
    Server::simple("disk").replies.read_part(COOKIE, 0, 512, true);
}

#[test]
fn errors_have_the_numbers_of_the_specification() {
    use ErrorCode::*;
    let replies = Server::simple("disk").replies;
    let numbers = [Perm, Io, NoMem, Inval, NoSpc, Overflow, NotSup, Shutdown]
        .map(|code| replies.error(COOKIE, code, "")[7]);
    assert_eq!(numbers, [1, 5, 12, 22, 28, 75, 95, 108]);
}

#[test]
fn a_long_text_is_cut_between_characters() {
    let replies = Server::structured("disk").replies;
    for text in ["x".repeat(1000), "ü".repeat(1000), format!("x{}", "ü".repeat(1000)), "€".repeat(300)] {
        let reply = replies.error(COOKIE, ErrorCode::Io, &text);
        let mut reader = Reader(&reply[16..]);
        assert_eq!(reader.number(4) as usize, reply.len() - 20);
        assert_eq!(reader.number(4), 5);
        assert_eq!(reader.number(2) as usize, reply.len() - 26);
        assert!(reply.len() - 26 > 226 && text.starts_with(std::str::from_utf8(reader.0).unwrap()));
    }
}

/// Length and flags of each extent in the reply to a block status.
fn status(length: u32, one: bool, extents: &[(u64, bool, bool)]) -> Vec<(u64, u64)> {
    let replies = Server::structured("disk").replies;
    let mut out = b"before".to_vec();
    let extents = extents.iter().map(|&(bytes, hole, zero)| Extent { bytes, hole, zero });
    replies.block_status(COOKIE, (length, one), extents, &mut out);
    let mut reader = Reader(out.strip_prefix(b"before").unwrap());
    assert_eq!(reader.bytes(16), b"\x66\x8e\x33\xef\x00\x01\x00\x05a cookie");
    assert_eq!(reader.number(4) as usize, reader.0.len());
    assert_eq!(reader.number(4), 1, "the context");
    let extents = (0..reader.0.len() / 8).map(|_| (reader.number(4), reader.number(4)));
    extents.collect()
}

#[test]
fn block_status_is_told_in_merged_extents() {
    let all = [(512, false, false), (512, false, true), (512, true, false), (512, true, true)];
    assert_eq!(status(2048, false, &all), [(512, 0), (512, 2), (512, 1), (512, 3)]);
    assert_eq!(status(4096, false, &all[..1]), [(512, 0)]);
    assert_eq!(status(1000, false, &all), [(512, 0), (488, 2)]);
    assert_eq!(status(2048, true, &all), [(512, 0)]);
    assert_eq!(status(2048, true, &all[1..]), [(512, 2)]);
    let same =
        [(0, true, true), (512, true, false), (0, false, false), (512, true, false), (u64::MAX, true, false)];
    assert_eq!(status(1 << 20, false, &same), [(1 << 20, 1)]);
    assert_eq!(status(1 << 20, true, &same), [(1 << 20, 1)]);
    assert_eq!(status(1024, false, &[]), [(1024, 0)]);
    assert_eq!(status(1024, true, &[(0, true, true)]), [(1024, 0)]);
    let many: Vec<_> = (0..5000).map(|at| (512, false, at % 2 == 0)).collect();
    let told = status(5000 * 512, false, &many);
    assert_eq!((told.len(), told[1022], told[1023]), (1024, (512, 2), (512, 0)));
}
