//! Payment (clause 2.5): a customer pays at a district, in 15 of 100 cases at another than its own.

use super::{Buffers, CustomerChoice, Terminal, commit};
use crate::database::Database;
use crate::error::TpccError;
use crate::random::Random;
use crate::schema::{
    Cents, CustomerId, CustomerKey, CustomerRow, DistrictId, DistrictKey, HistoryKey, HistoryRow, Text,
    Timestamp, WarehouseId, WarehouseKey,
};
use entresol_store::{Lock, Txn};
use std::io::Write;
use zerocopy::little_endian::U16;

/// The input from the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaymentInput {
    /// The warehouse of the payment.
    pub warehouse: WarehouseId,
    /// The district of the payment.
    pub district: DistrictId,
    /// The customer's warehouse.
    pub customer_warehouse: WarehouseId,
    /// The customer's district.
    pub customer_district: DistrictId,
    /// The customer.
    pub customer: CustomerChoice,
    /// The amount, 1.00 to 5,000.00.
    pub amount: Cents,
}

impl PaymentInput {
    /// An input according to clause 2.5.1.
    pub fn generate(random: &mut Random, terminal: &Terminal) -> Self {
        let district = terminal.any_district(random);
        let remote = random.percent(15) && terminal.scale.warehouses > 1;
        let (customer_warehouse, customer_district) = if remote {
            (terminal.other_warehouse(random), terminal.any_district(random))
        } else {
            (terminal.warehouse, district)
        };
        Self {
            warehouse: terminal.warehouse,
            district,
            customer_warehouse,
            customer_district,
            customer: terminal.customer(random),
            amount: Cents::new(i64::from(random.uniform(100, 500_000))),
        }
    }
}

/// The output for the terminal, shortened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaymentOutput {
    /// The customer.
    pub customer: CustomerId,
    /// C_BALANCE, after the payment.
    pub balance: Cents,
    /// C_CREDIT is "BC".
    pub bad_credit: bool,
}

/// Runs the transaction; its row of HISTORY gets the key `history`.
pub fn payment(
    database: &Database,
    buffers: &mut Buffers,
    input: &PaymentInput,
    history: HistoryKey,
) -> Result<PaymentOutput, TpccError> {
    commit(database.store(), |txn| pay(database, txn, buffers, input, history))
}

fn pay(
    database: &Database,
    txn: &mut Txn,
    buffers: &mut Buffers,
    input: &PaymentInput,
    history: HistoryKey,
) -> Result<PaymentOutput, TpccError> {
    let tables = database.tables();
    let PaymentInput { warehouse, district, customer_warehouse, customer_district, amount, .. } = *input;
    let customer =
        input.customer.find(database, txn, customer_warehouse, customer_district, &mut buffers.customers)?;
    let row = &mut buffers.row;

    let key = CustomerKey { warehouse: customer_warehouse, district: customer_district, customer };
    let payer = tables.customers.require(txn, &key, Lock::Exclusive, row)?;
    payer.balance -= amount;
    payer.ytd_payment += amount;
    payer.payments = U16::new(payer.payments.get().wrapping_add(1));
    let bad_credit = payer.credit.as_bytes() == b"BC";
    if bad_credit {
        note_bad_credit(payer, &key, input);
    }
    let balance = payer.balance;
    tables.customers.update(txn, &key, payer)?;

    let key = DistrictKey { warehouse, district };
    let till = tables.districts.require(txn, &key, Lock::Exclusive, row)?;
    till.ytd += amount;
    let district_name = till.name;
    tables.districts.update(txn, &key, till)?;

    let key = WarehouseKey { warehouse };
    let till = tables.warehouses.require(txn, &key, Lock::Exclusive, row)?;
    till.ytd += amount;
    let warehouse_name = till.name;
    tables.warehouses.update(txn, &key, till)?;

    let paid = HistoryRow {
        customer,
        customer_district,
        customer_warehouse,
        district,
        warehouse,
        date: Timestamp::now(),
        amount,
        data: names(&warehouse_name, &district_name),
    };
    tables.history.insert(txn, &history, &paid)?;
    Ok(PaymentOutput { customer, balance, bad_credit })
}

/// W_NAME, four spaces, D_NAME.
fn names(warehouse: &Text<10>, district: &Text<10>) -> Text<24> {
    let mut data = Text::default();
    data.prepend(district.as_bytes());
    data.prepend(b"    ");
    data.prepend(warehouse.as_bytes());
    data
}

/// Inserts the payment before the customer's C_DATA (clause 2.5.2.2).
fn note_bad_credit(payer: &mut CustomerRow, key: &CustomerKey, input: &PaymentInput) {
    let mut note = [0u8; 80];
    let mut room = &mut note[..];
    write!(
        room,
        "{} {} {} {} {} {}|",
        key.customer, key.district, key.warehouse, input.district, input.warehouse, input.amount
    )
    .expect("three numbers of ten digits, two of three and an amount of twenty fit");
    let left = room.len();
    let length = note.len() - left;
    payer.data.prepend(&note[..length]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    #[test]
    fn bad_credit_is_noted_in_front() {
        let mut payer = CustomerRow::new_zeroed();
        payer.data = Text::new(&[b'x'; 500]);
        let key = CustomerKey {
            warehouse: WarehouseId::new(3),
            district: DistrictId::new(4),
            customer: CustomerId::new(7),
        };
        let input = PaymentInput {
            warehouse: WarehouseId::new(1),
            district: DistrictId::new(2),
            customer_warehouse: key.warehouse,
            customer_district: key.district,
            customer: CustomerChoice::Id(key.customer),
            amount: Cents::new(1_234),
        };
        note_bad_credit(&mut payer, &key, &input);
        assert!(payer.data.as_bytes().starts_with(b"7 4 3 2 1 12.34|xxx"));
        assert_eq!(payer.data.as_bytes().len(), 500);
    }

    #[test]
    fn names_are_joined_by_four_spaces() {
        assert_eq!(names(&Text::new(b"ware"), &Text::new(b"dist")).as_bytes(), b"ware    dist");
    }
}
