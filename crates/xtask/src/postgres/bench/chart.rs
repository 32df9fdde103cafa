//! Lines in an SVG file.

use anyhow::{Result, anyhow};
use plotters::prelude::*;
use std::path::Path;

/// A line's name and its points.
pub(super) type Line = (String, Vec<(f64, f64)>);

/// Draws `lines`, with the names of the two axes.
pub(super) fn draw(file: &Path, title: &str, (x, y): (&str, &str), lines: &[Line]) -> Result<()> {
    try_draw(file, title, (x, y), lines)
        .map_err(|error| anyhow!("{} cannot be drawn: {error}", file.display()))
}

fn try_draw(
    file: &Path,
    title: &str,
    (x, y): (&str, &str),
    lines: &[Line],
) -> Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::new(file, (900, 480)).into_drawing_area();
    root.fill(&WHITE)?;
    let most = |of: fn(&(f64, f64)) -> f64| {
        lines.iter().flat_map(|(_, points)| points.iter().map(of)).fold(1.0, f64::max) * 1.05
    };
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..most(|point| point.0), 0.0..most(|point| point.1))?;
    chart.configure_mesh().x_desc(x).y_desc(y).light_line_style(TRANSPARENT).draw()?;
    for (at, (name, points)) in lines.iter().enumerate() {
        let color = Palette99::pick(at).to_rgba();
        chart
            .draw_series(LineSeries::new(points.iter().copied(), color.stroke_width(2)))?
            .label(name.as_str())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()?;
    root.present()?;
    Ok(())
}
