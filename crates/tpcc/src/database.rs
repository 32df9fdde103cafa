//! A loaded database: the store, its tables, its scale and the constants of its load.

use crate::error::TpccError;
use crate::random::Constants;
use crate::scale::Scale;
use crate::schema::{CatalogKey, CatalogRow, Tables};
use entresol_store::{Lock, Store};

/// A TPC-C database in a store. Cheap to clone.
#[derive(Clone)]
pub struct Database {
    store: Store,
    tables: Tables,
    scale: Scale,
    load_constants: Constants,
}

impl Database {
    /// Creates the tables and the catalog row; the loader fills the others.
    pub(crate) fn create(store: &Store, scale: Scale, load_constants: Constants) -> Result<Self, TpccError> {
        let scale = scale.check()?;
        let tables = Tables::create(store)?;
        let mut txn = store.begin();
        tables.catalog.insert(&mut txn, &CatalogKey::default(), &CatalogRow::new(scale, load_constants))?;
        txn.commit()?;
        Ok(Self { store: store.clone(), tables, scale, load_constants })
    }

    /// Finds the database that was loaded into `store`, for example after a restart.
    pub fn open(store: &Store) -> Result<Self, TpccError> {
        let tables = Tables::open(store)?;
        let mut buffer = Vec::new();
        let mut txn = store.begin();
        let row = tables.catalog.require(&mut txn, &CatalogKey::default(), Lock::None, &mut buffer)?;
        let (scale, load_constants) = row.read()?;
        txn.commit()?;
        Ok(Self { store: store.clone(), tables, scale, load_constants })
    }

    /// The store of the database.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The tables.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// The cardinalities at the load.
    pub fn scale(&self) -> Scale {
        self.scale
    }

    /// The constants of the load.
    pub fn load_constants(&self) -> Constants {
        self.load_constants
    }
}
