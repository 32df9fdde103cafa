//! New-Order (clause 2.4): a customer orders 5 to 15 items.

use super::{Buffers, Terminal};
use crate::database::Database;
use crate::error::TpccError;
use crate::random::{ORIGINAL, Random};
use crate::scale::{LINES_MAX, LINES_MIN};
use crate::schema::{
    CarrierId, Cents, CustomerId, CustomerKey, CustomerOrderKey, DistrictId, DistrictKey, ItemId, ItemKey,
    LineNumber, NewOrderKey, OrderId, OrderKey, OrderLineKey, OrderLineRow, OrderRow, Rate, StockKey, Text,
    Timestamp, WarehouseId, WarehouseKey,
};
use entresol_store::{Lock, Txn};
use zerocopy::little_endian::{I16, U32};

/// One line of the input from the terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineInput {
    /// The item. If it does not exist, the transaction is rolled back (clause 2.4.1.4).
    pub item: ItemId,
    /// The warehouse that supplies it.
    pub supply: WarehouseId,
    /// The quantity, `1 ..= 10`.
    pub quantity: u8,
}

/// The input from the terminal.
#[derive(Clone, Copy, Debug)]
pub struct NewOrderInput {
    warehouse: WarehouseId,
    district: DistrictId,
    customer: CustomerId,
    lines: [LineInput; LINES_MAX as usize],
    count: u8,
}

impl NewOrderInput {
    /// An input of the given lines, at most 15.
    ///
    /// # Panics
    /// If there are no lines, or more than 15.
    pub fn new(
        warehouse: WarehouseId,
        district: DistrictId,
        customer: CustomerId,
        lines: &[LineInput],
    ) -> Self {
        assert!((1..=usize::from(LINES_MAX)).contains(&lines.len()), "an order of {} lines", lines.len());
        let mut all = [LineInput::default(); LINES_MAX as usize];
        all[..lines.len()].copy_from_slice(lines);
        Self { warehouse, district, customer, lines: all, count: lines.len() as u8 }
    }

    /// An input according to clause 2.4.1: one item in a hundred from another warehouse, and one order in a
    /// hundred with an unused item number at the end.
    pub fn generate(random: &mut Random, terminal: &Terminal) -> Self {
        let district = terminal.any_district(random);
        let customer = terminal.customer_id(random);
        let count = random.uniform_u8(LINES_MIN, LINES_MAX);
        let rolls_back = random.percent(1);
        let mut lines = [LineInput::default(); LINES_MAX as usize];
        for line in &mut lines[..usize::from(count)] {
            let item = random.nurand(8_191, terminal.constants.item, 1, terminal.scale.items);
            let remote = random.percent(1);
            *line = LineInput {
                item: ItemId::new(item),
                supply: if remote { terminal.other_warehouse(random) } else { terminal.warehouse },
                quantity: random.uniform_u8(1, 10),
            };
        }
        if rolls_back {
            lines[usize::from(count) - 1].item = ItemId::new(terminal.scale.items + 1);
        }
        Self { warehouse: terminal.warehouse, district, customer, lines, count }
    }

    /// The home warehouse.
    pub fn warehouse(&self) -> WarehouseId {
        self.warehouse
    }
    /// The district.
    pub fn district(&self) -> DistrictId {
        self.district
    }
    /// The customer.
    pub fn customer(&self) -> CustomerId {
        self.customer
    }
    /// The ordered lines.
    pub fn lines(&self) -> &[LineInput] {
        &self.lines[..usize::from(self.count)]
    }
}

/// One line of the output for the terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineOutput {
    /// I_PRICE.
    pub price: Cents,
    /// OL_AMOUNT.
    pub amount: Cents,
    /// S_QUANTITY, after the order.
    pub stock: i16,
    /// "B" instead of "G": item and stock are both original.
    pub brand: bool,
    district_info: Text<24>,
    original: bool,
    exists: bool,
}

/// The output for the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewOrderOutput {
    /// The order's number.
    pub order: OrderId,
    /// The sum with discount and taxes.
    pub total: Cents,
    /// W_TAX.
    pub warehouse_tax: Rate,
    /// D_TAX.
    pub district_tax: Rate,
    /// C_DISCOUNT.
    pub discount: Rate,
    /// C_LAST.
    pub last: Text<16>,
    /// C_CREDIT.
    pub credit: Text<2>,
    lines: [LineOutput; LINES_MAX as usize],
    count: u8,
}

impl NewOrderOutput {
    /// The order's lines.
    pub fn lines(&self) -> &[LineOutput] {
        &self.lines[..usize::from(self.count)]
    }
}

/// The end of the transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "99 of 100 are the large one, and it lives on the stack only")]
pub enum NewOrderOutcome {
    /// The order is in the database.
    Committed(NewOrderOutput),
    /// An item number was invalid; nothing has changed.
    RolledBack,
}

/// Runs the transaction. With an unused item number all steps are executed except for that line, and then
/// rolled back (clause 2.4.2.3).
pub fn new_order(
    database: &Database,
    buffers: &mut Buffers,
    input: &NewOrderInput,
) -> Result<NewOrderOutcome, TpccError> {
    let mut txn = database.store().begin();
    match order(database, &mut txn, buffers, input) {
        Ok(output) if output.lines().iter().all(|line| line.exists) => {
            txn.commit()?;
            Ok(NewOrderOutcome::Committed(output))
        }
        Ok(_) => {
            txn.abort()?;
            Ok(NewOrderOutcome::RolledBack)
        }
        Err(error) => {
            // As in `commit`: the first error is reported.
            let _ = txn.abort();
            Err(error)
        }
    }
}

fn order(
    database: &Database,
    txn: &mut Txn,
    buffers: &mut Buffers,
    input: &NewOrderInput,
) -> Result<NewOrderOutput, TpccError> {
    let tables = database.tables();
    let row = &mut buffers.row;
    let NewOrderInput { warehouse, district, customer, .. } = *input;

    let warehouse_tax = tables.warehouses.require(txn, &WarehouseKey { warehouse }, Lock::None, row)?.tax;
    let key = CustomerKey { warehouse, district, customer };
    let who = tables.customers.require(txn, &key, Lock::None, row)?;
    let (discount, last, credit) = (who.discount, who.last, who.credit);

    let mut lines = [LineOutput::default(); LINES_MAX as usize];
    read_items(database, txn, row, input, &mut lines)?;
    take_stock(database, txn, row, input, &mut lines)?;

    let key = DistrictKey { warehouse, district };
    let home = tables.districts.require(txn, &key, Lock::Exclusive, row)?;
    let (order, district_tax) = (home.next_order, home.tax);
    home.next_order = order.next();
    tables.districts.update(txn, &key, home)?;

    let order_row = OrderRow {
        customer,
        entry: Timestamp::now(),
        carrier: CarrierId::NULL,
        lines: input.count,
        all_local: u8::from(input.lines().iter().all(|line| line.supply == warehouse)),
    };
    tables.orders.insert(txn, &OrderKey { warehouse, district, order }, &order_row)?;
    tables.customer_orders.insert(txn, &CustomerOrderKey { warehouse, district, customer, order }, &())?;
    tables.new_orders.insert(txn, &NewOrderKey { warehouse, district, order }, &())?;
    for ((number, line), output) in (1..).zip(input.lines()).zip(&lines) {
        if output.exists {
            let key = OrderLineKey { warehouse, district, order, line: LineNumber::new(number) };
            let row = OrderLineRow {
                item: line.item,
                supply: line.supply,
                delivery: Timestamp::NULL,
                quantity: line.quantity,
                amount: output.amount,
                district_info: output.district_info,
            };
            tables.order_lines.insert(txn, &key, &row)?;
        }
    }

    let sum = lines.iter().map(|line| line.amount).sum();
    let total = total(sum, discount, warehouse_tax, district_tax);
    Ok(NewOrderOutput {
        order,
        total,
        warehouse_tax,
        district_tax,
        discount,
        last,
        credit,
        lines,
        count: input.count,
    })
}

/// Reads the items in the order of the lines.
fn read_items(
    database: &Database,
    txn: &mut Txn,
    row: &mut Vec<u8>,
    input: &NewOrderInput,
    lines: &mut [LineOutput],
) -> Result<(), TpccError> {
    for (line, output) in input.lines().iter().zip(lines) {
        let key = ItemKey { item: line.item };
        if let Some(item) = database.tables().items.get(txn, &key, Lock::None, row)? {
            output.exists = true;
            output.price = item.price;
            output.amount = item.price * line.quantity;
            output.original = item.data.contains(ORIGINAL);
        }
    }
    Ok(())
}

/// Takes the pieces from stock, in the order of (warehouse, item), so that two orders never deadlock.
fn take_stock(
    database: &Database,
    txn: &mut Txn,
    row: &mut Vec<u8>,
    input: &NewOrderInput,
    lines: &mut [LineOutput],
) -> Result<(), TpccError> {
    let mut places = std::array::from_fn::<u8, { LINES_MAX as usize }, _>(|place| place as u8);
    let places = &mut places[..usize::from(input.count)];
    let key_of = |place: u8| {
        let line = &input.lines[usize::from(place)];
        StockKey { warehouse: line.supply, item: line.item }
    };
    places.sort_unstable_by_key(|&place| (key_of(place), place));
    for &place in places.iter() {
        let (line, output) = (&input.lines[usize::from(place)], &mut lines[usize::from(place)]);
        if !output.exists {
            continue;
        }
        let key = key_of(place);
        let stock = database.tables().stock.require(txn, &key, Lock::Exclusive, row)?;
        let quantity = i16::from(line.quantity);
        let left = stock.quantity.get() - quantity;
        stock.quantity = I16::new(if left >= 10 { left } else { left + 91 });
        stock.ytd = U32::new(stock.ytd.get().wrapping_add(u32::from(line.quantity)));
        stock.orders = U32::new(stock.orders.get().wrapping_add(1));
        if line.supply != input.warehouse {
            stock.remote_orders = U32::new(stock.remote_orders.get().wrapping_add(1));
        }
        output.stock = stock.quantity.get();
        output.brand = output.original && stock.data.contains(ORIGINAL);
        output.district_info = *stock.district_info(input.district);
        database.tables().stock.update(txn, &key, stock)?;
    }
    Ok(())
}

/// `sum * (1 - discount) * (1 + taxes)`, rounded down to a cent.
fn total(sum: Cents, discount: Rate, warehouse_tax: Rate, district_tax: Rate) -> Cents {
    let whole = i64::from(Rate::WHOLE.get());
    let kept = whole - i64::from(discount.get());
    let taxed = whole + i64::from(warehouse_tax.get()) + i64::from(district_tax.get());
    Cents::new(sum.get() * kept * taxed / (whole * whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn total_takes_discount_and_adds_taxes() {
        let total = total(Cents::whole(1_000), Rate::new(5_000), Rate::new(1_000), Rate::new(2_000));
        assert_eq!(total, Cents::whole(650));
    }
}
