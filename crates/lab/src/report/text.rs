//! Numbers as text, one way for every table.

/// Shown where there is no number.
pub const NONE: &str = "–";

/// A share as per cent with one decimal, without the sign.
pub fn percent(share: f64) -> String {
    decimal(share * 100.0, 1)
}

/// A number with `digits` decimals.
pub fn decimal(value: f64, digits: usize) -> String {
    if value.is_finite() { format!("{value:.digits$}") } else { NONE.into() }
}

/// A number among others of which `largest` is the largest: two decimals where that is below ten, else none.
pub fn at_scale(value: f64, largest: f64) -> String {
    if largest.abs() < 10.0 { decimal(value, 2) } else { whole(value) }
}

/// A number without decimals, thousands set apart.
pub fn whole(value: f64) -> String {
    if !value.is_finite() {
        return NONE.into();
    }
    let digits = format!("{:.0}", value.abs());
    let mut text = String::with_capacity(digits.len() + digits.len() / 3 + 1);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 && digits != "0" { format!("-{text}") } else { text }
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
    }

    #[test]
    fn small_numbers_have_decimals() {
        assert_eq!([at_scale(0.756, 1.0), at_scale(0.756, 96.0)], ["0.76", "1"]);
    }

    #[test]
    fn what_is_no_number_is_a_dash() {
        assert_eq!([whole(f64::NAN), decimal(f64::INFINITY, 1), or_none(None, whole)], [NONE; 3]);
        assert_eq!(percent(0.7294), "72.9");
    }
}
