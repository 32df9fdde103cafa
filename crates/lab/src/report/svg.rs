//! Plots as inline SVG, made by plotters.
//!
//! Invariant: a plot is legible on a light and on a dark page. Text and axes take the page's own text colour
//! (`currentColor`), which plotters cannot name, so they are drawn in a marker colour that is replaced
//! afterwards; series have colours of middle brightness. No font is needed: plotters' SVG backend writes text
//! as text.

use super::model::{Axis, BarChart, Chart, LineChart};
use super::text::{at_scale, decimal, whole};
use entresol_core::System;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::error::Error;
use std::ops::Range;

/// Stands for the page's text colour.
const INK: RGBColor = RGBColor(1, 2, 3);
const INK_HEX: &str = "#010203";
const WIDTH: u32 = 860;
const HEIGHT: u32 = 380;
const FONT: &str = "sans-serif";
/// About how wide a digit of a number above a bar is, and all bars with the gaps between them.
const DIGIT_WIDTH: usize = 7;
const PLOT_WIDTH: usize = 760;
/// A horizontal axis whose first point is closer to zero than this share of it begins at zero.
const NEAR_ZERO: f64 = 0.1;
/// Most points of a line that show their values where the pointer is.
const HOVERS_MAX: usize = 200;
/// Most ticks of a horizontal axis.
const TICKS_MAX: f64 = 11.0;

/// Colours of the systems in the order of [`System::ALL`] while they last; other series have those of the
/// rest that come first.
const COLOURS: [RGBColor; 14] = [
    RGBColor(128, 134, 143),
    RGBColor(165, 105, 189),
    RGBColor(217, 83, 79),
    RGBColor(46, 158, 143),
    RGBColor(230, 138, 46),
    RGBColor(66, 133, 214),
    RGBColor(150, 120, 90),
    RGBColor(196, 77, 140),
    RGBColor(112, 148, 46),
    RGBColor(90, 110, 200),
    RGBColor(200, 160, 30),
    RGBColor(60, 170, 200),
    RGBColor(190, 110, 70),
    RGBColor(120, 160, 120),
];

/// What a plot's series are called, in the order in which they are drawn, and their colours: no two have the
/// same while there are enough.
struct Palette<'a>(Vec<(&'a str, RGBColor)>);

impl<'a> Palette<'a> {
    fn of(chart: &'a Chart) -> Self {
        let names: Vec<&str> = match chart {
            Chart::Bars(chart) => {
                chart.groups.iter().flat_map(|group| &group.bars).map(|bar| bar.series.as_str()).collect()
            }
            Chart::Lines(chart) => chart.lines.iter().map(|line| line.series.as_str()).collect(),
        };
        let mut series: Vec<&str> = Vec::new();
        for name in names {
            if !series.contains(&name) {
                series.push(name);
            }
        }
        let own = |name: &str| {
            let rank = System::ALL.iter().position(|system| system.name() == name)?;
            COLOURS.get(rank).copied()
        };
        let taken: Vec<RGBColor> = series.iter().filter_map(|name| own(name)).collect();
        let mut free = COLOURS.into_iter().filter(|colour| !taken.contains(colour)).cycle();
        let mut colour = |name| own(name).or_else(|| free.next()).unwrap_or(COLOURS[0]);
        Self(series.into_iter().map(|name| (name, colour(name))).collect())
    }

    fn colour(&self, series: &str) -> RGBColor {
        self.0.iter().find(|(name, _)| *name == series).map_or(COLOURS[0], |(_, colour)| *colour)
    }
}

/// The series of a plot and their colours as `#rrggbb`, for a legend.
pub fn legend(chart: &Chart) -> Vec<(&str, String)> {
    let hex = |RGBColor(red, green, blue)| format!("#{red:02x}{green:02x}{blue:02x}");
    Palette::of(chart).0.into_iter().map(|(name, colour)| (name, hex(colour))).collect()
}

fn ink(size: f64) -> TextStyle<'static> {
    (FONT, size).into_font().color(&INK)
}

/// The plot as one `<svg>` element, with its title as accessible name.
pub fn render(chart: &Chart) -> String {
    let mut svg = String::new();
    let palette = Palette::of(chart);
    let (title, drawn) = match chart {
        Chart::Bars(chart) => (&chart.title, bars(chart, &palette, &mut svg)),
        Chart::Lines(chart) => (&chart.title, lines(chart, &palette, &mut svg)),
    };
    let hovers = drawn.expect("drawing into a String cannot fail: ranges are finite and not empty");
    let svg = svg.replacen("</svg>", &format!("{hovers}</svg>"), 1);
    let label = super::html::escaped(title);
    let (width, height) = (WIDTH, HEIGHT);
    let sized = format!("<svg width=\"{width}\" height=\"{height}\"");
    svg.replace(INK_HEX, "currentColor").replacen(
        &sized,
        &format!("<svg role=\"img\" aria-label=\"{label}\""),
        1,
    )
}

fn largest(values: impl Iterator<Item = f64>) -> f64 {
    values.filter(|v| v.is_finite()).fold(0.0, f64::max)
}

/// The top of the vertical axis: so many times the largest value.
fn top(largest: f64, room: f64) -> f64 {
    if largest > 0.0 { largest * room } else { 1.0 }
}

/// A number on an axis that reaches so far.
fn on_axis(value: f64, reach: f64) -> String {
    match reach {
        reach if reach < 1.0 => decimal(value, 2),
        reach if reach < 10.0 => decimal(value, 1),
        _ => whole(value),
    }
}

/// The bars; returns what is shown where the pointer is.
fn bars(chart: &BarChart, palette: &Palette<'_>, svg: &mut String) -> Result<String, Box<dyn Error>> {
    let root = SVGBackend::with_string(svg, (WIDTH, HEIGHT)).into_drawing_area();
    let all = || chart.groups.iter().flat_map(|group| &group.bars);
    let width: usize = chart.groups.iter().map(|group| group.bars.len() + 1).sum();
    let highest = largest(all().map(|bar| bar.value));
    // Where bars are narrower than their numbers, these are turned.
    let digits = all().map(|bar| at_scale(bar.value, highest).chars().count()).max().unwrap_or(0);
    let narrow = width * digits * DIGIT_WIDTH > PLOT_WIDTH;
    let mut plot = ChartBuilder::on(&root)
        .margin(12)
        .set_label_area_size(LabelAreaPosition::Left, 74)
        .set_label_area_size(LabelAreaPosition::Bottom, 44)
        .build_cartesian_2d(0.0..width.max(1) as f64, 0.0..top(highest, if narrow { 1.18 } else { 1.08 }))?;
    plot.configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .light_line_style(TRANSPARENT)
        .bold_line_style(INK.mix(0.15))
        .axis_style(INK.mix(0.5))
        .label_style(ink(13.0))
        .axis_desc_style(ink(14.0))
        .y_desc(&chart.y_label)
        .y_label_formatter(&|y| on_axis(*y, highest))
        .draw()?;
    let centred = |size: f64, v: VPos| ink(size).pos(Pos::new(HPos::Center, v));
    let above_bar = if narrow {
        let turned = (FONT, 11.0).into_font().transform(FontTransform::Rotate270).color(&INK);
        turned.pos(Pos::new(HPos::Left, VPos::Center))
    } else {
        centred(12.0, VPos::Bottom)
    };
    let mut hovers = String::new();
    let mut x = 0.5;
    for group in &chart.groups {
        let left = x;
        for bar in &group.bars {
            let value = if bar.value.is_finite() { bar.value.max(0.0) } else { 0.0 };
            plot.draw_series([Rectangle::new(
                [(x + 0.08, 0.0), (x + 0.92, value)],
                palette.colour(&bar.series).filled(),
            )])?;
            let above = plot.backend_coord(&(x + 0.5, value));
            let said = format!("{}, {}: {}", bar.series, group.label, at_scale(bar.value, highest));
            hovers.push_str(&hover(above, &said));
            let number = at_scale(bar.value, highest);
            root.draw_text(&number, &above_bar, (above.0, above.1 - 3))?;
            x += 1.0;
        }
        let below = plot.backend_coord(&(f64::midpoint(left, x), 0.0));
        root.draw_text(&group.label, &centred(13.0, VPos::Top), (below.0, below.1 + 8))?;
        x += 1.0;
    }
    drop(plot);
    root.present()?;
    drop(root);
    Ok(hovers)
}

/// The lines; returns what is shown where the pointer is.
fn lines(chart: &LineChart, palette: &Palette<'_>, svg: &mut String) -> Result<String, Box<dyn Error>> {
    let root = SVGBackend::with_string(svg, (WIDTH, HEIGHT)).into_drawing_area();
    let at = |x: f64| if chart.axis == Axis::Even { x } else { x.log2() };
    let points = || chart.lines.iter().flat_map(|line| &line.points);
    let (left, right) = points().fold((f64::MAX, f64::MIN), |(l, r), (x, _)| (l.min(at(*x)), r.max(at(*x))));
    let (left, right) = match (left, right) {
        (left, right) if left >= right => (0.0, 1.0),
        (left, right) if left > 0.0 && left < right * NEAR_ZERO && chart.axis == Axis::Even => (0.0, right),
        ends => ends,
    };
    let highest = largest(points().map(|(_, y)| *y));
    let ticks = ticks(chart, left, right);
    let mut plot = ChartBuilder::on(&root)
        .margin(12)
        .margin_right(24)
        .set_label_area_size(LabelAreaPosition::Left, 74)
        .set_label_area_size(LabelAreaPosition::Bottom, 50)
        .build_cartesian_2d(Ticked { range: left..right, ticks }, 0.0..top(highest, 1.08))?;
    let label = |x: &f64| match chart.axis {
        Axis::Even => on_axis(*x, step_of(chart, left, right) * 10.0),
        Axis::Doubling => whole(x.exp2()),
        Axis::Powers => round_number(x.exp2()),
    };
    plot.configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(INK.mix(0.15))
        .axis_style(INK.mix(0.5))
        .label_style(ink(13.0))
        .axis_desc_style(ink(14.0))
        .x_desc(&chart.x_label)
        .y_desc(&chart.y_label)
        .x_label_formatter(&label)
        .y_label_formatter(&|y| on_axis(*y, highest))
        .draw()?;
    let mut hovers = String::new();
    for line in &chart.lines {
        let named = line.points.iter().filter(|_| line.points.len() <= HOVERS_MAX);
        for (x, y) in named {
            let of = if line.paper { " (paper)" } else { "" };
            let x_shown = if x.fract() == 0.0 { whole(*x) } else { decimal(*x, 2) };
            let said = format!("{}{of}, {}: {x_shown}; {}", line.series, chart.x_label, on_axis(*y, highest));
            hovers.push_str(&hover(plot.backend_coord(&(at(*x), *y)), &said));
        }
        let points = line.points.iter().map(|(x, y)| (at(*x), *y)).collect();
        draw_line(&mut plot, line.paper, points, palette.colour(&line.series))?;
    }
    drop(plot);
    root.present()?;
    drop(root);
    Ok(hovers)
}

/// A place that shows a value while the pointer is there.
fn hover((x, y): (i32, i32), said: &str) -> String {
    let said = super::html::escaped(said);
    format!("<circle class=\"hover\" cx=\"{x}\" cy=\"{y}\" r=\"9\"><title>{said}</title></circle>\n")
}

/// A distance between ticks that a reader adds up easily: at most twelve fit, and none lies between whole
/// numbers where all points are such.
fn step_of(chart: &LineChart, left: f64, right: f64) -> f64 {
    let points = || chart.lines.iter().flat_map(|line| &line.points);
    let least = if points().all(|(x, _)| x.fract() == 0.0) { 1.0 } else { f64::MIN_POSITIVE };
    let ten = 10f64.powf(((right - left) / TICKS_MAX).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|times| times * ten);
    let fits = steps.into_iter().find(|step| (right - left) / step <= TICKS_MAX);
    fits.unwrap_or(ten * 10.0).max(least)
}

/// Where the horizontal axis is labelled: at each point where x doubles, else at multiples of a step.
fn ticks(chart: &LineChart, left: f64, right: f64) -> Vec<f64> {
    if chart.axis == Axis::Powers {
        return round_numbers(left.exp2(), right.exp2()).into_iter().map(f64::log2).collect();
    }
    if chart.axis == Axis::Doubling {
        let points = chart.lines.iter().flat_map(|line| &line.points);
        let mut ticks: Vec<f64> = points.map(|(x, _)| x.log2()).collect();
        ticks.sort_by(f64::total_cmp);
        ticks.dedup();
        return ticks;
    }
    let step = step_of(chart, left, right);
    let first = (left / step).ceil();
    (0..).map(|tick| (first + f64::from(tick)) * step).take_while(|x| *x <= right * (1.0 + 1e-9)).collect()
}

/// One, two and five times powers of ten from `low` to `high`, or powers of ten alone where those are too
/// many.
fn round_numbers(low: f64, high: f64) -> Vec<f64> {
    let powers = (low.log10().floor() as i32)..=(high.log10().ceil() as i32);
    let within = |x: &f64| (low * (1.0 - 1e-9)..=high * (1.0 + 1e-9)).contains(x);
    let times = |steps: &[f64]| {
        let of = |power: i32| steps.iter().map(move |step| step * 10f64.powi(power)).collect::<Vec<_>>();
        powers.clone().flat_map(of).filter(within).collect::<Vec<_>>()
    };
    let fine = times(&[1.0, 2.0, 5.0]);
    if fine.len() as f64 > TICKS_MAX { times(&[1.0]) } else { fine }
}

/// Such a number with the decimals that it has.
fn round_number(x: f64) -> String {
    let digits = (-x.log10() - 1e-9).ceil().max(0.0) as usize;
    if digits == 0 { whole(x) } else { decimal(x, digits) }
}

/// A horizontal axis with labels where we want them.
struct Ticked {
    range: Range<f64>,
    ticks: Vec<f64>,
}

impl Ranged for Ticked {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        RangedCoordf64::from(self.range.clone()).map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

type Plot<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Ticked, RangedCoordf64>>;

/// Ours solid with points, the paper's dashed.
fn draw_line(
    plot: &mut Plot<'_, '_>,
    paper: bool,
    points: Vec<(f64, f64)>,
    colour: RGBColor,
) -> Result<(), Box<dyn Error>> {
    if paper {
        plot.draw_series(DashedLineSeries::new(points, 5, 5, colour.mix(0.75).stroke_width(2)))?;
    } else {
        plot.draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)))?;
        if points.len() <= 12 {
            plot.draw_series(points.into_iter().map(|point| Circle::new(point, 4, colour.filled())))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Bar, BarGroup, Line};

    fn bar(series: &str, value: f64) -> Bar {
        Bar { series: series.into(), value }
    }

    #[test]
    fn text_is_text_in_the_pages_colour() {
        let groups =
            vec![BarGroup { label: "flash 8 %".into(), bars: vec![bar("lc", 1234.0), bar("face", 0.0)] }];
        let svg = render(&Chart::Bars(BarChart { title: "a <b>".into(), y_label: "tpmC".into(), groups }));
        assert!(svg.starts_with("<svg role=\"img\" aria-label=\"a &lt;b&gt;\" viewBox="), "{svg}");
        for expected in ["1,234", "flash 8 %", "tpmC", "currentColor", "#D9534F"] {
            assert!(svg.contains(expected), "{expected} in {svg}");
        }
        assert!(!svg.contains(INK_HEX) && !svg.contains("#000000"), "{svg}");
    }

    #[test]
    fn nothing_and_not_numbers_can_be_drawn() {
        let no_bars = BarChart { title: String::new(), y_label: String::new(), groups: Vec::new() };
        assert!(render(&Chart::Bars(no_bars)).ends_with("</svg>\n"));
        let groups =
            vec![BarGroup { label: String::new(), bars: vec![bar("lc", f64::NAN), bar("x", f64::INFINITY)] }];
        render(&Chart::Bars(BarChart { title: String::new(), y_label: String::new(), groups }));
        let lines = vec![Line { series: "lc".into(), paper: true, points: vec![(8.0, 1.0)] }];
        let one_point = LineChart {
            title: String::new(),
            x_label: String::new(),
            y_label: String::new(),
            lines,
            axis: Axis::Even,
            in_terminal: false,
        };
        render(&Chart::Lines(one_point));
    }

    fn line_chart(series: &[&str], x: &[f64], axis: Axis) -> Chart {
        let line = |name: &&str| Line {
            series: (*name).into(),
            paper: false,
            points: x.iter().map(|x| (*x, 0.5)).collect(),
        };
        let lines = series.iter().map(line).collect();
        let (title, x_label, y_label) = (String::new(), String::new(), String::new());
        Chart::Lines(LineChart { title, x_label, y_label, lines, axis, in_terminal: false })
    }

    #[test]
    fn no_two_series_have_one_colour_and_systems_keep_theirs() {
        let names = ["no cache", "sce, 20 GiB", "flashcache, 20 GiB", "lc", "loc, n = 2", "loc, n = 8"];
        let chart = line_chart(&names, &[1.0], Axis::Even);
        let legend = legend(&chart);
        assert_eq!(legend.iter().map(|(name, _)| *name).collect::<Vec<_>>(), names);
        for (at, (name, colour)) in legend.iter().enumerate() {
            assert!(legend[..at].iter().all(|(_, other)| other != colour), "{name}: {legend:?}");
        }
        assert_eq!(legend[3].1, "#d9534f", "lc's");
    }

    /// The texts under a plot.
    fn labels(chart: &Chart) -> Vec<String> {
        let svg = render(chart);
        let texts = svg.split("<text").skip(1).filter_map(|text| text.split('>').nth(1));
        texts.map(|text| text.replace("</text", "").trim().to_owned()).collect()
    }

    #[test]
    fn axes_are_labelled_where_a_reader_looks() {
        let steps = labels(&line_chart(&["lc"], &[1.0, 2.0, 5.0], Axis::Even));
        for label in ["1", "2", "3", "4", "5"] {
            assert_eq!(steps.iter().filter(|text| *text == label).count(), 1, "{label} in {steps:?}");
        }
        assert!(steps.contains(&"0.50".into()), "a height below 1 is told from 0: {steps:?}");
        let doubled = labels(&line_chart(&["lc", "glb"], &[1000.0, 2000.0, 16_000.0], Axis::Doubling));
        for label in ["1,000", "2,000", "16,000"] {
            assert_eq!(doubled.iter().filter(|text| *text == label).count(), 1, "{label} in {doubled:?}");
        }
        let dear = labels(&line_chart(&["lc"], &[12.0, 480.0, 5200.0], Axis::Powers));
        for label in ["20", "50", "100", "200", "500", "1,000", "2,000", "5,000"] {
            assert_eq!(dear.iter().filter(|text| *text == label).count(), 1, "{label} in {dear:?}");
        }
        let cheap = labels(&line_chart(&["lc"], &[0.016, 0.2, 2.07], Axis::Powers));
        for label in ["0.02", "0.1", "0.2", "0.5", "1", "2"] {
            assert_eq!(cheap.iter().filter(|text| *text == label).count(), 1, "{label} in {cheap:?}");
        }
        let wide = labels(&line_chart(&["lc"], &[0.001, 2_000_000.0], Axis::Powers));
        assert!(wide.contains(&"0.001".into()) && wide.contains(&"1,000,000".into()), "{wide:?}");
        assert!(!wide.contains(&"2,000".into()), "powers alone: {wide:?}");
        let money = labels(&line_chart(&["lc"], &[0.016, 0.2, 2.07], Axis::Even));
        assert!(money.contains(&"0.0".into()) && money.contains(&"1.4".into()), "{money:?}");
    }

    #[test]
    fn numbers_above_narrow_bars_are_turned() {
        let bars = |count: usize| {
            let bars: Vec<Bar> = (0..count).map(|_| bar("lc", 12_345.0)).collect();
            let groups = vec![BarGroup { label: String::new(), bars }];
            render(&Chart::Bars(BarChart { title: String::new(), y_label: "y".into(), groups }))
        };
        let turned = |svg: String| svg.matches("rotate(270").count();
        assert_eq!(turned(bars(40)) - turned(bars(4)), 40, "and the axis' name in both");
    }
}
