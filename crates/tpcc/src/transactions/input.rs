//! The common part of all terminals' inputs: the terminal's home, and its choice of a customer.

use crate::database::Database;
use crate::error::TpccError;
use crate::random::{Constants, Random, last_name};
use crate::scale::{DISTRICTS, Scale};
use crate::schema::{CustomerId, CustomerNameKey, DistrictId, Text, WarehouseId};
use entresol_store::{Direction, Lock, Txn};

/// A terminal's home, and the parameters of its choices.
#[derive(Clone, Copy, Debug)]
pub struct Terminal {
    /// The database's cardinalities.
    pub scale: Scale,
    /// The run's constants of NURand.
    pub constants: Constants,
    /// Its home warehouse.
    pub warehouse: WarehouseId,
    /// Its district; only Stock-Level always uses it (clause 2.8.1.1).
    pub district: DistrictId,
}

/// The selection of a customer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CustomerChoice {
    /// By number.
    Id(CustomerId),
    /// By last name: the middle one of all customers with this name, ordered by first name (clause 2.5.2.2).
    LastName(Text<16>),
}

impl Terminal {
    /// A random district.
    pub(super) fn any_district(&self, random: &mut Random) -> DistrictId {
        DistrictId::new(random.uniform_u8(1, DISTRICTS))
    }

    /// A random other warehouse; this one if there is no other.
    pub(super) fn other_warehouse(&self, random: &mut Random) -> WarehouseId {
        if self.scale.warehouses == 1 {
            return self.warehouse;
        }
        let drawn = random.uniform(1, self.scale.warehouses - 1);
        WarehouseId::new(if drawn < self.warehouse.get() { drawn } else { drawn + 1 })
    }

    /// A random customer number, not uniform.
    pub(super) fn customer_id(&self, random: &mut Random) -> CustomerId {
        CustomerId::new(random.nurand(1_023, self.constants.customer, 1, self.scale.customers))
    }

    /// A random customer: in 60 of 100 cases by last name (clauses 2.5.1.2, 2.6.1.2).
    pub(super) fn customer(&self, random: &mut Random) -> CustomerChoice {
        if random.percent(60) {
            let number = random.nurand(255, self.constants.last_name, 0, self.scale.last_names() - 1);
            CustomerChoice::LastName(last_name(number))
        } else {
            CustomerChoice::Id(self.customer_id(random))
        }
    }
}

impl CustomerChoice {
    /// The chosen customer's number. Reads the index by name, which never changes, without locks.
    pub(super) fn find(
        self,
        database: &Database,
        txn: &mut Txn,
        warehouse: WarehouseId,
        district: DistrictId,
        found: &mut Vec<CustomerId>,
    ) -> Result<CustomerId, TpccError> {
        let last = match self {
            CustomerChoice::Id(customer) => return Ok(customer),
            CustomerChoice::LastName(last) => last,
        };
        let bound = |first: u8, customer| CustomerNameKey {
            warehouse,
            district,
            last,
            first: Text::new(&[first; 16]),
            customer: CustomerId::new(customer),
        };
        let names = &database.tables().customer_names;
        found.clear();
        names.scan(
            txn,
            &bound(0, 0),
            &bound(u8::MAX, u32::MAX),
            Direction::Forward,
            Lock::None,
            |key, ()| {
                found.push(key.customer);
                true
            },
        )?;
        // Position n/2 rounded up, counted from 1.
        match found.len() {
            0 => Err(TpccError::MissingRow { table: names.name(), key: format!("{:?}", bound(0, 0)) }),
            count => Ok(found[count.div_ceil(2) - 1]),
        }
    }
}
