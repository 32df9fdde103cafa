//! What all work on trees stands on.

use super::descend::Descent;
use crate::allocate::Allocator;
use crate::disk_room::DiskRoom;
use crate::log_room::LogRoom;
use crate::mtr::Mtrs;
use crate::pool::Pool;
use crate::space::Space;
use std::sync::Arc;

/// See the module's header.
#[derive(Clone)]
pub(crate) struct Ground {
    pub pool: Arc<Pool>,
    pub mtrs: Mtrs,
    pub space: Arc<Space>,
    pub disk_room: Arc<DiskRoom>,
    pub log_room: Arc<LogRoom>,
    pub allocator: Arc<Allocator>,
    pub descent: Descent,
    pub page_bytes: usize,
}
