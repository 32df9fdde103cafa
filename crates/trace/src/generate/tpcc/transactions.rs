//! The five transactions, statement by statement, as the pages that they touch.

use super::index::Index;
use super::keys::{
    CUSTOMERS, Constants, DISTRICTS, ITEMS, LINES, NAMES, ORDERS, UNDELIVERED, between, percent,
};
use super::relation::Relation as R;
use super::table::Table;
use crate::Op;
use entresol_runtime::rng::Rng;

/// A page that is referenced or changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub relation: R,
    pub page: u32,
    pub op: Op,
}

/// The steps of a transaction, as they are found.
pub(super) struct Steps<'s>(pub &'s mut Vec<Step>);

impl Steps<'_> {
    pub fn fix(&mut self, relation: R, page: u32) {
        self.0.push(Step { relation, page, op: Op::Read });
    }

    pub fn dirty(&mut self, relation: R, page: u32) {
        self.0.push(Step { relation, page, op: Op::Dirty });
    }
}

/// Tables of at most this many pages are read whole, as PostgreSQL's planner does, instead of by their index.
const SCANNED_PAGES_MAX: u32 = 40;
/// Share of stock rows whose reading changes their page, per cent: hint bits, and room made.
const HINTS: u32 = 35;
/// Share of delivered order lines that find no room on their page, per cent.
const LINES_MOVED: u32 = 26;

/// What one district has gone through.
#[derive(Clone, Copy, Debug)]
struct District {
    /// The next order's number, from 0.
    next_order: u32,
    /// The oldest that is not delivered.
    oldest: u32,
}

/// The tables and indexes, and how far the districts are.
pub(super) struct Database {
    warehouses: u32,
    constants: Constants,
    order_seed: u64,
    districts: Vec<District>,
    payments: u32,
    customer: Table,
    customer_pkey: Index,
    idx_customer: Index,
    history: Table,
    idx_history: [Index; 2],
    new_order: Table,
    new_order_pkey: Index,
    orders: Table,
    orders_pkey: Index,
    idx_order: Index,
    order_line: Table,
    order_line_pkey: Index,
    stock: Table,
    stock_pkey: Index,
    item: Table,
    item_pkey: Index,
}

impl Database {
    /// A freshly loaded database.
    pub fn new(warehouses: u32, rng: &mut Rng) -> Self {
        let districts = warehouses * DISTRICTS;
        let rows = |each: u32| u64::from(districts) * u64::from(each);
        let undelivered = ORDERS - UNDELIVERED;
        Self {
            warehouses,
            constants: Constants::new(rng),
            order_seed: rng.next_u64(),
            districts: vec![District { next_order: ORDERS, oldest: UNDELIVERED }; districts as usize],
            payments: 0,
            customer: Table::new(R::Customer, rows(CUSTOMERS)),
            customer_pkey: Index::new(R::CustomerPkey, districts, CUSTOMERS),
            idx_customer: Index::new(R::IdxCustomer, districts, CUSTOMERS),
            history: Table::new(R::History, rows(CUSTOMERS)),
            idx_history: [R::IdxHistoryWarehouse, R::IdxHistoryCustomer]
                .map(|relation| Index::new(relation, warehouses, CUSTOMERS * DISTRICTS)),
            new_order: Table::new(R::NewOrder, rows(undelivered)),
            new_order_pkey: Index::new(R::NewOrderPkey, districts, undelivered),
            orders: Table::new(R::Orders, rows(ORDERS)),
            orders_pkey: Index::new(R::OrdersPkey, districts, ORDERS),
            idx_order: Index::new(R::IdxOrder, districts, ORDERS),
            order_line: Table::new(R::OrderLine, rows(ORDERS * LINES)),
            order_line_pkey: Index::new(R::OrderLinePkey, districts, ORDERS * LINES),
            stock: Table::new(R::Stock, u64::from(warehouses) * u64::from(ITEMS)),
            stock_pkey: Index::new(R::StockPkey, warehouses, ITEMS),
            item: Table::new(R::Item, u64::from(ITEMS)),
            item_pkey: Index::new(R::ItemPkey, 1, ITEMS),
        }
    }

    /// One transaction of the mix that go-tpc runs: 45 % new orders, 43 % payments, 4 % each of the others.
    pub fn transaction(&mut self, rng: &mut Rng, steps: &mut Vec<Step>) {
        let steps = &mut Steps(steps);
        let warehouse = between(rng, 0, self.warehouses - 1);
        match between(rng, 0, 99) {
            0..=44 => self.new_order(rng, steps, warehouse),
            45..=87 => self.payment(rng, steps, warehouse),
            88..=91 => self.order_status(rng, steps, warehouse),
            92..=95 => self.delivery(steps, warehouse),
            _ => self.stock_level(rng, steps, warehouse),
        }
    }

    /// The lines' items of an order: those of loaded orders are uniform, those of new ones by NURand.
    fn items(&self, district: u32, order: u32) -> Vec<u32> {
        let rng = &mut Rng::new(self.order_seed ^ (u64::from(district) << 32 | u64::from(order)));
        let lines = between(rng, 5, 15);
        (0..lines)
            .map(|_| if order < ORDERS { between(rng, 0, ITEMS - 1) } else { self.constants.item(rng) })
            .collect()
    }

    fn order_row(district: u32, order: u32) -> u64 {
        match order < ORDERS {
            true => u64::from(district) * u64::from(ORDERS) + u64::from(order),
            // Rows inserted later have numbers that no loaded row has.
            false => 1 << 63 | u64::from(district) << 32 | u64::from(order),
        }
    }

    fn line_row(district: u32, order: u32, line: u32) -> u64 {
        match order < ORDERS {
            true => Self::order_row(district, order) * u64::from(LINES) + u64::from(line.min(LINES - 1)),
            false => 1 << 63 | u64::from(district) << 40 | u64::from(order) << 8 | u64::from(line),
        }
    }

    fn new_order_row(district: u32, order: u32) -> u64 {
        let undelivered = u64::from(ORDERS - UNDELIVERED);
        match order < ORDERS {
            true => u64::from(district) * undelivered + u64::from(order - UNDELIVERED),
            false => Self::order_row(district, order),
        }
    }

    fn customer_row(district: u32, customer: u32) -> u64 {
        u64::from(district) * u64::from(CUSTOMERS) + u64::from(customer)
    }

    /// Reads one of the two small tables, whole or by its index; the row's page is read again `again` times,
    /// and changed if so.
    fn small(steps: &mut Steps<'_>, table: R, index: R, rows: u32, row: u32, again: u32) {
        let pages = (f64::from(rows) / table.per_page()).ceil() as u32;
        let row_page = row * pages / rows;
        if pages > SCANNED_PAGES_MAX {
            steps.fix(index, 1);
            steps.fix(index, 2 + (f64::from(row) / index.per_page()) as u32);
            steps.fix(table, row_page);
        }
        let scanned = if pages > SCANNED_PAGES_MAX { 0..0 } else { 0..pages };
        for page in scanned {
            steps.fix(table, page);
        }
        for _ in 0..again {
            steps.fix(table, row_page);
        }
        if again > 0 {
            steps.dirty(table, row_page);
        }
    }

    fn warehouse(&self, steps: &mut Steps<'_>, warehouse: u32, again: u32) {
        Self::small(steps, R::Warehouse, R::WarehousePkey, self.warehouses, warehouse, again);
    }

    fn district(&self, steps: &mut Steps<'_>, district: u32, again: u32) {
        let rows = self.warehouses * DISTRICTS;
        Self::small(steps, R::District, R::DistrictPkey, rows, district, again);
    }

    fn new_order(&mut self, rng: &mut Rng, steps: &mut Steps<'_>, warehouse: u32) {
        let district = warehouse * DISTRICTS + between(rng, 0, DISTRICTS - 1);
        let customer = self.constants.customer(rng);
        self.customer_pkey.descend(steps, district, customer);
        self.customer.read(steps, Self::customer_row(district, customer));
        self.warehouse(steps, warehouse, 0);
        self.district(steps, district, 1);
        self.district(steps, district, 2);
        let order = self.districts[district as usize].next_order;
        self.districts[district as usize].next_order += 1;
        self.orders.insert(steps, Self::order_row(district, order));
        self.orders_pkey.insert(steps, district, order);
        self.idx_order.insert(steps, district, customer);
        self.new_order.insert(steps, Self::new_order_row(district, order));
        self.new_order_pkey.insert(steps, district, order - UNDELIVERED);

        let lines = self.items(district, order);
        let mut items = lines.clone();
        items.sort_unstable();
        let mut last = None;
        for &item in &items {
            self.item_pkey.descend(steps, 0, item);
            let page = self.item.page(u64::from(item));
            if last != Some(page) {
                self.item.read(steps, u64::from(item));
            }
            last = Some(page);
        }
        // One line in a hundred is supplied by another warehouse (clause 2.4.1.5).
        let supply: Vec<(u32, u32)> = items
            .iter()
            .map(|&item| {
                if percent(rng, 1) { (between(rng, 0, self.warehouses - 1), item) } else { (warehouse, item) }
            })
            .collect();
        for &(supplier, item) in &supply {
            self.stock_pkey.descend(steps, supplier, item);
        }
        for &(supplier, item) in &supply {
            self.stock.lock(steps, stock_row(supplier, item));
        }
        for &(supplier, item) in &supply {
            self.stock_pkey.descend(steps, supplier, item);
            if self.stock.update(steps, stock_row(supplier, item)) {
                self.stock_pkey.insert(steps, supplier, item);
            }
        }
        for line in 0..lines.len() as u32 {
            self.order_line.insert(steps, Self::line_row(district, order, line));
            self.order_line_pkey.insert(steps, district, order * LINES + line.min(LINES - 1));
        }
    }

    /// Finds a customer: in 60 % of the cases by last name, which three customers of a district share.
    fn find_customer(&mut self, rng: &mut Rng, steps: &mut Steps<'_>, district: u32) -> u32 {
        if !percent(rng, 60) {
            return self.constants.customer(rng);
        }
        let name = self.constants.name(rng);
        self.idx_customer.descend(steps, district, name * (CUSTOMERS / NAMES));
        // Loaded customers after the first thousand have random names (clause 4.3.3.1): they are anywhere.
        let namesakes = &mut Rng::new(self.order_seed ^ (u64::from(district) << 40 | u64::from(name)));
        let sharing =
            [name, between(namesakes, NAMES, CUSTOMERS - 1), between(namesakes, NAMES, CUSTOMERS - 1)];
        for customer in sharing {
            self.customer.read(steps, Self::customer_row(district, customer));
        }
        sharing[between(rng, 0, 2) as usize]
    }

    fn update_customer(&mut self, steps: &mut Steps<'_>, district: u32, customer: u32) {
        self.customer_pkey.descend(steps, district, customer);
        if self.customer.update(steps, Self::customer_row(district, customer)) {
            self.customer_pkey.insert(steps, district, customer);
            self.idx_customer.insert(steps, district, customer);
        }
    }

    fn payment(&mut self, rng: &mut Rng, steps: &mut Steps<'_>, warehouse: u32) {
        let district = warehouse * DISTRICTS + between(rng, 0, DISTRICTS - 1);
        self.district(steps, district, 2);
        self.district(steps, district, 0);
        self.warehouse(steps, warehouse, 2);
        self.warehouse(steps, warehouse, 0);
        // 15 % pay at another warehouse's district (clause 2.5.1.2).
        let home = match percent(rng, 15) && self.warehouses > 1 {
            true => between(rng, 0, self.warehouses * DISTRICTS - 1),
            false => district,
        };
        let customer = self.find_customer(rng, steps, home);
        self.customer_pkey.descend(steps, home, customer);
        self.customer.lock(steps, Self::customer_row(home, customer));
        // One customer in ten has bad credit, and its data is read and rewritten.
        if percent(rng, 10) {
            self.customer_pkey.descend(steps, home, customer);
            self.customer.read(steps, Self::customer_row(home, customer));
        }
        self.update_customer(steps, home, customer);
        let entry = CUSTOMERS * DISTRICTS + self.payments / self.warehouses;
        self.history.insert(steps, 1 << 63 | u64::from(self.payments));
        self.payments += 1;
        for (index, of) in self.idx_history.iter_mut().zip([warehouse, home / DISTRICTS]) {
            index.insert(steps, of, entry);
        }
    }

    fn order_status(&mut self, rng: &mut Rng, steps: &mut Steps<'_>, warehouse: u32) {
        let district = warehouse * DISTRICTS + between(rng, 0, DISTRICTS - 1);
        let customer = self.find_customer(rng, steps, district);
        self.customer_pkey.descend(steps, district, customer);
        self.customer.read(steps, Self::customer_row(district, customer));
        self.idx_order.descend(steps, district, customer);
        let order = between(rng, 0, self.districts[district as usize].next_order - 1);
        self.orders.read(steps, Self::order_row(district, order));
        self.order_line_pkey.descend(steps, district, order * LINES);
        self.order_line.read(steps, Self::line_row(district, order, 0));
    }

    fn delivery(&mut self, steps: &mut Steps<'_>, warehouse: u32) {
        let mut delivered = Vec::new();
        for district in warehouse * DISTRICTS..(warehouse + 1) * DISTRICTS {
            let state = &mut self.districts[district as usize];
            if state.oldest == state.next_order {
                continue;
            }
            let order = state.oldest;
            state.oldest += 1;
            delivered.push((district, order));
            self.new_order_pkey.descend(steps, district, order - UNDELIVERED);
            self.new_order.lock(steps, Self::new_order_row(district, order));
        }
        for &(district, order) in &delivered {
            self.new_order_pkey.descend(steps, district, order - UNDELIVERED);
            self.new_order.lock(steps, Self::new_order_row(district, order));
        }
        for &(district, order) in &delivered {
            self.orders_pkey.descend(steps, district, order);
            if self.orders.update(steps, Self::order_row(district, order)) {
                self.orders_pkey.insert(steps, district, order);
                self.idx_order.insert(steps, district, order % CUSTOMERS);
            }
        }
        for &(district, order) in &delivered {
            self.orders_pkey.descend(steps, district, order);
            self.orders.read(steps, Self::order_row(district, order));
        }
        for &(district, order) in &delivered {
            self.deliver_lines(steps, district, order);
        }
        for &(district, order) in &delivered {
            self.order_line_pkey.descend(steps, district, order * LINES);
            self.order_line.read(steps, Self::line_row(district, order, 0));
        }
        for &(district, order) in &delivered {
            let customer = (u64::from(order) * 7919 % u64::from(CUSTOMERS)) as u32;
            self.update_customer(steps, district, customer);
        }
    }

    /// Sets the delivery date of an order's lines.
    fn deliver_lines(&mut self, steps: &mut Steps<'_>, district: u32, order: u32) {
        self.order_line_pkey.descend(steps, district, order * LINES);
        let lines = self.items(district, order).len() as u32;
        for line in 0..lines {
            let row = Self::line_row(district, order, line);
            let page = self.order_line.page(row);
            if line == 0 {
                steps.fix(R::OrderLine, page);
            }
            steps.fix(R::OrderLine, page);
            steps.fix(R::OrderLine, page);
            steps.dirty(R::OrderLine, page);
            // Which lines find no room is as good as random, and the same in every run.
            if row.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32 < (u64::from(LINES_MOVED) << 32) / 100 {
                self.order_line.insert(steps, row);
                self.order_line_pkey.insert(steps, district, order * LINES + line.min(LINES - 1));
            }
        }
    }

    fn stock_level(&mut self, rng: &mut Rng, steps: &mut Steps<'_>, warehouse: u32) {
        let district = warehouse * DISTRICTS + between(rng, 0, DISTRICTS - 1);
        self.district(steps, district, 0);
        let next = self.districts[district as usize].next_order;
        let first = next - 20;
        self.order_line_pkey.descend(steps, district, first * LINES);
        self.order_line_pkey.walk(steps, district, first * LINES, next * LINES - 1);
        let mut last = None;
        for order in first..next {
            for (line, item) in self.items(district, order).into_iter().enumerate() {
                let page = self.order_line.page(Self::line_row(district, order, line as u32));
                if last != Some(page) {
                    steps.fix(R::OrderLine, page);
                }
                last = Some(page);
                self.stock_pkey.descend(steps, warehouse, item);
                let page = self.stock.read(steps, stock_row(warehouse, item));
                if percent(rng, HINTS) {
                    steps.dirty(R::Stock, page);
                }
            }
        }
    }
}

fn stock_row(warehouse: u32, item: u32) -> u64 {
    u64::from(warehouse) * u64::from(ITEMS) + u64::from(item)
}
