//! Plots as inline SVG, made by plotters.
//!
//! Invariant: a plot is legible on a light and on a dark page. Text and axes take the page's own text colour
//! (`currentColor`), which plotters cannot name, so they are drawn in a marker colour that is replaced afterwards; series
//! have colours of middle brightness. No font is needed: plotters' SVG backend writes text as text.

use super::model::{BarChart, Chart, Line, LineChart};
use super::text::whole;
use crate::config::System;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::error::Error;

/// Stands for the page's text colour.
const INK: RGBColor = RGBColor(1, 2, 3);
const INK_HEX: &str = "#010203";
const WIDTH: u32 = 860;
const HEIGHT: u32 = 380;
const FONT: &str = "sans-serif";

/// Colours of the systems in the order of [`System::ALL`] while they last; others have one of the rest by their name.
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

fn colour(series: &str) -> RGBColor {
    const OTHERS: usize = 7;
    let rank = System::ALL.iter().position(|system| system.name() == series);
    let other = || {
        let sum = series.bytes().fold(0usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        COLOURS.len() - OTHERS + sum % OTHERS
    };
    COLOURS[rank.filter(|rank| *rank < COLOURS.len()).unwrap_or_else(other)]
}

fn ink(size: f64) -> TextStyle<'static> {
    (FONT, size).into_font().color(&INK)
}

/// The plot as one `<svg>` element, with its title as accessible name.
pub fn render(chart: &Chart) -> String {
    let mut svg = String::new();
    let (title, drawn) = match chart {
        Chart::Bars(chart) => (&chart.title, bars(chart, &mut svg)),
        Chart::Lines(chart) => (&chart.title, lines(chart, &mut svg)),
    };
    drawn.expect("drawing into a String cannot fail: ranges are finite and not empty");
    let label = super::html::escaped(title);
    let (width, height) = (WIDTH, HEIGHT);
    let sized = format!("<svg width=\"{width}\" height=\"{height}\"");
    svg.replace(INK_HEX, "currentColor").replacen(
        &sized,
        &format!("<svg role=\"img\" aria-label=\"{label}\""),
        1,
    )
}

/// The top of the vertical axis: a little above the largest value.
fn top(values: impl Iterator<Item = f64>) -> f64 {
    let largest = values.filter(|v| v.is_finite()).fold(0.0, f64::max);
    if largest > 0.0 { largest * 1.08 } else { 1.0 }
}

fn bars(chart: &BarChart, svg: &mut String) -> Result<(), Box<dyn Error>> {
    let root = SVGBackend::with_string(svg, (WIDTH, HEIGHT)).into_drawing_area();
    let all = || chart.groups.iter().flat_map(|group| &group.bars);
    let width: usize = chart.groups.iter().map(|group| group.bars.len() + 1).sum();
    let mut plot = ChartBuilder::on(&root)
        .margin(12)
        .set_label_area_size(LabelAreaPosition::Left, 74)
        .set_label_area_size(LabelAreaPosition::Bottom, 44)
        .build_cartesian_2d(0.0..width.max(1) as f64, 0.0..top(all().map(|bar| bar.value)))?;
    plot.configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .light_line_style(TRANSPARENT)
        .bold_line_style(INK.mix(0.15))
        .axis_style(INK.mix(0.5))
        .label_style(ink(13.0))
        .axis_desc_style(ink(14.0))
        .y_desc(&chart.y_label)
        .y_label_formatter(&|y| whole(*y))
        .draw()?;
    let centred = |size: f64, v: VPos| ink(size).pos(Pos::new(HPos::Center, v));
    let mut x = 0.5;
    for group in &chart.groups {
        let left = x;
        for bar in &group.bars {
            let value = if bar.value.is_finite() { bar.value.max(0.0) } else { 0.0 };
            plot.draw_series([Rectangle::new(
                [(x + 0.08, 0.0), (x + 0.92, value)],
                colour(&bar.series).filled(),
            )])?;
            let above = plot.backend_coord(&(x + 0.5, value));
            root.draw_text(&whole(bar.value), &centred(12.0, VPos::Bottom), (above.0, above.1 - 3))?;
            x += 1.0;
        }
        let below = plot.backend_coord(&(f64::midpoint(left, x), 0.0));
        root.draw_text(&group.label, &centred(13.0, VPos::Top), (below.0, below.1 + 8))?;
        x += 1.0;
    }
    drop(plot);
    root.present()?;
    Ok(())
}

fn lines(chart: &LineChart, svg: &mut String) -> Result<(), Box<dyn Error>> {
    let root = SVGBackend::with_string(svg, (WIDTH, HEIGHT)).into_drawing_area();
    let points = || chart.lines.iter().flat_map(|line| &line.points);
    let (left, right) = points().fold((f64::MAX, f64::MIN), |(l, r), (x, _)| (l.min(*x), r.max(*x)));
    let (left, right) = if left < right { (left, right) } else { (0.0, 1.0) };
    let mut plot = ChartBuilder::on(&root)
        .margin(12)
        .margin_right(24)
        .set_label_area_size(LabelAreaPosition::Left, 74)
        .set_label_area_size(LabelAreaPosition::Bottom, 50)
        .build_cartesian_2d(left..right, 0.0..top(points().map(|(_, y)| *y)))?;
    plot.configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(INK.mix(0.15))
        .axis_style(INK.mix(0.5))
        .label_style(ink(13.0))
        .axis_desc_style(ink(14.0))
        .x_desc(&chart.x_label)
        .y_desc(&chart.y_label)
        .x_label_formatter(&|x| whole(*x))
        .y_label_formatter(&|y| whole(*y))
        .draw()?;
    for line in &chart.lines {
        draw_line(&mut plot, line)?;
    }
    drop(plot);
    root.present()?;
    Ok(())
}

type Plot<'a, 'b> = ChartContext<
    'a,
    SVGBackend<'b>,
    Cartesian2d<plotters::coord::types::RangedCoordf64, plotters::coord::types::RangedCoordf64>,
>;

/// Ours solid with points, the paper's dashed.
fn draw_line(plot: &mut Plot<'_, '_>, line: &Line) -> Result<(), Box<dyn Error>> {
    let colour = colour(&line.series);
    let points = line.points.iter().copied();
    if line.paper {
        plot.draw_series(DashedLineSeries::new(points, 5, 5, colour.mix(0.75).stroke_width(2)))?;
    } else {
        plot.draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))?;
        if line.points.len() <= 12 {
            plot.draw_series(points.map(|point| Circle::new(point, 4, colour.filled())))?;
        }
    }
    Ok(())
}

/// `#rrggbb` of a series, for a legend beside the plot.
pub fn colour_hex(series: &str) -> String {
    let RGBColor(red, green, blue) = colour(series);
    format!("#{red:02x}{green:02x}{blue:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Bar, BarGroup};

    fn bar(series: &str, value: f64) -> Bar {
        Bar { series: series.into(), value }
    }

    #[test]
    fn text_is_text_in_the_pages_colour() {
        let groups =
            vec![BarGroup { label: "flash 8 %".into(), bars: vec![bar("lc", 1234.0), bar("face", 0.0)] }];
        let svg = render(&Chart::Bars(BarChart { title: "a <b>".into(), y_label: "tpmC".into(), groups }));
        assert!(svg.starts_with("<svg role=\"img\" aria-label=\"a &lt;b&gt;\" viewBox="), "{svg}");
        for expected in ["1,234", "flash 8 %", "tpmC", "currentColor", &colour_hex("lc").to_uppercase()] {
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
            in_terminal: false,
        };
        render(&Chart::Lines(one_point));
    }
}
