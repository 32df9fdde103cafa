//! Names of objects: what a cache and the database above call the same files. (`entresol-objects` has their
//! table.)

use entresol_objects::{Locator, ObjectId};

/// What the objects of a cache are called. Numbers are the cache's own; a home is found by the name, which
/// the database knows, too.
pub trait Names: Send + Sync {
    /// The name of a live object. `None`: it was retired, and its pages are dead.
    fn locator(&self, object: ObjectId) -> Option<Locator>;
}

/// The names of a cache without objects.
pub(crate) struct NoNames;

impl Names for NoNames {
    fn locator(&self, _: ObjectId) -> Option<Locator> {
        None
    }
}
