//! The layout of a figure and its parts: panels, axes, lines, markers and legend.

use plotters::backend::DrawingBackend;
use plotters::coord::Shift;
use plotters::drawing::DrawingArea;
use plotters::element::{Circle, PathElement, Polygon, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontStyle, IntoFont, RGBColor, ShapeStyle, TextStyle};

use super::{Failure, Figure, Marker, Panel, Series, Style, failure};

const WIDTH: f64 = 1500.0;
const PANEL_HEIGHT: f64 = 420.0;
const MARGIN: f64 = 40.0;
const LEGEND_LINE: f64 = 40.0;
const LEGEND_SIZE: f64 = 21.0;
/// The name under which the fonts are registered.
pub const FONT: &str = "sans-serif";
const INK: RGBColor = RGBColor(35, 35, 35);
const FAINT: RGBColor = RGBColor(225, 225, 225);
const MUTED: RGBColor = RGBColor(95, 95, 95);

fn head_height(figure: &Figure) -> f64 {
    78.0 + 30.0 * figure.caption.len() as f64
}

/// The size of the figure in pixels.
pub fn size(figure: &Figure) -> (u32, u32) {
    let rows = figure.panels.len().div_ceil(figure.columns.max(1));
    let legend = LEGEND_LINE * legend_lines(figure).len() as f64;
    (WIDTH as u32, (head_height(figure) + rows as f64 * PANEL_HEIGHT + legend + 34.0) as u32)
}

fn font(size: f64, style: FontStyle) -> TextStyle<'static> {
    (FONT, size, style).into_font().into()
}

fn text_width(text: &str, size: f64) -> f64 {
    font(size, FontStyle::Normal).font.box_size(text).map_or(0.0, |(w, _)| f64::from(w))
}

/// The legend: every series once, in order of first appearance, broken into lines that fit.
fn legend_lines(figure: &Figure) -> Vec<Vec<(f64, String, Style)>> {
    let mut lines: Vec<Vec<(f64, String, Style)>> = Vec::new();
    let mut seen: Vec<(&str, Style)> = Vec::new();
    let mut x = MARGIN;
    for series in figure.panels.iter().flat_map(|p| &p.series) {
        if seen.contains(&(&series.label, series.style)) {
            continue;
        }
        seen.push((&series.label, series.style));
        let width = 62.0 + text_width(&series.label, LEGEND_SIZE) + 34.0;
        if lines.is_empty() || x + width > WIDTH - MARGIN {
            lines.push(Vec::new());
            x = MARGIN;
        }
        if let Some(line) = lines.last_mut() {
            line.push((x, series.label.clone(), series.style));
        }
        x += width;
    }
    lines
}

/// About `count` round numbers that cover [low, high].
fn ticks(low: f64, high: f64, count: f64) -> Vec<f64> {
    let raw = (high - low) / count;
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].iter().map(|s| s * power).find(|s| *s >= raw).unwrap_or(raw);
    let (from, to) = ((low / step).ceil() as i64, (high / step).floor() as i64);
    (from..=to).map(|i| i as f64 * step).collect()
}

/// The label of a tick, with as many digits as the distance between ticks needs.
fn tick_text(value: f64, step: f64, percent: bool) -> String {
    let (value, step) = if percent { (100.0 * value, 100.0 * step) } else { (value, step) };
    let digits = (0..6)
        .find(|&d| {
            let scaled = step * 10f64.powi(d);
            (scaled - scaled.round()).abs() < 1e-6
        })
        .unwrap_or(6) as usize;
    let text = format!("{:.digits$}", value + 0.0).replace('-', "−");
    if percent { format!("{text} %") } else { text }
}

/// The ranges of a panel's axes: [low, high] of x and of y.
fn ranges(panel: &Panel) -> ([f64; 2], [f64; 2]) {
    let extent = |values: Vec<f64>| {
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if low.is_finite() && high > low { [low, high] } else { [low.min(0.0), low.max(0.0) + 1.0] }
    };
    let points = || panel.series.iter().flat_map(|s| &s.points);
    let x = extent(panel.x_ticks.iter().map(|t| t.0).chain(points().map(|p| p.x)).collect());
    let across = panel.rules.iter().map(|r| r.0);
    let y = extent(points().flat_map(|p| [p.low, p.high]).chain(across).collect());
    let room = |[low, high]: [f64; 2], share: f64| [low - share * (high - low), high + share * (high - low)];
    (room(x, 0.04), room(y, 0.07))
}

/// Draws on one drawing area, in units of the SVG's pixels.
pub struct Painter<'a, DB: DrawingBackend> {
    pub root: &'a DrawingArea<DB, Shift>,
    /// Pixels per unit.
    pub scale: f64,
    /// How far text must be moved down to be centered, as a share of its size.
    pub drop: f64,
}

/// The rectangle of a panel's axes and their ranges.
struct Axes {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
    x: [f64; 2],
    y: [f64; 2],
}

impl Axes {
    fn at(&self, x: f64, y: f64) -> (f64, f64) {
        let across = (x - self.x[0]) / (self.x[1] - self.x[0]);
        let up = (y - self.y[0]) / (self.y[1] - self.y[0]);
        (self.left + across * (self.right - self.left), self.bottom - up * (self.bottom - self.top))
    }
}

impl<DB: DrawingBackend> Painter<'_, DB>
where
    DB::ErrorType: 'static,
{
    fn pixel(&self, (x, y): (f64, f64)) -> (i32, i32) {
        ((x * self.scale).round() as i32, (y * self.scale).round() as i32)
    }

    fn text(
        &self,
        text: &str,
        at: (f64, f64),
        size: f64,
        style: FontStyle,
        color: RGBColor,
        h: HPos,
    ) -> Result<(), Failure> {
        let style = font(size * self.scale, style).color(&color).pos(Pos::new(h, VPos::Center));
        let at = (at.0, at.1 + self.drop * size);
        self.root.draw(&Text::new(text.to_string(), self.pixel(at), style)).map_err(failure)
    }

    fn stroke(&self, color: impl Color, width: f64) -> ShapeStyle {
        color.stroke_width((width * self.scale).round().max(1.0) as u32)
    }

    fn line(&self, points: &[(f64, f64)], style: ShapeStyle) -> Result<(), Failure> {
        let points: Vec<(i32, i32)> = points.iter().map(|&p| self.pixel(p)).collect();
        self.root.draw(&PathElement::new(points, style)).map_err(failure)
    }

    /// Dashes of 12 with gaps of 8 along the points.
    fn dashes(&self, points: &[(f64, f64)], style: ShapeStyle) -> Result<(), Failure> {
        let (dash, gap) = (12.0, 8.0);
        let mut traveled = 0.0;
        for pair in points.windows(2) {
            let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
            let length = (x1 - x0).hypot(y1 - y0);
            let along = |d: f64| (x0 + (x1 - x0) * d / length, y0 + (y1 - y0) * d / length);
            let mut at = -(traveled % (dash + gap));
            while at < length && length > 0.0 {
                let (from, to) = (at.max(0.0), (at + dash).min(length));
                if to > from {
                    self.line(&[along(from), along(to)], style)?;
                }
                at += dash + gap;
            }
            traveled += length;
        }
        Ok(())
    }

    fn marker(&self, style: Style, (x, y): (f64, f64)) -> Result<(), Failure> {
        let r = 7.5;
        let corners: &[(f64, f64)] = match style.marker {
            Marker::None => return Ok(()),
            Marker::Circle => {
                let (center, radius) = (self.pixel((x, y)), (r * self.scale) as i32);
                let dot = Circle::new(center, radius, color(style).filled());
                return self.root.draw(&dot).map_err(failure);
            }
            Marker::Square => &[(-0.85, -0.85), (0.85, -0.85), (0.85, 0.85), (-0.85, 0.85)],
            Marker::Diamond => &[(0.0, -1.25), (1.1, 0.0), (0.0, 1.25), (-1.1, 0.0)],
            Marker::Up => &[(0.0, -1.2), (1.1, 0.8), (-1.1, 0.8)],
            Marker::Down => &[(0.0, 1.2), (1.1, -0.8), (-1.1, -0.8)],
        };
        let corners: Vec<_> = corners.iter().map(|(dx, dy)| self.pixel((x + r * dx, y + r * dy))).collect();
        self.root.draw(&Polygon::new(corners, color(style).filled())).map_err(failure)
    }

    /// Draws the whole figure.
    pub fn figure(&self, figure: &Figure) -> Result<(), Failure> {
        self.root.fill(&RGBColor(255, 255, 255)).map_err(failure)?;
        self.text(&figure.title, (MARGIN, 38.0), 31.0, FontStyle::Bold, INK, HPos::Left)?;
        for (i, line) in figure.caption.iter().enumerate() {
            let at = (MARGIN, 80.0 + 30.0 * i as f64);
            self.text(line, at, 20.0, FontStyle::Normal, MUTED, HPos::Left)?;
        }
        let columns = figure.columns.max(1);
        let width = (WIDTH - 2.0 * MARGIN) / columns as f64;
        for (i, panel) in figure.panels.iter().enumerate() {
            let left = MARGIN + (i % columns) as f64 * width;
            let top = head_height(figure) + (i / columns) as f64 * PANEL_HEIGHT;
            self.panel(panel, left, top, width)?;
        }
        let rows = figure.panels.len().div_ceil(columns);
        let below = head_height(figure) + rows as f64 * PANEL_HEIGHT + 24.0;
        let connected = figure.panels.iter().any(|panel| !panel.categories);
        for (i, line) in legend_lines(figure).iter().enumerate() {
            let y = below + LEGEND_LINE * i as f64;
            for (x, label, style) in line {
                if connected {
                    self.path(&[(*x, y), (x + 48.0, y)], *style)?;
                }
                self.marker(*style, (x + 24.0, y))?;
                self.text(label, (x + 60.0, y), LEGEND_SIZE, FontStyle::Normal, INK, HPos::Left)?;
            }
        }
        Ok(())
    }

    fn path(&self, points: &[(f64, f64)], style: Style) -> Result<(), Failure> {
        let stroke = self.stroke(color(style), 3.0);
        if style.dashed { self.dashes(points, stroke) } else { self.line(points, stroke) }
    }

    fn panel(&self, panel: &Panel, left: f64, top: f64, width: f64) -> Result<(), Failure> {
        let (x, y) = ranges(panel);
        let axes = Axes {
            left: left + 78.0,
            top: top + 50.0,
            right: left + width - 18.0,
            bottom: top + 330.0,
            x,
            y,
        };
        self.text(&panel.title, (left, top + 18.0), 22.0, FontStyle::Bold, INK, HPos::Left)?;
        self.grid(panel, &axes)?;
        if panel.categories {
            self.spans(panel, &axes)?;
        }
        for series in &panel.series {
            self.band(series, &axes)?;
        }
        for series in &panel.series {
            let points: Vec<_> = series.points.iter().map(|p| axes.at(p.x, p.mean)).collect();
            if !panel.categories {
                self.path(&points, series.style)?;
            }
            points.iter().try_for_each(|&p| self.marker(series.style, p))?;
        }
        Ok(())
    }

    /// A line from the lowest to the highest point of each category.
    fn spans(&self, panel: &Panel, axes: &Axes) -> Result<(), Failure> {
        for (x, _) in &panel.x_ticks {
            let points = panel.series.iter().flat_map(|s| &s.points).filter(|p| p.x == *x).map(|p| p.mean);
            let (low, high) =
                points.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), y| (low.min(y), high.max(y)));
            if low < high {
                self.line(&[axes.at(*x, low), axes.at(*x, high)], self.stroke(FAINT, 5.0))?;
            }
        }
        Ok(())
    }

    fn grid(&self, panel: &Panel, axes: &Axes) -> Result<(), Failure> {
        let marks = ticks(axes.y[0], axes.y[1], 5.0);
        let step = marks.windows(2).map(|w| w[1] - w[0]).next().unwrap_or(1.0);
        for mark in marks {
            let (_, y) = axes.at(axes.x[0], mark);
            self.line(&[(axes.left, y), (axes.right, y)], self.stroke(FAINT, 1.0))?;
            let text = tick_text(mark, step, panel.percent);
            self.text(&text, (axes.left - 10.0, y), 18.0, FontStyle::Normal, MUTED, HPos::Right)?;
        }
        self.line(&[(axes.left, axes.bottom), (axes.right, axes.bottom)], self.stroke(MUTED, 1.5))?;
        for (x, text) in &panel.x_ticks {
            let (x, _) = axes.at(*x, axes.y[0]);
            self.line(&[(x, axes.bottom), (x, axes.bottom + 7.0)], self.stroke(MUTED, 1.5))?;
            self.text(text, (x, axes.bottom + 22.0), 18.0, FontStyle::Normal, MUTED, HPos::Center)?;
        }
        let middle = 0.5 * (axes.left + axes.right);
        let below = (middle, axes.bottom + 50.0);
        self.text(&panel.x_label, below, 19.0, FontStyle::Normal, INK, HPos::Center)?;
        for (value, name) in &panel.rules {
            let (_, y) = axes.at(axes.x[0], *value);
            self.line(&[(axes.left, y), (axes.right, y)], self.stroke(MUTED, 2.0))?;
            self.text(name, (axes.right, y - 13.0), 16.0, FontStyle::Normal, MUTED, HPos::Right)?;
        }
        Ok(())
    }

    /// The band of the spread over seeds; nothing if there is one seed.
    fn band(&self, series: &Series, axes: &Axes) -> Result<(), Failure> {
        if series.points.iter().all(|p| p.high <= p.low) {
            return Ok(());
        }
        let upper = series.points.iter().map(|p| axes.at(p.x, p.high));
        let lower = series.points.iter().rev().map(|p| axes.at(p.x, p.low));
        let outline: Vec<_> = upper.chain(lower).map(|p| self.pixel(p)).collect();
        self.root.draw(&Polygon::new(outline, color(series.style).mix(0.18))).map_err(failure)
    }
}

fn color(style: Style) -> RGBColor {
    let (r, g, b) = style.color;
    RGBColor(r, g, b)
}
