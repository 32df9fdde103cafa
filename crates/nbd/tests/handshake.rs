//! Every option, from a client that knows the specification and from some that do not.

mod support;

use entresol_nbd::{Closed, OPTION_BYTES_MAX, OPTIONS_MAX};
use support::{FIXED, NO_ZEROES, OptionReply, Reader, Server, go, info, meta, option, string};

const ACK: u32 = 1;
const UNSUP: u32 = 0x8000_0001;
const INVALID: u32 = 0x8000_0003;
const UNKNOWN: u32 = 0x8000_0006;
const SHUTDOWN: u32 = 0x8000_0007;
const POLICY: u32 = 0x8000_0002;
const TOO_BIG: u32 = 0x8000_0009;

fn ack(option: u32) -> OptionReply {
    OptionReply { option, kind: ACK, data: Vec::new() }
}

/// The only reply's type. An error has a text.
fn kind(replies: &[OptionReply]) -> u32 {
    let [reply] = replies else { panic!("one reply expected: {replies:?}") };
    let error = reply.kind & 1 << 31 != 0;
    assert_eq!(error, !reply.data.is_empty(), "{reply:?}");
    assert!(!error || std::str::from_utf8(&reply.data).is_ok());
    reply.kind
}

fn refused(option: &[u8]) -> u32 {
    let mut server = Server::usual();
    let kind = kind(&server.ask(option));
    // The handshake goes on.
    assert_eq!(server.ask(&support::option(8, &[])), [ack(8)]);
    kind
}

#[test]
fn list_names_all_exports() {
    let mut server = Server::usual();
    let replies = server.ask(&option(3, &[]));
    let server_reply = |name| OptionReply { option: 3, kind: 2, data: string(name) };
    let expected = [server_reply("disk"), server_reply("archive"), server_reply("odd"), ack(3)];
    assert_eq!(replies, expected);
    assert_eq!(refused(&option(3, b"x")), INVALID);
}

/// Information by its number.
fn told(replies: &[OptionReply], option: u32) -> Vec<(u64, Vec<u8>)> {
    let (last, infos) = replies.split_last().unwrap();
    assert_eq!(*last, ack(option));
    let info = |reply: &OptionReply| {
        assert_eq!((reply.option, reply.kind), (option, 3));
        let mut reader = Reader(&reply.data);
        (reader.number(2), reader.0.to_vec())
    };
    infos.iter().map(info).collect()
}

#[test]
fn info_tells_size_flags_and_block_sizes_and_goes_on() {
    let mut server = Server::usual();
    let infos = told(&server.ask(&info(6, "disk", &[3])), 6);
    let size = b"\x00\x00\x00\x00\x00\x10\x00\x00\x05\x6d".to_vec();
    let blocks = b"\x00\x00\x02\x00\x00\x00\x10\x00\x02\x00\x00\x00".to_vec();
    assert_eq!(infos, [(0, size), (3, blocks)]);
    assert!(server.opened.is_none());
    let infos = told(&server.ask(&info(6, "odd", &[0, 1, 2, 3, 3, 1, 99])), 6);
    let size = b"\x00\x00\x00\x00\x00\x02\x80\x00\x0c\x6d".to_vec();
    let blocks = b"\x00\x00\x10\x00\x00\x00\x20\x00\x00\x01\x00\x00".to_vec();
    assert_eq!(infos, [(0, size), (1, b"odd".to_vec()), (3, blocks)]);
    let infos = told(&server.ask(&info(6, "disk", &[2])), 6);
    assert_eq!(infos[1], (2, b"a volume".to_vec()));
}

#[test]
fn info_tells_the_name_of_the_default_export() {
    let infos = told(&Server::usual().ask(&info(6, "", &[1])), 6);
    assert_eq!(infos[1], (1, b"disk".to_vec()));
}

#[test]
fn go_opens_and_flags_follow_what_was_negotiated() {
    let mut server = Server::usual();
    let flags = |replies: &[OptionReply], option| told(replies, option)[0].1[8..].to_vec();
    // Read-only and rotational; no trim, no zeros.
    assert_eq!(flags(&server.ask(&info(6, "archive", &[])), 6), [0x05, 0x1f]);
    assert_eq!(server.ask(&option(8, &[])), [ack(8)]);
    // With structured replies: "don't fragment", too.
    assert_eq!(flags(&server.ask(&go("archive")), 7), [0x05, 0x9f]);
    let opened = server.opened.unwrap();
    assert_eq!(opened.export, 1);
    assert!(opened.replies.is_structured());
    assert!(!Server::simple("odd").replies.is_structured());
}

#[test]
fn impossible_info_and_go_are_refused() {
    for number in [6, 7] {
        assert_eq!(refused(&info(number, "nothing", &[])), UNKNOWN);
        assert_eq!(refused(&option(number, &[])), INVALID);
        assert_eq!(refused(&option(number, &string("disk"))), INVALID);
        assert_eq!(refused(&option(number, b"\xff\xff\xff\xff\x00\x00")), INVALID);
        assert_eq!(refused(&option(number, b"\x00\x00\x00\x02\xff\xff\x00\x00")), INVALID);
        assert_eq!(refused(&info(number, "di\0sk", &[])), INVALID);
        assert_eq!(refused(&info(number, &"x".repeat(4097), &[])), INVALID);
        assert_eq!(refused(&info(number, &"x".repeat(4096), &[])), UNKNOWN);
        let mut longer = string("disk");
        longer.extend([0, 0, 0]);
        assert_eq!(refused(&option(number, &longer)), INVALID);
        let mut shorter = string("disk");
        shorter.extend([0, 2, 0, 1]);
        assert_eq!(refused(&option(number, &shorter)), INVALID);
        assert_eq!(refused(&option(number, &vec![0; OPTION_BYTES_MAX + 1])), TOO_BIG);
    }
}

#[test]
fn export_name_opens_without_reply_head() {
    let reply = b"\x00\x00\x00\x00\x00\x10\x00\x00\x05\x6d".to_vec();
    let zeros = [reply.clone(), vec![0; 124]].concat();
    for (client, expected) in [(FIXED | NO_ZEROES, &reply), (FIXED, &zeros), (0, &zeros)] {
        let mut server = Server::greeted(client);
        assert_eq!(server.talk(&option(1, b"disk")), *expected);
        assert_eq!(server.opened.unwrap().export, 0);
    }
    let mut server = Server::usual();
    server.talk(&option(1, b""));
    assert_eq!(server.opened.unwrap().export, 0);
}

#[test]
fn export_name_without_such_an_export_ends_the_session() {
    for name in ["nothing", "\0", &"x".repeat(4096)] {
        let mut server = Server::usual();
        assert_eq!(server.talk(&option(1, name.as_bytes())), []);
        assert_eq!(server.closed, Some(Closed::NoExport));
    }
    // A name that is too long is not waited for.
    let mut server = Server::usual();
    server.talk(&option(1, &[b'x'; 4097])[..16]);
    assert_eq!(server.closed, Some(Closed::NoExport));
}

#[test]
fn nothing_is_received_while_there_is_output() {
    let mut server = Server::usual();
    let lists = option(3, &[]).repeat(3);
    let (exports, handshake) = (&server.exports, &mut server.handshake);
    assert_eq!(handshake.receive(&lists, exports).0, 16);
    let output = handshake.output().len();
    handshake.sent(output - 1);
    assert_eq!(handshake.receive(&lists[16..], exports).0, 0);
    assert_eq!(handshake.output().len(), 1);
    handshake.sent(1);
    assert_eq!(handshake.receive(&lists[16..], exports).0, 16);
    assert_eq!(handshake.output().len(), output);
}

#[test]
fn abort_is_acknowledged() {
    let mut server = Server::usual();
    assert_eq!(server.ask(&option(2, &[])), [ack(2)]);
    assert_eq!(server.closed, Some(Closed::Aborted));
}

#[test]
fn unknown_options_and_tls_are_refused_and_their_data_is_skipped() {
    for number in [0, 4, 5, 11, 12, u32::MAX] {
        assert_eq!(refused(&option(number, &[])), UNSUP);
        assert_eq!(refused(&option(number, &vec![7; 100_000])), UNSUP);
    }
    assert_eq!(refused(&option(8, b"x")), INVALID);
}

#[test]
fn clients_that_break_the_rules_are_disconnected() {
    let mut server = Server::usual();
    server.talk(b"IHAVEOPS\x00\x00\x00\x03\x00\x00\x00\x00");
    assert_eq!(server.closed, Some(Closed::OptionMagic { found: 0x4948_4156_454f_5053 }));
    let mut server = Server::greeted(4 | FIXED);
    assert_eq!(server.talk(&[]), []);
    assert_eq!(server.closed, Some(Closed::ClientFlags { found: 5 }));
    let mut server = Server::greeted(NO_ZEROES);
    assert_eq!(server.talk(&option(3, &[])), []);
    assert_eq!(server.closed, Some(Closed::NotFixed { option: 3 }));
    let mut server = Server::usual();
    (0..OPTIONS_MAX).for_each(|_| assert_eq!(server.ask(&option(8, &[])), [ack(8)]));
    assert_eq!(server.talk(&option(8, &[])), []);
    assert_eq!(server.closed, Some(Closed::TooManyOptions));
}

fn context(option: u32, id: u8) -> OptionReply {
    let data = [&[0, 0, 0, id][..], b"base:allocation"].concat();
    OptionReply { option, kind: 4, data }
}

#[test]
fn contexts_are_listed() {
    for queries in [&[][..], &["base:"], &["base:allocation"], &["x-y:z", "base:allocation", "base:"]] {
        assert_eq!(Server::usual().ask(&meta(9, "disk", queries)), [context(9, 0), ack(9)]);
    }
    for queries in [&["x-y:"][..], &["base:alloc"], &["base:allocation2"], &[":"]] {
        assert_eq!(Server::usual().ask(&meta(9, "disk", queries)), [ack(9)]);
    }
}

#[test]
fn contexts_are_selected_after_structured_replies() {
    let ask = |queries: &[&str]| {
        let mut server = Server::usual();
        server.talk(&option(8, &[]));
        server.ask(&meta(10, "disk", queries))
    };
    assert_eq!(ask(&["base:allocation"]), [context(10, 1), ack(10)]);
    assert_eq!(ask(&["q:", "base:allocation", "base:allocation"]), [context(10, 1), ack(10)]);
    // A namespace selects nothing.
    assert_eq!(ask(&["base:"]), [ack(10)]);
    assert_eq!(ask(&[]), [ack(10)]);
    assert_eq!(refused(&meta(10, "disk", &["base:allocation"])), INVALID);
}

#[test]
fn impossible_metadata_options_are_refused() {
    for number in [9, 10] {
        let refused = |bytes: &[u8]| {
            let mut server = Server::usual();
            server.talk(&option(8, &[]));
            let kind = kind(&server.ask(bytes));
            assert_eq!(server.ask(&option(8, &[])), [ack(8)]);
            kind
        };
        assert_eq!(refused(&meta(number, "nothing", &[])), UNKNOWN);
        assert_eq!(refused(&option(number, &string("disk"))), INVALID);
        assert_eq!(refused(&meta(number, "disk", &["allocation"])), INVALID);
        assert_eq!(refused(&meta(number, "disk", &[""])), INVALID);
        assert_eq!(refused(&meta(number, "disk", &["b:\0"])), INVALID);
        assert_eq!(refused(&meta(number, "disk", &["b:"; 65])), TOO_BIG);
        let long = format!("b:{}", "x".repeat(4095));
        assert_eq!(refused(&meta(number, "disk", &[&long])), INVALID);
        let mut endless = string("disk");
        endless.extend([0, 0, 0, 9]);
        assert_eq!(refused(&option(number, &endless)), INVALID);
        endless.truncate(8);
        endless.extend([0, 0, 0, 0, 0]);
        assert_eq!(refused(&option(number, &endless)), INVALID);
    }
}

/// Whether a block status is admitted after these options.
fn allocation_after(options: &[Vec<u8>]) -> bool {
    let mut server = Server::usual();
    server.talk(&option(8, &[]));
    options.iter().for_each(|option| drop(server.talk(option)));
    let mut opened = server.opened.unwrap();
    let (_, event) = opened.requests.receive(&support::request(7, 0, 1, 0, 4096));
    matches!(event, Some(entresol_nbd::Event::Request(_)))
}

#[test]
fn a_selection_belongs_to_its_export_and_is_replaced() {
    let set = |name, queries: &[&str]| meta(10, name, queries);
    let all = &["base:allocation"];
    assert!(allocation_after(&[set("disk", all), go("disk")]));
    assert!(allocation_after(&[set("disk", all), option(1, b"disk")]));
    // The default export is the first one.
    assert!(allocation_after(&[set("", all), go("disk")]));
    assert!(!allocation_after(&[go("disk")]));
    assert!(!allocation_after(&[meta(9, "disk", all), go("disk")]));
    assert!(!allocation_after(&[set("odd", all), go("disk")]));
    assert!(!allocation_after(&[set("disk", all), set("disk", &[]), go("disk")]));
    assert!(!allocation_after(&[set("disk", all), set("nothing", all), go("disk")]));
    assert!(!allocation_after(&[set("disk", all), option(10, b"?"), go("disk")]));
    assert!(allocation_after(&[set("odd", all), set("disk", all), go("disk")]));
}

#[test]
fn a_server_that_shuts_down_says_so() {
    let mut server = Server::usual();
    server.handshake.shut_down();
    for option in [go("disk"), option(3, &[]), option(77, b"data"), meta(9, "disk", &[])] {
        assert_eq!(kind(&server.ask(&option)), SHUTDOWN);
    }
    assert_eq!(server.ask(&option(2, &[])), [ack(2)]);
    let mut server = Server::usual();
    server.handshake.shut_down();
    assert_eq!(server.talk(&option(1, b"")), []);
    assert_eq!(server.closed, Some(Closed::ShuttingDown));
}

#[test]
fn a_connection_too_many_is_told() {
    let mut server = Server::usual();
    server.handshake.refuse_connection();
    for option in [go("disk"), option(3, &[]), option(77, b"data"), meta(9, "disk", &[])] {
        assert_eq!(kind(&server.ask(&option)), POLICY);
    }
    assert_eq!(server.ask(&option(2, &[])), [ack(2)]);
    let mut server = Server::usual();
    server.handshake.refuse_connection();
    assert_eq!(server.talk(&option(1, b"")), []);
    assert_eq!(server.closed, Some(Closed::TooManyConnections));
}
