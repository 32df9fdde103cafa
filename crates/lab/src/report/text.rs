//! Numbers as text, one way for every table.

use entresol_runtime::say::thousands;

/// Shown where there is no number.
pub const NONE: &str = "–";

/// A share as per cent with one decimal, without the sign.
pub fn percent(share: f64) -> String {
    decimal(share * 100.0, 1)
}

/// A number with `digits` decimals, thousands set apart.
pub fn decimal(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        return NONE.into();
    }
    let shown = format!("{:.digits$}", value.abs());
    let units = shown.find('.').unwrap_or(shown.len());
    let text = thousands(&shown[..units]) + &shown[units..];
    if value < 0.0 && shown.contains(|digit| ('1'..='9').contains(&digit)) {
        format!("-{text}")
    } else {
        text
    }
}

/// A number among others of which `largest` is the largest: two decimals where that is below ten, else none.
pub fn at_scale(value: f64, largest: f64) -> String {
    if largest.abs() < 10.0 { decimal(value, 2) } else { whole(value) }
}

/// A number without decimals.
pub fn whole(value: f64) -> String {
    decimal(value, 0)
}

/// An amount of money: four decimals below 1, none from a thousand on.
pub fn amount(money: f64) -> String {
    match money {
        money if money >= 1000.0 => whole(money),
        money if money >= 1.0 => decimal(money, 2),
        money => decimal(money, 4),
    }
}

/// A number with half the width of its interval, if that is known.
pub fn with_half(value: String, half: Option<String>) -> String {
    half.map_or(value.clone(), |half| format!("{value} ± {half}"))
}

/// Seconds: whole ones without decimals, others with two.
pub fn seconds(value: f64) -> String {
    if value.fract().abs() < 1e-9 { decimal(value, 0) } else { decimal(value, 2) }
}

/// Bytes in the largest unit that leaves at least one before the point.
pub fn size_of(bytes: f64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let units = units.map(|(shift, unit)| ((1_u64 << shift) as f64, unit));
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", bytes / unit),
        None => format!("{bytes:.0} bytes"),
    }
}

/// Microseconds in the largest unit that leaves at least one before the point.
pub fn time_of(us: f64) -> String {
    match us {
        us if us >= 1e6 => format!("{:.2} s", us / 1e6),
        us if us >= 1e3 => format!("{:.2} ms", us / 1e3),
        us => format!("{us:.1} µs"),
    }
}

/// What numbers from so many samples are, each of a share of the pages.
pub fn estimates(rate: f64, hashes: u32) -> String {
    match hashes {
        1 => format!("Estimates from one sample of {rate} of the pages."),
        _ => format!(
            "Estimates from {hashes} samples, each of {rate} of the pages: ± is half the interval that holds the mean \
             with 95 %."
        ),
    }
}

/// A number or [`NONE`].
pub fn or_none(value: Option<f64>, show: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| NONE.into(), show)
}

/// Whether a thing holds, in a word.
pub fn yes_no(holds: bool) -> String {
    if holds { "yes" } else { "NO" }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        let shown = [0.0, 999.4, 1000.0, 12_208.0, 1_234_567.0, -4_321.0].map(whole);
        assert_eq!(shown, ["0", "999", "1,000", "12,208", "1,234,567", "-4,321"]);
        let shown = [(999.94, 1), (19_138.46, 1), (-1_000_000.5, 2), (-0.01, 1)];
        let shown = shown.map(|(value, digits)| decimal(value, digits));
        assert_eq!(shown, ["999.9", "19,138.5", "-1,000,000.50", "0.0"]);
    }

    #[test]
    fn small_numbers_have_decimals() {
        assert_eq!([at_scale(0.756, 1.0), at_scale(0.756, 96.0)], ["0.76", "1"]);
    }

    #[test]
    fn money_and_sizes_have_the_digits_that_matter() {
        assert_eq!([0.01234, 3.456, 1_234.5].map(amount), ["0.0123", "3.46", "1,234"]);
        assert_eq!([0.5, 407.12, 12_950.0, 2.5e6].map(time_of), ["0.5 µs", "407.1 µs", "12.95 ms", "2.50 s"]);
        let sizes = [1.5 * 1099511627776.0, 1.5e9, 1048576.0, 2048.0, 100.0].map(size_of);
        assert_eq!(sizes, ["1.5 TiB", "1.4 GiB", "1.0 MiB", "2.0 KiB", "100 bytes"]);
    }

    #[test]
    fn what_is_no_number_is_a_dash() {
        assert_eq!([whole(f64::NAN), decimal(f64::INFINITY, 1), or_none(None, whole)], [NONE; 3]);
        assert_eq!(percent(0.7294), "72.9");
    }
}
