//! In place of `ublk`, where the server is built without the feature of that name.

use super::{ServerError, Shared, UblkOptions};
use std::sync::Arc;

/// There is none.
pub(super) enum Door {}

impl Door {
    pub fn check() -> Result<(), ServerError> {
        Err(ServerError::Ublk(
            "this program was built without it; build it with `cargo build --release --features ublk`, or serve \
             without --ublk and attach the volume over NBD"
                .to_owned(),
        ))
    }

    pub fn start(_: &Arc<Shared>, _: &UblkOptions) -> Result<Self, ServerError> {
        Err(Self::check().expect_err("it is not there"))
    }

    pub fn path(&self) -> &str {
        match *self {}
    }

    pub fn stop(self) {
        match self {}
    }
}

/// There is none.
pub(super) enum Job {}

impl Job {
    pub fn run(self) {
        match self {}
    }
}
