//! Arbitrary clients: the server does the same however their bytes are split, does what a naive model says,
//! never panics, and never needs more memory than it states.

mod support;

use entresol_nbd::{Closed, Event, Exports, Handshake, OPTION_BYTES_MAX, OPTIONS_MAX};
use entresol_runtime::rng::Rng;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::collections::BTreeSet;
use support::{FIXED, NO_ZEROES, Transcript, drive, exports, flags, info, meta, option, request};

/// An option, a name, and twice the longest replies to an option: those to LIST, or to INFO.
fn heap_bytes_max(exports: &Exports) -> usize {
    let all = exports.as_slice();
    let list = all.iter().map(|export| 24 + export.name.len()).sum::<usize>() + 20;
    let name = all.iter().map(|export| export.name.len()).max().unwrap_or_default();
    let description = all.iter().map(|export| export.description.len()).max().unwrap_or_default();
    OPTION_BYTES_MAX + name + 2 * list.max(130 + name + description)
}

fn watched(input: &[u8], piece: impl FnMut() -> usize) -> Transcript {
    let exports = exports();
    let heap_bytes_max = heap_bytes_max(&exports);
    let watch = |handshake: &Handshake| assert!(handshake.heap_bytes() <= heap_bytes_max);
    drive(input, &exports, piece, watch)
}

const NAMES: [&str; 6] = ["disk", "archive", "odd", "", "nothing", "d\0sk"];

fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&NAMES[..])
}

fn query() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&["base:allocation", "base:", "x-a:b", "nothing", ""][..])
}

fn handshake_message() -> impl Strategy<Value = Vec<u8>> {
    let data = prop::collection::vec(any::<u8>(), 0..80);
    let long = (0..OPTION_BYTES_MAX + 100).prop_map(|length| vec![0; length]);
    prop_oneof![
        4 => (6..8_u32, name(), prop::collection::vec(0..6_u16, 0..5))
            .prop_map(|(number, name, infos)| info(number, name, &infos)),
        4 => (9..11_u32, name(), prop::collection::vec(query(), 0..4))
            .prop_map(|(number, name, queries)| meta(number, name, &queries)),
        4 => Just(option(8, &[])),
        1 => name().prop_map(|name| option(1, name.as_bytes())),
        4 => (0..13_u32, data).prop_map(|(number, data)| option(number, &data)),
        1 => (3..13_u32, long).prop_map(|(number, data)| option(number, &data)),
        1 => Just(option(2, &[])),
    ]
}

fn offset() -> impl Strategy<Value = u64> {
    let special = prop::sample::select(
        &[0, 512, 4096, 5, 1 << 20, (1 << 20) - 512, 40 << 12, 64 << 20, 1 << 63, u64::MAX][..],
    );
    prop_oneof![special, (0..3000_u64).prop_map(|at| at * 512)]
}

fn length() -> impl Strategy<Value = u32> {
    let special = prop::sample::select(&[0, 1, 512, 513, 4096, 64 << 10, 1 << 20, 32 << 20, 64 << 20][..]);
    prop_oneof![special, (0..100_u32).prop_map(|at| at * 512)]
}

/// Command, flags, cookie, offset and length.
fn asked() -> impl Strategy<Value = (u16, u16, u64, u64, u32)> {
    let flags = prop_oneof![3 => Just(0), 2 => (0..6_u16).prop_map(|bit| 1_u16 << bit), 1 => any::<u16>()];
    (0..9_u16, flags, any::<u64>(), offset(), length())
}

/// Payloads are cut short, so that the end of a stream may be in the middle of one.
fn transmission_message() -> impl Strategy<Value = Vec<u8>> {
    asked().prop_map(|(command, flags, cookie, offset, length)| {
        let mut bytes = request(command, flags, cookie, offset, length);
        if command == 1 {
            bytes.resize(bytes.len() + (length as usize).min(100_000), 0x25);
        }
        bytes
    })
}

fn client() -> impl Strategy<Value = Vec<u8>> {
    let client_flags = prop_oneof![8 => Just(FIXED | NO_ZEROES), 1 => 0..5_u32];
    let garbage = prop_oneof![4 => Just(Vec::new()), 1 => prop::collection::vec(any::<u8>(), 0..60)];
    let messages = (
        prop::collection::vec(handshake_message(), 0..6),
        prop::bool::weighted(0.8),
        prop::collection::vec(transmission_message(), 0..8),
    );
    let messages = (messages, prop::sample::select(&["disk", "archive", "odd"][..]));
    (client_flags, messages, garbage).prop_map(|(client, (messages, exported), garbage)| {
        let (mut options, opens, requests) = messages;
        if opens {
            options.push(support::go(exported));
        }
        [vec![flags(client)], options, requests, vec![garbage]].concat().concat()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5000))]

    #[test]
    fn splits_make_no_difference(input in client(), seed in any::<u64>(), longest in 1..2000_u64) {
        let whole = watched(&input, || input.len());
        let mut rng = Rng::new(seed);
        let split = watched(&input, || 1 + rng.below(longest) as usize);
        prop_assert_eq!(&whole, &split);
        if input.len() < 1000 {
            prop_assert_eq!(&whole, &watched(&input, || 1));
        }
    }

    #[test]
    fn any_bytes_are_survived(input in prop::collection::vec(any::<u8>(), 0..3000)) {
        let greeted = [flags(FIXED), input.clone()].concat();
        let open = [flags(FIXED), option(8, &[]), support::go("odd"), input.clone()].concat();
        for input in [input, greeted, open] {
            watched(&input, || input.len());
        }
    }

    #[test]
    fn requests_are_admitted_as_the_model_says(
        asked in asked(), export in 0..3_usize, structured in any::<bool>(), context in any::<bool>(),
    ) {
        let (command, flags, cookie, offset, length) = asked;
        prop_assume!(command != 2);
        let name = NAMES[export];
        let mut input = support::flags(FIXED);
        if structured {
            input.extend(option(8, &[]));
        }
        let query: &[&str] = if context { &["base:allocation"] } else { &[] };
        input.extend(meta(10, name, query));
        input.extend(support::go(name));
        input.extend(request(command, flags, cookie, offset, length));
        let transcript = watched(&input, || input.len());
        prop_assert_eq!(transcript.export, Some(export));
        let found = match &transcript.events[..] {
            [Event::Request(request)] => { prop_assert_eq!(request.cookie.0, cookie.to_be_bytes()); 0 }
            [Event::Refused(refused)] => {
                prop_assert_eq!(refused.cookie.0, cookie.to_be_bytes());
                refused.error as u32
            }
            other => return Err(TestCaseError::fail(format!("{other:?}"))),
        };
        let expected = model(export, structured, structured && context, asked);
        prop_assert_eq!(found, expected);
    }
}

/// The error that the specification wants; 0: none.
fn model(
    export: usize,
    structured: bool,
    context: bool,
    (command, flags, _, offset, length): (u16, u16, u64, u64, u32),
) -> u32 {
    let (size, minimum, maximum) =
        [(1 << 20, 512, 32 << 20), (64 << 20, 512, 32 << 20), (40 << 12, 4096, 64 << 10)][export];
    if command > 7 {
        return 22;
    }
    for bit in 0..16 {
        let offered = match bit {
            0 => true,
            1 => command == 6,
            2 => command == 0 && structured,
            3 => command == 7,
            4 => command == 6 && export == 2,
            _ => false,
        };
        if flags >> bit & 1 == 1 && !offered {
            return 22;
        }
    }
    if export == 1 && [1, 4, 6].contains(&command) {
        return 1;
    }
    if command == 3 {
        return if offset == 0 && length == 0 { 0 } else { 22 };
    }
    if command == 7 && !context {
        return 22;
    }
    if length == 0 || offset % minimum != 0 || u64::from(length) % minimum != 0 {
        return 22;
    }
    if command < 2 && length > maximum {
        return if flags & 4 != 0 { 75 } else { 22 };
    }
    if u128::from(offset) + u128::from(length) > size {
        return if [1, 6].contains(&command) { 28 } else { 22 };
    }
    0
}

/// The clients of the tests above get to where the server decides.
#[test]
fn clients_reach_every_end_and_many_errors() {
    let mut runner = TestRunner::deterministic();
    let (mut ends, mut errors, mut payloads, mut opened) = (BTreeSet::new(), BTreeSet::new(), 0, 0);
    for _ in 0..5000 {
        let input = client().new_tree(&mut runner).unwrap().current();
        let transcript = watched(&input, || input.len());
        ends.extend(transcript.closed.map(|closed| end(&closed)));
        opened += u32::from(transcript.export.is_some());
        payloads += transcript.payloads.len();
        for event in transcript.events {
            match event {
                Event::Refused(refused) => drop(errors.insert(refused.error as u32)),
                Event::Closed(closed) => drop(ends.insert(end(&closed))),
                Event::Request(_) => {}
            }
        }
    }
    let expected = ["Aborted", "ClientFlags", "Disconnected", "NoExport", "NotFixed", "OptionMagic"];
    let expected = expected.iter().chain(&["RequestMagic"]).map(|name| (*name).to_owned());
    assert_eq!(ends, expected.collect());
    assert_eq!(errors, BTreeSet::from([1, 22, 28, 75]));
    assert!(opened > 2000 && payloads > 1 << 20, "{opened} sessions opened, {payloads} bytes written");
}

/// Its name without its fields.
fn end(closed: &Closed) -> String {
    format!("{closed:?}").chars().take_while(|letter| letter.is_alphanumeric()).collect()
}

#[test]
fn long_options_cost_no_memory() {
    for number in 3..14_u32 {
        for length in [OPTION_BYTES_MAX as u32, OPTION_BYTES_MAX as u32 + 1, u32::MAX] {
            let mut input = flags(FIXED);
            input.extend(option(number, &[])[..12].iter());
            input.extend(length.to_be_bytes());
            input.resize(input.len() + (1 << 20), 1);
            watched(&input, || 5000);
        }
    }
}

#[test]
fn replies_do_not_pile_up() {
    let input = [flags(FIXED), option(3, &[]).repeat(2 * OPTIONS_MAX as usize)].concat();
    let transcript = watched(&input, || input.len());
    assert_eq!(transcript.closed, Some(Closed::TooManyOptions));
    let list = support::Server::usual().talk(&option(3, &[])).len();
    assert_eq!(transcript.output.len(), 18 + OPTIONS_MAX as usize * list);
    assert_eq!(transcript.left, (OPTIONS_MAX as usize - 1) * 16);
}
