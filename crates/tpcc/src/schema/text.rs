//! Text columns.
//!
//! Invariant: text is padded with zero bytes, so a row has a fixed size, and shorter text sorts first.

use std::fmt;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Text of at most `N` bytes, padded with zero bytes.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(transparent)]
pub struct Text<const N: usize>([u8; N]);

impl<const N: usize> Text<N> {
    /// The text, truncated to `N` bytes.
    pub fn new(text: &[u8]) -> Self {
        let mut bytes = [0; N];
        let length = text.len().min(N);
        bytes[..length].copy_from_slice(&text[..length]);
        Self(bytes)
    }

    /// The text without its padding.
    pub fn as_bytes(&self) -> &[u8] {
        let length = self.0.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        &self.0[..length]
    }

    /// The first `length` bytes, for writes; the other bytes become padding.
    pub(crate) fn reserve(&mut self, length: usize) -> &mut [u8] {
        self.0[length..].fill(0);
        &mut self.0[..length]
    }

    /// Inserts `prefix` before the text and truncates to `N` bytes.
    pub fn prepend(&mut self, prefix: &[u8]) {
        let length = prefix.len().min(N);
        self.0.copy_within(..N - length, length);
        self.0[..length].copy_from_slice(&prefix[..length]);
    }

    /// Whether the text contains `word` (not empty).
    pub fn contains(&self, word: &[u8]) -> bool {
        self.as_bytes().windows(word.len()).any(|window| window == word)
    }
}

impl<const N: usize> Default for Text<N> {
    fn default() -> Self {
        Self([0; N])
    }
}

impl<const N: usize> fmt::Display for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", String::from_utf8_lossy(self.as_bytes()))
    }
}

impl<const N: usize> fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(self.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_pads_cuts_and_prepends() {
        let mut text = Text::<6>::new(b"abc");
        assert_eq!(text.as_bytes(), b"abc");
        text.prepend(b"12");
        assert_eq!(text.as_bytes(), b"12abc");
        text.prepend(b"xyz");
        assert_eq!(text.as_bytes(), b"xyz12a");
        text.prepend(b"0123456789");
        assert_eq!(text.as_bytes(), b"012345");
        text.reserve(2).copy_from_slice(b"ok");
        assert_eq!(text, Text::new(b"ok"));
        assert_eq!(Text::<2>::new(b"long").as_bytes(), b"lo");
    }

    #[test]
    fn text_finds_words() {
        let text = Text::<20>::new(b"an ORIGINAL thing");
        assert!(text.contains(b"ORIGINAL"));
        assert!(!text.contains(b"ORIGINALS"));
        assert!(!Text::<20>::default().contains(b"ORIGINAL"));
    }
}
