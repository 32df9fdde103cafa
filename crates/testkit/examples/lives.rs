//! The lives of one cache of raw pages, as a violation names it: to repeat it under a debugger.
//!
//! ```text
//! lives "face write-back raw behind the door, 4 pages in one" SEED
//! ```

use entresol_testkit::raw::{CACHES, Examined, lives};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (name, seed) = (arguments.next().unwrap_or_default(), arguments.next().unwrap_or_default());
    let cache = CACHES.into_iter().find(|cache| cache.to_string() == name).expect("no cache has this name");
    let seed = seed.parse().expect("the seed is a number");
    println!("{:?}", lives(cache, seed, Examined::Moments));
}
