//! Types that may be in shared memory and be reached by reference.

use crate::atomic::{AtomicU32, AtomicU64};
use crate::{Epoch, Latch};

/// A structure of atomic words. [`shared_struct!`](crate::shared_struct) implements it; nothing else has to.
///
/// There are no plain integers among the words: another process may write at any time, and a plain read would
/// race with it.
///
/// # Safety
/// - Every pattern of `size_of::<Self>()` bytes is a valid value.
/// - Each byte outside padding belongs to an atomic word, so a shared reference may be read and written
///   through by any thread of any process.
/// - It contains no pointer, reference or handle, and nothing depends on its address.
#[allow(unsafe_code)]
pub unsafe trait Shareable: Sync + 'static {
    /// A hash of the names and types inside, by which builds that differ in them refuse each other's
    /// segments.
    const SHAPE: u64;
}

/// The FNV-1a hash of `bytes`, continued from `hash`.
pub(crate) const fn hash_bytes(mut hash: u64, bytes: &[u8]) -> u64 {
    let mut at = 0;
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        at += 1;
    }
    hash
}

/// Where FNV-1a begins.
pub(crate) const HASH_START: u64 = 0xcbf2_9ce4_8422_2325;

pub(crate) const fn hash_word(hash: u64, word: u64) -> u64 {
    hash_bytes(hash, &word.to_le_bytes())
}

/// For [`shared_struct!`](crate::shared_struct): the shape of a structure with these names and shapes.
#[doc(hidden)]
pub const fn shape(names: &[&str], shapes: &[u64]) -> u64 {
    let mut hash = HASH_START;
    let mut at = 0;
    while at < names.len() {
        hash = hash_word(hash_bytes(hash, names[at].as_bytes()), names[at].len() as u64);
        at += 1;
    }
    at = 0;
    while at < shapes.len() {
        hash = hash_word(hash, shapes[at]);
        at += 1;
    }
    hash
}

macro_rules! words {
    ($($word:ty),+) => {$(
        // SAFETY: an atomic word, or a transparent structure of one, for which every value has a meaning.
        #[allow(unsafe_code)]
        unsafe impl Shareable for $word {
            const SHAPE: u64 = shape(&[stringify!($word)], &[]);
        }
    )+};
}

words!(AtomicU32, AtomicU64, Latch, Epoch);

/// The standard library's words, where those of this crate are others: accesses to them are no points.
#[cfg(feature = "shuttle")]
const _: () = {
    words!(std::sync::atomic::AtomicU32, std::sync::atomic::AtomicU64);
};

// SAFETY: as its items, which follow each other without anything in between.
#[allow(unsafe_code)]
unsafe impl<T: Shareable, const N: usize> Shareable for [T; N] {
    const SHAPE: u64 = shape(&["array"], &[T::SHAPE, N as u64]);
}

/// Declares structures of atomic words for a segment. Their layout is C's. A field of another type does not
/// compile.
///
/// ```
/// use entresol_shm::{Epoch, atomic::AtomicU64, shared_struct};
///
/// shared_struct! {
///     /// What all processes count.
///     #[derive(Debug, Default)]
///     pub struct Counters {
///         /// Pages served.
///         pub hits: AtomicU64,
///         /// By kind of failure.
///         pub failures: [AtomicU64; 4],
///         /// Raised after a failure.
///         pub failed: Epoch,
///     }
/// }
/// ```
///
/// ```compile_fail
/// entresol_shm::shared_struct! { pub struct Plain { pub hits: u64 } }
/// ```
///
/// ```compile_fail
/// entresol_shm::shared_struct! { pub struct Pointing { pub hits: Box<entresol_shm::atomic::AtomicU64> } }
/// ```
#[macro_export]
macro_rules! shared_struct {
    ($(
        $(#[$about:meta])*
        $visible:vis struct $name:ident {
            $($(#[$about_field:meta])* $visible_field:vis $field:ident: $type:ty),+ $(,)?
        }
    )+) => {$(
        $(#[$about])*
        #[repr(C)]
        $visible struct $name {
            $($(#[$about_field])* $visible_field $field: $type),+
        }

        // SAFETY: the structure has C's layout, and every field is shareable: its shape is asked for here.
        unsafe impl $crate::Shareable for $name {
            const SHAPE: u64 = $crate::shape(
                &[stringify!($name), $(stringify!($field)),+],
                &[$(<$type as $crate::Shareable>::SHAPE),+],
            );
        }
    )+};
}
