//! The life of a tier: how it is opened, closed, and released from its disk.
//!
//! | file | what it does |
//! |---|---|
//! | `plan` | what an open does, decided without reading or writing |
//! | `open`, `open_failed` | creating and opening; opening after the flash has failed |
//! | `assembly` | putting the parts together |
//! | `close` | the last checkpoint |
//! | `detach`, `release` | releasing the disk: of an open tier, and of one that is not open |
//! | `loss` | pages that would be lost with that |

pub(crate) mod assembly;
pub(crate) mod close;
pub(crate) mod detach;
pub(crate) mod loss;
pub(crate) mod open;
pub(crate) mod open_failed;
mod plan;
pub(crate) mod release;
