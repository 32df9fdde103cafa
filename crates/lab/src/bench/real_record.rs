//! What a worker process tells its parent, a line each: the record that a kill does not touch.
//!
//! Invariant: a line that has its end was written in full, in one piece, after the commit that it tells of
//! had returned.

use anyhow::Context;
use entresol_tpcc::Acknowledged;
use entresol_tpcc::driver::Effect;
use entresol_tpcc::schema::{
    CarrierId, Cents, CustomerId, CustomerKey, DistrictId, DistrictKey, HistoryKey, OrderId, OrderKey,
    WarehouseId,
};
use std::fmt;
use std::io::BufRead;
use std::str::{FromStr, SplitAsciiWhitespace};

/// A line of the record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Line {
    /// A transaction is committed.
    Acknowledged(Acknowledged),
    /// Half a checkpoint interval has passed since a checkpoint, with this tpmC.
    MidInterval(f64),
}

/// Reads a record to its end, telling `each` line. What follows the last line's end is dropped: the writer
/// was killed.
///
/// # Errors
/// If the record cannot be read or has a line that is not one of ours, or what `each` returns.
pub fn read_record(
    mut record: impl BufRead,
    mut each: impl FnMut(Line) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut text = String::new();
    while record.read_line(&mut text)? > 0 && text.ends_with('\n') {
        each(text.trim_end().parse()?)?;
        text.clear();
    }
    Ok(())
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Acknowledged { client, sequence, effect } = match self {
            Line::MidInterval(tpm_c) => return write!(f, "mid-interval {tpm_c}"),
            Line::Acknowledged(acknowledged) => acknowledged,
        };
        write!(f, "ack {client} {sequence} ")?;
        match effect {
            Effect::NewOrder { key, customer, lines } => {
                write!(f, "new-order {} {} {} {customer} {lines}", key.warehouse, key.district, key.order)
            }
            Effect::Payment { key, district, customer, amount } => write!(
                f,
                "payment {} {} {} {} {} {} {} {}",
                key.session,
                key.sequence,
                district.warehouse,
                district.district,
                customer.warehouse,
                customer.district,
                customer.customer,
                amount.get()
            ),
            Effect::Delivery { warehouse, carrier, orders } => {
                write!(f, "delivery {warehouse} {carrier}")?;
                // No order has the number 0.
                orders.iter().try_for_each(|order| write!(f, " {}", order.map_or(0, OrderId::get)))
            }
            Effect::Nothing => f.write_str("nothing"),
        }
    }
}

impl FromStr for Line {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let mut words = Words(text.split_ascii_whitespace());
        let line = match words.0.next() {
            Some("ack") => words.acknowledged().map(Line::Acknowledged),
            Some("mid-interval") => words.number().map(Line::MidInterval),
            _ => None,
        };
        line.filter(|_| words.0.next().is_none()).with_context(|| {
            format!(
                "the worker's record has the line {text:?}, which is neither an acknowledgement nor a mark"
            )
        })
    }
}

struct Words<'a>(SplitAsciiWhitespace<'a>);

impl Words<'_> {
    fn number<T: FromStr>(&mut self) -> Option<T> {
        self.0.next()?.parse().ok()
    }

    fn warehouse(&mut self) -> Option<WarehouseId> {
        self.number().map(WarehouseId::new)
    }

    fn district(&mut self) -> Option<DistrictId> {
        self.number().map(DistrictId::new)
    }

    fn acknowledged(&mut self) -> Option<Acknowledged> {
        let (client, sequence) = (self.number()?, self.number()?);
        let effect = match self.0.next()? {
            "new-order" => Effect::NewOrder {
                key: OrderKey {
                    warehouse: self.warehouse()?,
                    district: self.district()?,
                    order: OrderId::new(self.number()?),
                },
                customer: CustomerId::new(self.number()?),
                lines: self.number()?,
            },
            "payment" => Effect::Payment {
                key: HistoryKey {
                    session: self.number::<u32>()?.into(),
                    sequence: self.number::<u64>()?.into(),
                },
                district: DistrictKey { warehouse: self.warehouse()?, district: self.district()? },
                customer: CustomerKey {
                    warehouse: self.warehouse()?,
                    district: self.district()?,
                    customer: CustomerId::new(self.number()?),
                },
                amount: Cents::new(self.number()?),
            },
            "delivery" => {
                let (warehouse, carrier) = (self.warehouse()?, CarrierId::new(self.number()?));
                let mut orders = [None; entresol_tpcc::scale::DISTRICTS as usize];
                for order in &mut orders {
                    *order = Some(self.number()?).filter(|number| *number > 0).map(OrderId::new);
                }
                Effect::Delivery { warehouse, carrier, orders }
            }
            "nothing" => Effect::Nothing,
            _ => return None,
        };
        Some(Acknowledged { client, sequence, effect })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines() -> Vec<Line> {
        let warehouse = WarehouseId::new(3);
        let district = DistrictKey { warehouse, district: DistrictId::new(10) };
        let order = OrderKey { warehouse, district: DistrictId::new(1), order: OrderId::new(3001) };
        let customer = CustomerKey {
            warehouse: WarehouseId::new(4),
            district: DistrictId::new(2),
            customer: CustomerId::new(7),
        };
        let history = HistoryKey { session: 2.into(), sequence: 99.into() };
        let mut orders = [None; 10];
        orders[4] = Some(OrderId::new(2101));
        let effects = [
            Effect::NewOrder { key: order, customer: CustomerId::new(5), lines: 15 },
            Effect::Payment { key: history, district, customer, amount: Cents::new(-12_345) },
            Effect::Delivery { warehouse, carrier: CarrierId::new(9), orders },
            Effect::Nothing,
        ];
        let acknowledged =
            |(at, effect)| Line::Acknowledged(Acknowledged { client: at as u32, sequence: 1 << 40, effect });
        let marks = [Line::MidInterval(1234.5)];
        effects.into_iter().enumerate().map(acknowledged).chain(marks).collect()
    }

    #[test]
    fn lines_read_back_as_they_were_and_a_torn_one_is_dropped() {
        let mut text: String = lines().iter().map(|line| format!("{line}\n")).collect();
        text.push_str("ack 1 2 payment 3 4");
        let mut read = Vec::new();
        read_record(text.as_bytes(), |line| {
            read.push(line);
            Ok(())
        })
        .expect("all lines are ours");
        assert_eq!(read, lines());
    }

    #[test]
    fn other_lines_are_refused() {
        for text in [
            "",
            "hello",
            "ack",
            "ack 1 2",
            "ack 1 2 nothing more",
            "ack 1 2 delivery 1 2 3",
            "mid-interval x",
        ] {
            let refused = text.parse::<Line>().expect_err("not a line of ours").to_string();
            assert!(refused.contains(&format!("{text:?}")), "{refused}");
        }
    }
}
