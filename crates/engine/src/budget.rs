//! Writes to flash within so many bytes a day.
//!
//! A bucket fills at the rate of the budget, up to an hour's worth, and every byte that is written to flash
//! leaves it. As it empties, the pages that save least are dropped first. Policies that weigh costs are told
//! how much a write must be worth: the emptier the bucket, the more, until as much is written as flows in.
//! With other policies, pages that were only read stay out first, then there are no second chances, then
//! writes go to disk instead. So a burst is served, and the day's sum is kept to within an hour's worth.

use entresol_core::Costs;
use std::time::Duration;
use thiserror::Error;

const DAY: Duration = Duration::from_secs(86_400);
/// What the bucket holds, as a time.
const HOLDS: Duration = Duration::from_secs(3_600);
/// Below these parts of a full bucket, pages that were read do not enter, and no page gets a second chance.
const FOR_READS: f64 = 0.5;
const FOR_CHANCES: f64 = 0.25;
/// From the first of these parts of a full bucket down to the second, the uses that a write must promise rise
/// from none to two: a use of a dirty page saves a read and a write.
const WORTH: (f64, f64) = (0.9, 0.1);

/// How much may be written to flash.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DailyWrites {
    /// As much as there is.
    Unlimited,
    /// So many bytes a day.
    Bytes(u64),
    /// So many times the size of the device a day.
    DeviceWrites(f64),
}

/// The least budget in bytes: less is a unit that was forgotten.
const BYTES_MIN: u64 = 1 << 20;

/// Why a text is no budget.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotABudget {
    /// It has another form.
    #[error(
        "flash_writes_per_day = {0:?} is not understood; write \"unlimited\", device writes such as \"0.5x\", or bytes such \
         as \"200G\" (K, M, G, T are powers of 1024)"
    )]
    Form(String),
    /// So few bytes are a unit that was forgotten.
    #[error(
        "flash_writes_per_day = {0:?} is less than a megabyte a day; was a unit forgotten? Write device writes such as \
         \"0.5x\", or bytes such as \"200G\" (K, M, G, T are powers of 1024)"
    )]
    TooFew(String),
}

/// A number of bytes: digits, with K, M, G or T for powers of 1,024. `None`: it is something else.
pub fn bytes_of(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(['K', 'M', 'G', 'T']);
    let shift = match &text[digits.len()..] {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return None,
    };
    let bytes = digits.parse::<f64>().ok()? * (1_u64 << shift) as f64;
    (0.0..(1_u64 << 60) as f64).contains(&bytes).then_some(bytes as u64)
}

impl DailyWrites {
    /// Reads `"unlimited"`, `"0.5x"` or `"200G"`.
    ///
    /// # Errors
    /// [`NotABudget`].
    pub fn read(text: &str) -> Result<Self, NotABudget> {
        let wrong = || NotABudget::Form(text.to_owned());
        if text == "unlimited" {
            return Ok(Self::Unlimited);
        }
        if let Some(times) = text.strip_suffix('x') {
            let times: f64 = times.parse().map_err(|_| wrong())?;
            return if times.is_finite() && times > 0.0 {
                Ok(Self::DeviceWrites(times))
            } else {
                Err(wrong())
            };
        }
        match bytes_of(text).ok_or_else(wrong)? {
            bytes if bytes < BYTES_MIN => Err(NotABudget::TooFew(text.to_owned())),
            bytes => Ok(Self::Bytes(bytes)),
        }
    }

    /// Bytes a day, of a flash device of `device_bytes`. `None`: there is no limit.
    pub fn bytes(self, device_bytes: u64) -> Option<u64> {
        match self {
            Self::Unlimited => None,
            Self::Bytes(bytes) => Some(bytes),
            Self::DeviceWrites(times) => Some((times * device_bytes as f64) as u64),
        }
    }
}

/// A budget that a tier keeps by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteBudget {
    /// `None`: no limit.
    pub bytes_per_day: Option<u64>,
    /// The bucket holds as much as flows in in so long a time: an hour, usually.
    pub holds: Duration,
}

impl WriteBudget {
    /// No limit.
    pub const UNLIMITED: Self = Self { bytes_per_day: None, holds: HOLDS };

    pub(crate) fn begin(self) -> Budget {
        Budget::holding(self.bytes_per_day, self.holds)
    }
}

/// What may still be written to flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// Pages that were read enter.
    pub reads: bool,
    /// Pages get second chances.
    pub chances: bool,
    /// Writes go to flash.
    pub writes: bool,
}

/// See the module's header.
#[derive(Clone, Debug)]
pub struct Budget {
    bytes_per_day: Option<u64>,
    /// The bucket holds as much as flows in in this time.
    holds: Duration,
    /// Negative: more was written than there was room for.
    bytes: f64,
}

impl Budget {
    /// A bucket that is full.
    pub fn new(bytes_per_day: Option<u64>) -> Self {
        Self::holding(bytes_per_day, HOLDS)
    }

    /// A full bucket that holds as much as flows in in so long a time, instead of an hour: for traces of a
    /// few minutes.
    pub fn holding(bytes_per_day: Option<u64>, holds: Duration) -> Self {
        let mut budget = Self { bytes_per_day, holds, bytes: 0.0 };
        budget.bytes = budget.holds();
        budget
    }

    /// Whether there is a limit at all.
    pub fn is_limited(&self) -> bool {
        self.bytes_per_day.is_some()
    }

    fn per(&self, time: Duration) -> f64 {
        self.bytes_per_day.unwrap_or(0) as f64 * (time.as_secs_f64() / DAY.as_secs_f64())
    }

    fn holds(&self) -> f64 {
        self.per(self.holds)
    }

    /// `passed` after the last time; `written` bytes were written since then.
    pub fn tick(&mut self, passed: Duration, written: u64) {
        self.bytes = (self.bytes + self.per(passed) - written as f64).min(self.holds());
    }

    /// What may be written now.
    pub fn allowed(&self) -> Allowed {
        let has = |part: f64| self.bytes_per_day.is_none() || self.bytes > part * self.holds();
        Allowed { reads: has(FOR_READS), chances: has(FOR_CHANCES), writes: has(0.0) }
    }

    /// Uses that a write must promise, in thousandths.
    pub fn write_worth_permille(&self) -> u32 {
        if self.bytes_per_day.is_none() {
            return 0;
        }
        let (none, most) = WORTH;
        let full = self.bytes / self.holds().max(1.0);
        let max = f64::from(Costs::WRITE_WORTH_MAX);
        ((none - full) / (none - most) * max).clamp(0.0, max) as u32
    }

    /// Bytes that may be written at once. `None`: there is no limit.
    pub fn left(&self) -> Option<u64> {
        self.bytes_per_day.map(|_| self.bytes.max(0.0) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_read() {
        let read = |text| DailyWrites::read(text).map(|budget| budget.bytes(1000));
        assert_eq!(read("unlimited"), Ok(None));
        assert_eq!(read("1.5x"), Ok(Some(1500)));
        assert_eq!(read("4194304"), Ok(Some(4 << 20)));
        assert_eq!(read("1024.5K"), Ok(Some((1 << 20) + 512)));
        assert_eq!(read("2G"), Ok(Some(2 << 30)));
        // A unit was forgotten.
        for few in ["0.5", "1", "200", "0.5K", "1048575"] {
            assert!(matches!(DailyWrites::read(few), Err(NotABudget::TooFew(_))), "{few}");
        }
        for wrong in ["", "x", "0x", "-1G", "1 G", "1xG", "GG", "1KB", "NaN", "inf"] {
            assert_eq!(read(wrong), Err(NotABudget::Form(wrong.to_owned())));
        }
    }

    /// A day of more writes than are allowed, each kind asking as often as it is let.
    #[test]
    fn a_day_stays_within_the_budget_and_writes_go_last() {
        const LIMIT: u64 = 86_400 << 20;
        let mut budget = Budget::new(Some(LIMIT));
        let mut sums = [0_u64; 3];
        let mut last_refused = [false; 3];
        for second in 0..86_400_u64 {
            let Allowed { reads, chances, writes } = budget.allowed();
            assert!(writes >= chances && chances >= reads);
            // Together three times what is allowed; writes alone would be half of it.
            let wanted = [2 << 20, 1 << 19, 1 << 19];
            let mut written = 0;
            for (at, is_allowed) in [reads, chances, writes].into_iter().enumerate() {
                if is_allowed {
                    sums[at] += wanted[at];
                    written += wanted[at];
                }
                last_refused[at] |= !is_allowed && second > 7_200;
            }
            budget.tick(Duration::from_secs(1), written);
        }
        let sum: u64 = sums.iter().sum();
        assert!(sum <= LIMIT + LIMIT / 24 + (4 << 20), "{sum} of {LIMIT}");
        assert!(sum >= LIMIT * 19 / 20, "{sum} of {LIMIT}");
        assert_eq!(last_refused, [true, false, false], "{sums:?}");
    }

    /// Pages whose worths are spread evenly, five times as many as are allowed.
    #[test]
    fn a_policy_that_weighs_writes_stays_within_the_budget() {
        const LIMIT: u64 = 86_400 << 20;
        let mut budget = Budget::new(Some(LIMIT));
        let mut sum = 0;
        for _ in 0..86_400 {
            let worth_it = 1000 - u64::from(budget.write_worth_permille());
            let written = (5 << 20) * worth_it / 1000;
            sum += written;
            budget.tick(Duration::from_secs(1), written);
        }
        assert!((LIMIT..=LIMIT + LIMIT / 48).contains(&sum), "{sum} of {LIMIT}");
        let allowed = budget.allowed();
        assert!(allowed.reads && allowed.chances && allowed.writes, "nothing else is refused");
    }

    /// More dirty pages, whose uses save twice as much, are sure to be used than may be written.
    #[test]
    fn a_policy_whose_writes_are_all_worth_it_stays_within_the_budget() {
        const LIMIT: u64 = 86_400 << 20;
        let mut budget = Budget::new(Some(LIMIT));
        let mut sum = 0;
        for _ in 0..86_400 {
            // Worths from one use to two, evenly.
            let worth_it = (2000 - u64::from(budget.write_worth_permille())).min(1000);
            let written = (5 << 20) * worth_it / 1000;
            sum += written;
            budget.tick(Duration::from_secs(1), written);
        }
        assert!((LIMIT..=LIMIT + LIMIT / 24).contains(&sum), "{sum} of {LIMIT}");
    }

    #[test]
    fn without_a_limit_everything_is_allowed() {
        let mut budget = Budget::new(None);
        budget.tick(Duration::from_secs(1), 1 << 50);
        assert_eq!(budget.allowed(), Allowed { reads: true, chances: true, writes: true });
        assert_eq!((budget.left(), budget.write_worth_permille()), (None, 0));
    }
}
