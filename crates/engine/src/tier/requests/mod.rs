//! Requests of users that [`Access`](crate::access) cannot answer alone: they need the disk, or the order of
//! writes.
//!
//! | file | what it does |
//! |---|---|
//! | `reads` | fetches, and runs of adjacent pages |
//! | `writes` | evictions, and runs of adjacent pages |
//! | `way` | the way of an evicted page, as a table |

pub(crate) mod reads;
pub(crate) mod way;
pub(crate) mod writes;
