//! The buffer pool above a tier.

use crate::api::Upstream;
use entresol_runtime::sync::{Rank, TinyMutex};
use std::sync::{Arc, Weak};

/// The buffer pool above, once it is attached.
pub(crate) struct Above(TinyMutex<Option<Weak<dyn Upstream>>>);

impl Default for Above {
    fn default() -> Self {
        Self(TinyMutex::new(Rank::Upstream, None))
    }
}

impl Above {
    pub(crate) fn attach(&self, upstream: Weak<dyn Upstream>) {
        *self.0.lock() = Some(upstream);
    }

    pub(crate) fn get(&self) -> Option<Arc<dyn Upstream>> {
        self.0.lock().as_ref().and_then(Weak::upgrade)
    }
}
