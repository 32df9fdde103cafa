//! After the handshake, requests and replies allocate nothing.

mod support;

use entresol_nbd::{Cookie, ErrorCode, Event, Requests, Wanted};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use support::{Server, request};

thread_local! {
    /// Allocations of this thread.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, which counts.
struct Counting;

#[allow(unsafe_code)]
// SAFETY: everything is the system's allocator's. Counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Takes all of `stream`, and counts requests and refusals.
fn take(requests: &mut Requests, mut stream: &[u8], piece: usize) -> (u32, u32) {
    let mut counts = (0, 0);
    while !stream.is_empty() {
        let bytes = &stream[..piece.min(stream.len())];
        let consumed = if let Wanted::Payload(wanted) = requests.wanted() {
            let taken = wanted.min(bytes.len());
            requests.payload_taken(taken);
            taken
        } else {
            let (consumed, event) = requests.receive(bytes);
            match event {
                Some(Event::Request(_)) => counts.0 += 1,
                Some(Event::Refused(_)) => counts.1 += 1,
                _ => {}
            }
            consumed
        };
        assert!(consumed > 0, "the stream has ended early");
        stream = &stream[consumed..];
    }
    counts
}

#[test]
fn the_transmission_allocates_nothing() {
    let mut opened = Server::structured("disk");
    let simple = Server::simple("disk").replies;
    let write = [request(1, 1, 2, 512, 4096), vec![7; 4096]].concat();
    let refused = [request(1, 0, 3, 1 << 40, 4096), vec![7; 4096]].concat();
    let stream = [request(0, 0, 1, 0, 4096), write, refused, request(3, 0, 4, 0, 0)].concat();
    let text = "x".repeat(1000);
    let before = ALLOCATIONS.get();
    for piece in [1, 27, 28, 100, stream.len()] {
        assert_eq!(take(&mut opened.requests, &stream, piece), (3, 1));
    }
    for replies in [opened.replies, simple] {
        let cookie = Cookie([1; 8]);
        assert_eq!(replies.done(cookie).len(), 16);
        assert!(replies.read(cookie, 0, 4096).len() >= 16);
        assert!(replies.error(cookie, ErrorCode::Io, &text).len() >= 16);
    }
    assert_eq!(ALLOCATIONS.get(), before);
    assert_eq!(text.clone().len(), 1000);
    assert_eq!(ALLOCATIONS.get(), before + 1, "the allocator counts");
}
