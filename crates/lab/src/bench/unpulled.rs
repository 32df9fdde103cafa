//! A layer whose store refuses to be pulled from: GSC's groups are filled with what DRAM evicts by itself.
//! (FaCE §3.3 says that pulling makes no difference to hits.)
//!
//! Invariant: nothing else differs: every call is passed on.

use entresol_core::{Lsn, PageId};
use entresol_engine::{
    Binding, DurableGroup, Evicted, Fetched, Layer, Materialised, Survivors, TierError, TierMetrics,
    Upstream, Victim,
};
use entresol_format::Uuid;
use entresol_format::label::Session;
use parking_lot::Mutex;
use std::sync::{Arc, Weak};

/// A layer that is refused victims.
pub(super) struct Unpulled {
    layer: Arc<dyn Layer>,
    pool: Mutex<Option<Arc<Refusing>>>,
}

impl Unpulled {
    pub(super) fn new(layer: Arc<dyn Layer>) -> Arc<Self> {
        Arc::new(Self { layer, pool: Mutex::new(None) })
    }
}

/// A buffer pool that gives none of its pages before it must.
struct Refusing(Weak<dyn Upstream>);

impl Upstream for Refusing {
    fn pull_victims(&self, _: usize) -> usize {
        0
    }

    fn destaged(&self, page: PageId, lsn: Lsn) {
        if let Some(pool) = self.0.upgrade() {
            pool.destaged(page, lsn);
        }
    }

    fn durable(&self, pages: &[(PageId, Lsn)], group: Option<DurableGroup>) {
        if let Some(pool) = self.0.upgrade() {
            pool.durable(pages, group);
        }
    }
}

impl Layer for Unpulled {
    fn fetch(&self, page: PageId, buffer: &mut [u8]) -> Result<Fetched, TierError> {
        self.layer.fetch(page, buffer)
    }

    fn is_on_flash(&self, page: PageId) -> bool {
        self.layer.is_on_flash(page)
    }

    fn evict(&self, victim: Victim, data: &[u8]) -> Result<Evicted, TierError> {
        self.layer.evict(victim, data)
    }

    fn try_evict(&self, victim: Victim, data: &[u8]) -> Result<Option<Evicted>, TierError> {
        self.layer.try_evict(victim, data)
    }

    fn checkpoint_begins(&self) {
        self.layer.checkpoint_begins();
    }

    fn moves_pages_up(&self) -> bool {
        self.layer.moves_pages_up()
    }

    fn checkpoint(&self) -> Result<(), TierError> {
        self.layer.checkpoint()
    }

    fn attach(&self, upstream: Weak<dyn Upstream>) {
        let pool = Arc::new(Refusing(upstream));
        let weak = Arc::downgrade(&pool) as Weak<dyn Upstream>;
        *self.pool.lock() = Some(pool);
        self.layer.attach(weak);
    }

    fn survivors(&self) -> Option<&Survivors> {
        self.layer.survivors()
    }

    fn capacity_pages(&self) -> u64 {
        self.layer.capacity_pages()
    }

    fn binding(&self) -> Result<Binding, TierError> {
        self.layer.binding()
    }

    fn bind_log(&self, log: Uuid, session: Session) -> Result<(), TierError> {
        self.layer.bind_log(log, session)
    }

    fn metrics(&self) -> TierMetrics {
        self.layer.metrics()
    }

    fn close(&self) -> Result<(), TierError> {
        self.layer.close()
    }

    fn can_materialise(&self) -> bool {
        self.layer.can_materialise()
    }

    fn materialise(&self, end: Lsn) -> Result<(), TierError> {
        self.layer.materialise(end)
    }

    fn materialised(&self) -> Materialised {
        self.layer.materialised()
    }
}
