//! Progress bars on stderr, with a rate and the time left: of an experiment, one for the load and one for
//! each run; of runs over a trace; of anything that is counted. Nothing is drawn where stderr is not a
//! terminal.

use entresol_lab::config::Stage;
use indicatif::{
    HumanBytes, HumanCount, HumanDuration, MultiProgress, ProgressBar, ProgressState, ProgressStyle,
};
use std::fmt::{self, Write};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Steps of a run's bar.
const STEPS: u64 = 1000;
/// A rate is told of no shorter time.
const MOMENT_S: f64 = 1e-3;
/// A bar is drawn with them: done, its end, not done.
const CHARS: &str = "━╸─";

/// The bars of one experiment.
pub struct Bars {
    all: MultiProgress,
    load: ProgressBar,
    runs: Vec<ProgressBar>,
}

impl Bars {
    /// A bar for the load and one for each name.
    pub fn new(names: &[String]) -> Self {
        let all = MultiProgress::new();
        let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max("database".len());
        let template = format!("{{prefix:{width}}}  {{bar:32.cyan/dim}}  {{msg}}");
        let style = ProgressStyle::with_template(&template)
            .expect("the template is fixed but for a width")
            .progress_chars(CHARS);
        let bar = |name: &str| {
            let bar = all.add(ProgressBar::new(STEPS).with_style(style.clone()).with_prefix(name.to_owned()));
            bar.set_message("waiting");
            bar
        };
        let load = bar("database");
        let runs = names.iter().map(|name| bar(name)).collect();
        Self { all, load, runs }
    }

    /// Shows how far a run is; `usize::MAX` is the load.
    pub fn show(&self, run: usize, stage: &Stage) {
        let bar = self.runs.get(run).unwrap_or(&self.load);
        match stage {
            Stage::Loading(rows, rows_total) => {
                bar.set_position(scaled(*rows as f64 / (*rows_total).max(1) as f64));
                let rate = *rows as f64 / bar.elapsed().as_secs_f64().max(MOMENT_S);
                bar.set_message(format!(
                    "loading, {} of {} rows, {}/s",
                    HumanCount(*rows),
                    HumanCount(*rows_total),
                    HumanCount(rate as u64)
                ));
            }
            Stage::Warming(seconds) => {
                bar.reset_eta();
                bar.set_message(format!("warming up, {seconds:.0} s"));
            }
            Stage::Measuring(share) => {
                bar.set_position(scaled(*share));
                let left = HumanDuration(bar.eta());
                let (percent, pace) = (share * 100.0, pace(bar.per_sec()));
                bar.set_message(format!("measuring, {percent:.0} %, {pace}, {left:#} left"));
            }
            Stage::Checking => {
                bar.set_position(STEPS);
                bar.set_message("checking consistency");
            }
            Stage::Restarting => bar.set_message("restarting after the kill"),
            Stage::Done => {
                bar.set_position(STEPS);
                bar.finish_with_message("done");
            }
        }
    }
}

/// One bar for several runs over a trace.
pub struct Share {
    bar: ProgressBar,
    shares: Mutex<Vec<f64>>,
    /// Requests of all runs; 0: only shares are known.
    requests: u64,
}

impl Share {
    /// A bar called `name` for so many runs.
    pub fn new(name: &str, runs: usize) -> Self {
        let style = Self::style("{percent} %, {pace}, {eta} left  {msg}");
        let bar = ProgressBar::new(STEPS).with_style(style).with_prefix(name.to_owned());
        Self { bar, shares: Mutex::new(vec![0.0; runs.max(1)]), requests: 0 }
    }

    /// Shows how many requests a second are replayed, as all runs together have so many.
    pub fn of_requests(mut self, requests: u64) -> Self {
        self.requests = requests;
        self.bar.set_style(Self::style("{percent} %, {eta} left  {msg}"));
        self
    }

    fn style(told: &str) -> ProgressStyle {
        ProgressStyle::with_template(&format!("{{prefix}}  {{bar:32.cyan/dim}}  {told}"))
            .expect("the template is fixed but for what it tells")
            .progress_chars(CHARS)
            .with_key("pace", |state: &ProgressState, out: &mut dyn Write| {
                // A pace that cannot be shown is left out.
                let _ = out.write_str(&pace(state.per_sec()));
            })
    }

    /// Shows the present step, and the share of all that is done.
    pub fn tell(&self, what: &str, share: f64) {
        self.bar.set_message(what.to_owned());
        self.bar.set_position(scaled(share));
    }

    /// Shows that so much of a run is done.
    pub fn show(&self, run: usize, share: f64) {
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        shares[run] = share;
        let share = shares.iter().sum::<f64>() / shares.len() as f64;
        self.bar.set_position(scaled(share));
        let rate = share * self.requests as f64 / self.bar.elapsed().as_secs_f64().max(MOMENT_S);
        if rate >= 1.0 {
            self.bar.set_message(format!("{} requests/s", HumanCount(rate as u64)));
        }
    }
}

impl Drop for Share {
    /// The bar makes room for the results.
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

impl Drop for Bars {
    /// The bars make room for the results, or for the sentence that says what failed.
    fn drop(&mut self) {
        // If the terminal is gone there is nothing to clear.
        let _ = self.all.clear();
    }
}

/// Per cent a second, of steps a second.
fn pace(steps_per_s: f64) -> String {
    format!("{:.1} %/s", steps_per_s * 100.0 / STEPS as f64)
}

fn scaled(share: f64) -> u64 {
    (share.clamp(0.0, 1.0) * STEPS as f64) as u64
}

/// A bar of one thing that is counted. It is removed when this is dropped.
#[derive(Clone)]
pub struct Counted(Arc<Bar>);

struct Bar(ProgressBar);

impl Counted {
    /// Of `unit`, as in "reading  ━━━  1,200 of 4,800 groups, 300/s, 12s left".
    pub fn new(name: &str, unit: &str) -> Self {
        let template = format!(
            "{{prefix}}  {{bar:32.cyan/dim}}  {{human_pos}} of {{human_len}} {unit}, {{rate}}/s, {{eta}} left"
        );
        Self::styled(name, &template, |state, out| write!(out, "{}", HumanCount(state.per_sec() as u64)))
    }

    /// Of bytes.
    pub fn of_bytes(name: &str) -> Self {
        let template =
            "{prefix}  {bar:32.cyan/dim}  {binary_bytes} of {binary_total_bytes}, {rate}/s, {eta} left";
        Self::styled(name, template, |state, out| write!(out, "{}", HumanBytes(state.per_sec() as u64)))
    }

    fn styled(name: &str, template: &str, rate: fn(&ProgressState, &mut dyn Write) -> fmt::Result) -> Self {
        let style = ProgressStyle::with_template(template)
            .expect("the template is fixed but for a unit")
            .progress_chars(CHARS)
            .with_key("rate", move |state: &ProgressState, out: &mut dyn Write| {
                // A rate that cannot be shown is left out.
                let _ = rate(state, out);
            });
        Self(Arc::new(Bar(ProgressBar::new(0).with_style(style).with_prefix(name.to_owned()))))
    }

    /// So many of `total` are done.
    pub fn show(&self, done: u64, total: u64) {
        let Bar(bar) = &*self.0;
        if bar.length() != Some(total) {
            bar.set_length(total);
        }
        bar.set_position(done);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Bytes that are written, as many as there will be: not known before. It is removed when this is dropped.
pub struct Written(ProgressBar);

impl Written {
    /// None yet.
    pub fn begin() -> Self {
        let style =
            ProgressStyle::with_template("writing  {spinner}  {binary_bytes}, {binary_bytes_per_sec}");
        Self(ProgressBar::new_spinner().with_style(style.expect("the template is fixed")))
    }

    /// What is written to `out` counts.
    pub fn to<W: io::Write>(&self, out: W) -> impl io::Write {
        self.0.wrap_write(out)
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stage_moves_its_own_bar() {
        let bars = Bars::new(&["lc".into(), "face".into()]);
        bars.show(usize::MAX, &Stage::Loading(50, 100));
        bars.show(1, &Stage::Measuring(0.25));
        bars.show(0, &Stage::Warming(12.0));
        assert_eq!([bars.load.position(), bars.runs[0].position(), bars.runs[1].position()], [500, 0, 250]);
        assert_eq!(bars.runs[0].message(), "warming up, 12 s");
        bars.show(1, &Stage::Done);
        assert!(bars.runs[1].is_finished() && !bars.runs[0].is_finished());
    }

    #[test]
    fn the_bar_of_several_runs_shows_their_mean() {
        let share = Share::new("simulating", 4);
        share.show(0, 1.0);
        share.show(3, 0.5);
        assert_eq!(share.bar.position(), 375);
    }

    #[test]
    fn a_counted_bar_shows_what_it_was_told() {
        let bar = Counted::new("checking", "groups");
        bar.clone().show(3, 8);
        let Bar(drawn) = &*bar.0;
        assert_eq!((drawn.position(), drawn.length(), drawn.is_finished()), (3, Some(8), false));
    }

    #[test]
    fn shares_out_of_range_stay_on_the_bar() {
        assert_eq!([scaled(-1.0), scaled(f64::NAN), scaled(7.0)], [0, 0, STEPS]);
    }
}
