//! Whole sessions, byte for byte, written by hand from the specification.

mod support;

use entresol_nbd::{Cookie, ErrorCode, Event, Extent, Opened, Request, Step};
use support::exports;

/// Bytes from lines of hexadecimal digits; what follows a `|` is a remark.
fn hex(text: &str) -> Vec<u8> {
    let digits: String =
        text.lines().filter_map(|line| line.split('|').next()).flat_map(str::split_whitespace).collect();
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(byte).collect()
}

/// Sends the client's bytes up to the choice of an export, and compares what the server says.
fn handshake(client: &[u8], server: &[u8]) -> Opened {
    let mut handshake = entresol_nbd::Handshake::new();
    let (mut said, mut at) = (Vec::new(), 0);
    loop {
        said.extend_from_slice(handshake.output());
        handshake.sent(handshake.output().len());
        let (consumed, step) = handshake.receive(&client[at..], &exports());
        at += consumed;
        match step {
            Step::Continue => assert!(consumed > 0 || !handshake.output().is_empty(), "more is wanted"),
            Step::Opened(opened) => {
                said.extend_from_slice(handshake.output());
                assert_eq!(said, server);
                assert_eq!(at, client.len());
                return opened;
            }
            Step::Closed(closed) => panic!("{closed}"),
        }
    }
}

fn cookie(opened: &mut Opened, bytes: &[u8]) -> Cookie {
    match opened.requests.receive(bytes) {
        (28, Some(Event::Request(Request { cookie, .. }))) => cookie,
        other => panic!("{other:?}"),
    }
}

/// What the kernel's client does: GO, and simple replies.
#[test]
fn a_session_with_simple_replies() {
    let client = hex("00000003                                  | fixed newstyle, no zeroes
         49484156454f5054 00000007 0000000a                     | GO
         00000004 6469736b 0000                                 | disk, no questions");
    let server = hex("4e42444d41474943 49484156454f5054 0003    | greeting
         0003e889045565a9 00000007 00000003 0000000c            | INFO: export
         0000 0000000000100000 056d
         0003e889045565a9 00000007 00000003 0000000e            | INFO: block sizes
         0003 00000200 00001000 02000000
         0003e889045565a9 00000007 00000001 00000000            | ACK");
    let mut opened = handshake(&client, &server);
    let read = hex("25609513 0000 0000 1122334455667788 0000000000001000 00000200");
    let cookie = cookie(&mut opened, &read);
    let ok = hex("67446698 00000000 1122334455667788");
    assert_eq!(opened.replies.read(cookie, 4096, 512).as_slice(), ok);
    assert_eq!(opened.replies.done(cookie).as_slice(), ok);
    let error = opened.replies.error(cookie, ErrorCode::Io, "the disk has failed");
    assert_eq!(error.as_slice(), hex("67446698 00000005 1122334455667788"));
}

/// What qemu and libnbd do: structured replies, a context, and GO.
#[test]
fn a_session_with_structured_replies() {
    let client = hex("00000003
         49484156454f5054 00000008 00000000                     | STRUCTURED_REPLY
         49484156454f5054 0000000a 0000001e                     | SET_META_CONTEXT
         00000003 6f6464 00000001
         0000000f 626173653a616c6c6f636174696f6e
         49484156454f5054 00000007 0000000d                     | GO
         00000003 6f6464 0002 0001 0003");
    let server = hex("4e42444d41474943 49484156454f5054 0003
         0003e889045565a9 00000008 00000001 00000000            | ACK
         0003e889045565a9 0000000a 00000004 00000013            | META_CONTEXT
         00000001 626173653a616c6c6f636174696f6e
         0003e889045565a9 0000000a 00000001 00000000            | ACK
         0003e889045565a9 00000007 00000003 0000000c            | INFO: export
         0000 0000000000028000 0ced
         0003e889045565a9 00000007 00000003 00000005            | INFO: name
         0001 6f6464
         0003e889045565a9 00000007 00000003 0000000e            | INFO: block sizes
         0003 00001000 00002000 00010000
         0003e889045565a9 00000007 00000001 00000000            | ACK");
    let mut opened = handshake(&client, &server);
    let status = hex("25609513 0008 0007 00000000000000ff 0000000000001000 00002000");
    let cookie = cookie(&mut opened, &status);
    let mut reply = Vec::new();
    let extents = [(4096, true), (4096, false)].map(|(bytes, zero)| Extent { bytes, hole: false, zero });
    opened.replies.block_status(cookie, (8192, false), extents, &mut reply);
    let expected = hex("668e33ef 0001 0005 00000000000000ff 00000014
         00000001 00001000 00000002 00001000 00000000");
    assert_eq!(reply, expected);
    let read = hex("668e33ef 0001 0001 00000000000000ff 00001008 0000000000002000");
    assert_eq!(opened.replies.read(cookie, 8192, 4096).as_slice(), read);
    let error = hex("668e33ef 0001 8001 00000000000000ff 00000009 0000006c 0003 627965");
    assert_eq!(opened.replies.error(cookie, ErrorCode::Shutdown, "bye").as_slice(), error);
}
