//! Random text (clause 4.3.2.2) and last names (clause 4.3.2.3).
//!
//! A table of 256 entries maps one random word to eight characters. So some characters of an alphabet are
//! more frequent than others, by one part in 256. Nothing depends on that.

use super::Random;
use crate::schema::{Address, Text};

const LETTERS_AND_DIGITS: [u8; 256] =
    alphabet(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");
const DIGITS: [u8; 256] = alphabet(b"0123456789");
const LETTERS: [u8; 256] = alphabet(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ");

/// The word in one tenth of the rows of ITEM and STOCK.
pub(crate) const ORIGINAL: &[u8; 8] = b"ORIGINAL";

const fn alphabet(characters: &[u8]) -> [u8; 256] {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        table[at] = characters[at % characters.len()];
        at += 1;
    }
    table
}

impl Random {
    fn fill(&mut self, alphabet: &[u8; 256], out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            let word = self.bits().to_le_bytes();
            for (character, byte) in chunk.iter_mut().zip(word) {
                *character = alphabet[usize::from(byte)];
            }
        }
    }

    /// An a-string of `low ..= N` letters and digits.
    pub(crate) fn a_string<const N: usize>(&mut self, low: u32, out: &mut Text<N>) {
        let length = self.uniform(low, N as u32) as usize;
        self.fill(&LETTERS_AND_DIGITS, out.reserve(length));
    }

    /// An n-string of `N` digits.
    pub(crate) fn n_string<const N: usize>(&mut self, out: &mut Text<N>) {
        self.fill(&DIGITS, out.reserve(N));
    }

    /// An a-string of `low ..= N` characters. In one case of ten it contains "ORIGINAL" at a random position
    /// (clause 4.3.3.1).
    pub(crate) fn item_data<const N: usize>(&mut self, low: u32, out: &mut Text<N>) {
        let length = self.uniform(low, N as u32);
        let text = out.reserve(length as usize);
        self.fill(&LETTERS_AND_DIGITS, text);
        if self.percent(10) {
            let at = self.uniform(0, length - ORIGINAL.len() as u32) as usize;
            text[at..at + ORIGINAL.len()].copy_from_slice(ORIGINAL);
        }
    }

    /// Two streets, a city, a state and a zip code (clause 4.3.2.7).
    pub(crate) fn address(&mut self, out: &mut Address) {
        self.a_string(10, &mut out.street_1);
        self.a_string(10, &mut out.street_2);
        self.a_string(10, &mut out.city);
        self.fill(&LETTERS, out.state.reserve(2));
        let zip = out.zip.reserve(9);
        self.fill(&DIGITS, &mut zip[..4]);
        zip[4..].copy_from_slice(b"11111");
    }
}

/// The last name with this number, `0 ..= 999`: a syllable for each digit (clause 4.3.2.3).
pub fn last_name(number: u32) -> Text<16> {
    const SYLLABLES: [&[u8]; 10] =
        [b"BAR", b"OUGHT", b"ABLE", b"PRI", b"PRES", b"ESE", b"ANTI", b"CALLY", b"ATION", b"EING"];
    debug_assert!(number < 1_000, "last names are numbered 0 ..= 999, not {number}");
    let mut name = [0; 16];
    let mut length = 0;
    for digit in [number / 100, number / 10 % 10, number % 10] {
        let syllable = SYLLABLES[digit as usize];
        name[length..length + syllable.len()].copy_from_slice(syllable);
        length += syllable.len();
    }
    Text::new(&name[..length])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Purpose, Seed};

    #[test]
    fn last_names_are_the_specification_s() {
        assert_eq!(last_name(371).as_bytes(), b"PRICALLYOUGHT");
        assert_eq!(last_name(40).as_bytes(), b"BARPRESBAR");
        let mut names: Vec<_> = (0..1_000).map(last_name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 1_000);
    }

    #[test]
    fn strings_have_their_lengths_and_characters() {
        let mut random = Random::stream(Seed(5), Purpose::Items, 0, 0);
        let (mut shortest, mut longest, mut originals) = (usize::MAX, 0, 0);
        for _ in 0..5_000 {
            let mut text = Text::<50>::new(&[b'x'; 50]);
            random.item_data(26, &mut text);
            shortest = shortest.min(text.as_bytes().len());
            longest = longest.max(text.as_bytes().len());
            originals += usize::from(text.contains(ORIGINAL));
            assert!(text.as_bytes().iter().all(u8::is_ascii_alphanumeric));
        }
        assert_eq!((shortest, longest), (26, 50));
        assert!((400..600).contains(&originals), "{originals} of 5,000 are original");

        let mut address = Address::default();
        random.address(&mut address);
        assert!(address.state.as_bytes().iter().all(u8::is_ascii_uppercase));
        assert_eq!(address.zip.as_bytes().len(), 9);
        assert!(address.zip.as_bytes()[..4].iter().all(u8::is_ascii_digit));
        assert_eq!(&address.zip.as_bytes()[4..], b"11111");
    }
}
