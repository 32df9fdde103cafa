//! Which requests of a connection belong to a long sequential stream.
//!
//! As bcache does it (`check_should_bypass` in drivers/md/bcache/request.c): the ends of the last streams are
//! kept; a request that begins where one of them ended continues it; when a stream has become long, its
//! requests bypass the cache. Reads and writes have streams of their own.
//!
//! One deviation: a request may begin a little after the end. A client with several connections spreads one
//! stream over them, so each sees it with gaps.

use std::time::Duration;

/// Streams that are followed.
const STREAMS: usize = 32;
/// Largest gap within a stream, in bytes.
const GAP_BYTES: u64 = 256 << 10;
/// A stream without a request for so long is over.
const IDLE_MAX: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    /// The byte after its last request.
    end: u64,
    /// Bytes of its requests so far. 0: there is none here.
    bytes: u64,
    writes: bool,
    /// When its last request came, in nanoseconds.
    at: u64,
}

/// See the module's header.
#[derive(Debug, Default)]
pub struct Streams([Stream; STREAMS]);

impl Streams {
    /// A read or write of `length` bytes at `offset` arrives at the time `now`, counted from any moment.
    /// Returns the bytes of its stream so far, these included.
    pub fn follow(&mut self, writes: bool, offset: u64, length: u64, now: Duration) -> u64 {
        let (end, at) = (offset.saturating_add(length), now.as_nanos() as u64);
        let idle_max = IDLE_MAX.as_nanos() as u64;
        // What most streams fail is asked first: this runs with each request.
        let continues = |stream: &&mut Stream| {
            offset.wrapping_sub(stream.end) <= GAP_BYTES
                && stream.bytes > 0
                && stream.writes == writes
                && at.saturating_sub(stream.at) <= idle_max
        };
        if let Some(stream) = self.0.iter_mut().filter(continues).min_by_key(|stream| offset - stream.end) {
            *stream = Stream { end, bytes: stream.bytes.saturating_add(length), writes, at };
            return stream.bytes;
        }
        // In place of the one that has been silent longest.
        let oldest = self.0.iter_mut().min_by_key(|stream| if stream.bytes > 0 { stream.at + 1 } else { 0 });
        *oldest.expect("there are streams") = Stream { end, bytes: length, writes, at };
        length
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use entresol_runtime::rng::Rng;

    const LIMIT: u64 = 4 << 20;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_stream_grows_request_by_request() {
        let mut streams = Streams::default();
        let lengths = (0..100u64).map(|at| streams.follow(false, at * 65_536, 65_536, ms(at)));
        assert!(lengths.enumerate().all(|(at, bytes)| bytes == (at as u64 + 1) * 65_536));
        // A write there is no part of it.
        assert_eq!(streams.follow(true, 100 * 65_536, 512, ms(100)), 512);
        // Nor is a request much later.
        assert_eq!(streams.follow(false, 100 * 65_536, 512, ms(6_000)), 512);
    }

    #[test]
    fn streams_side_by_side_are_told_apart() {
        let mut streams = Streams::default();
        for at in 0..64u64 {
            for one in 0..16u64 {
                let bytes = streams.follow(false, (one << 40) + at * 65_536, 65_536, ms(at));
                assert_eq!(bytes, (at + 1) * 65_536);
            }
        }
    }

    /// Of four connections, each sees every fourth request.
    #[test]
    fn a_stream_over_several_connections_is_found_by_each() {
        let mut all: [Streams; 4] = Default::default();
        let mut last = [0; 4];
        for at in 0..200u64 {
            let by = (at % 4) as usize;
            last[by] = all[by].follow(false, at * 65_536, 65_536, ms(at));
        }
        assert!(last.iter().all(|bytes| *bytes == 50 * 65_536), "{last:?}");
    }

    #[test]
    fn random_requests_are_no_stream() {
        let (mut streams, mut rng) = (Streams::default(), Rng::new(1));
        let longest = (0..200_000u64).map(|at| {
            // Of a small volume, which has the most accidents.
            let page = rng.below((64 << 20) / 4096);
            streams.follow(rng.below(2) == 0, page * 4096, 4096, Duration::from_micros(at * 100))
        });
        assert!(longest.max().unwrap() < LIMIT / 8);
        let again = (0..10_000).map(|at| streams.follow(false, 1 << 50, 4096, ms(at)));
        assert_eq!(again.max(), Some(4096));
    }
}
