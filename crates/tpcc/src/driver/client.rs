//! One client: draws a transaction, repeats it while it is a deadlock victim, counts it, and reports its
//! commit.

use super::Shared;
use super::acknowledge::{Acknowledged, Effect};
use super::config::Home;
use super::deck::Deck;
use crate::error::TpccError;
use crate::random::{Purpose, Random};
use crate::scale::DISTRICTS;
use crate::schema::{CustomerKey, DistrictId, DistrictKey, OrderKey, WarehouseId};
use crate::transactions::{
    Buffers, DeliveryInput, Kind, NewOrderInput, NewOrderOutcome, OrderStatusInput, PaymentInput,
    StockLevelInput, Terminal, delivery, new_order, order_status, payment, stock_level,
};
use entresol_runtime::{is_simulated, now, sleep, yield_now};
use std::time::Duration;

pub(super) struct Client<'a> {
    shared: &'a Shared,
    number: u32,
    random: Random,
    deck: Deck,
    terminal: Terminal,
    buffers: Buffers,
}

impl<'a> Client<'a> {
    pub(super) fn new(shared: &'a Shared, number: u32) -> Self {
        let scale = shared.database.scale();
        let (warehouse, district) = home(number, shared.config.clients, scale.warehouses);
        Self {
            shared,
            number,
            random: Random::stream(shared.config.seed, Purpose::Client, number, 0),
            deck: Deck::new(shared.config.mix),
            terminal: Terminal { scale, constants: shared.constants, warehouse, district },
            buffers: Buffers::default(),
        }
    }

    pub(super) fn run(mut self) {
        let last = self.shared.config.transactions_per_client.unwrap_or(u64::MAX);
        for sequence in 0..last {
            if self.shared.is_stopping() {
                return;
            }
            if let Err(error) = self.one(sequence) {
                self.shared.fail(error);
                return;
            }
        }
    }

    /// Waits, runs one transaction, waits.
    fn one(&mut self, sequence: u64) -> Result<(), TpccError> {
        if self.shared.config.home == Home::Anywhere {
            self.terminal.warehouse =
                WarehouseId::new(self.random.uniform(1, self.terminal.scale.warehouses));
            self.terminal.district = DistrictId::new(self.random.uniform_u8(1, DISTRICTS));
        }
        let kind = self.deck.draw(&mut self.random);
        let (before, after) = self.shared.config.pace.waits(kind, &mut self.random);
        self.wait(before);
        let began = now();
        let effect = match kind {
            Kind::NewOrder => self.new_order()?,
            Kind::Payment => self.payment()?,
            Kind::OrderStatus => self.order_status()?,
            Kind::Delivery => self.delivery()?,
            Kind::StockLevel => self.stock_level()?,
        };
        let ended = now();
        if let (Some(effect), Some(acknowledge)) = (effect, &self.shared.config.acknowledge) {
            acknowledge.acknowledge(&Acknowledged { client: self.number, sequence, effect });
        }
        self.recorder().finished(kind, effect.is_some(), self.shared.started, began, ended);
        self.wait(after);
        if ended == began && is_simulated() {
            // Neither processor nor devices are modelled, so only this yield makes time pass.
            yield_now();
        }
        Ok(())
    }

    fn recorder(&self) -> entresol_runtime::sync::TinyMutexGuard<'_, super::Recorder> {
        self.shared.recorders[self.number as usize].lock()
    }

    fn wait(&self, duration: Duration) {
        let deadline = now() + duration;
        loop {
            let left = deadline.since(now());
            if left.is_zero() || self.shared.is_stopping() {
                return;
            }
            sleep(left.min(super::STEP));
        }
    }

    /// Runs `attempt`, and repeats it with the same input while it is a deadlock victim.
    fn retry<T>(
        &mut self,
        kind: Kind,
        mut attempt: impl FnMut(&Shared, &mut Buffers) -> Result<T, TpccError>,
    ) -> Result<T, TpccError> {
        loop {
            match attempt(self.shared, &mut self.buffers) {
                Err(error) if error.is_deadlock() => {
                    self.recorder().deadlock(kind);
                    yield_now();
                }
                result => return result,
            }
        }
    }

    /// `None`: rolled back.
    fn new_order(&mut self) -> Result<Option<Effect>, TpccError> {
        let input = NewOrderInput::generate(&mut self.random, &self.terminal);
        let outcome =
            self.retry(Kind::NewOrder, |shared, buffers| new_order(&shared.database, buffers, &input))?;
        Ok(match outcome {
            NewOrderOutcome::RolledBack => None,
            NewOrderOutcome::Committed(output) => Some(Effect::NewOrder {
                key: OrderKey {
                    warehouse: input.warehouse(),
                    district: input.district(),
                    order: output.order,
                },
                customer: input.customer(),
                lines: output.lines().len() as u8,
            }),
        })
    }

    fn payment(&mut self) -> Result<Option<Effect>, TpccError> {
        let input = PaymentInput::generate(&mut self.random, &self.terminal);
        let key = self.shared.next_payment();
        let output =
            self.retry(Kind::Payment, |shared, buffers| payment(&shared.database, buffers, &input, key))?;
        Ok(Some(Effect::Payment {
            key,
            district: DistrictKey { warehouse: input.warehouse, district: input.district },
            customer: CustomerKey {
                warehouse: input.customer_warehouse,
                district: input.customer_district,
                customer: output.customer,
            },
            amount: input.amount,
        }))
    }

    fn order_status(&mut self) -> Result<Option<Effect>, TpccError> {
        let input = OrderStatusInput::generate(&mut self.random, &self.terminal);
        self.retry(Kind::OrderStatus, |shared, buffers| order_status(&shared.database, buffers, &input))?;
        Ok(Some(Effect::Nothing))
    }

    fn delivery(&mut self) -> Result<Option<Effect>, TpccError> {
        let input = DeliveryInput::generate(&mut self.random, &self.terminal);
        let output =
            self.retry(Kind::Delivery, |shared, buffers| delivery(&shared.database, buffers, &input))?;
        let (warehouse, carrier) = (input.warehouse, input.carrier);
        Ok(Some(Effect::Delivery { warehouse, carrier, orders: output.orders }))
    }

    fn stock_level(&mut self) -> Result<Option<Effect>, TpccError> {
        let input = StockLevelInput::generate(&mut self.random, &self.terminal);
        self.retry(Kind::StockLevel, |shared, buffers| stock_level(&shared.database, buffers, &input))?;
        Ok(Some(Effect::Nothing))
    }
}

/// The home of client `number` of `clients`: homes are as far apart as the warehouses and their districts
/// allow.
fn home(number: u32, clients: u32, warehouses: u32) -> (WarehouseId, DistrictId) {
    let (warehouse, round) = if clients < warehouses {
        let spread = u64::from(number) * u64::from(warehouses) / u64::from(clients);
        (spread as u32, 0)
    } else {
        (number % warehouses, number / warehouses)
    };
    let district = (round % u32::from(DISTRICTS)) as u8;
    (WarehouseId::new(warehouse + 1), DistrictId::new(district + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_spread() {
        let at = |number, clients, warehouses| {
            let (warehouse, district) = home(number, clients, warehouses);
            (warehouse.get(), district.get())
        };
        assert_eq!([0, 1, 2].map(|n| at(n, 3, 12)), [(1, 1), (5, 1), (9, 1)]);
        assert_eq!([0, 1, 2, 3, 4].map(|n| at(n, 5, 2)), [(1, 1), (2, 1), (1, 2), (2, 2), (1, 3)]);
        assert_eq!(at(10, 11, 1), (1, 1));
    }
}
