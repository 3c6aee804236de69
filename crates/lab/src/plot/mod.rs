//! Draws a figure as SVG and PNG: panels with their own scales, bands for the spread over seeds, and one
//! legend below the panels.

mod painter;

use std::path::{Path, PathBuf};
use std::sync::Once;

use plotters::backend::{BitMapBackend, DrawingBackend, SVGBackend};
use plotters::drawing::IntoDrawingArea;
use plotters::style::{FontStyle, register_font};

use painter::{FONT, Painter, size};

/// A figure to draw.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// The file name without its extension.
    pub name: String,
    /// The title.
    pub title: String,
    /// One or two lines that say what is drawn and how to read it.
    pub caption: Vec<String>,
    /// The number of panels side by side; further panels go to the next row.
    pub columns: usize,
    /// The panels, row by row.
    pub panels: Vec<Panel>,
}

/// One panel of a figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// The title.
    pub title: String,
    /// The label of the x axis.
    pub x_label: String,
    /// The ticks of the x axis, with their labels.
    pub x_ticks: Vec<(f64, String)>,
    /// The lines.
    pub series: Vec<Series>,
    /// Horizontal lines at values that have a meaning, with their labels.
    pub rules: Vec<(f64, String)>,
    /// Whether the y axis shows percentages.
    pub percent: bool,
    /// Whether the x axis has categories. Their points are not connected from one category to the next.
    pub categories: bool,
}

/// One line of a panel.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub label: String,
    /// How it is drawn.
    pub style: Style,
    /// Its points, from left to right.
    pub points: Vec<PlotPoint>,
}

/// A mean with its spread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlotPoint {
    /// The position on the x axis.
    pub x: f64,
    /// The mean.
    pub mean: f64,
    /// The lower end of the band.
    pub low: f64,
    /// The upper end of the band.
    pub high: f64,
}

/// How a line is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Red, green and blue.
    pub color: (u8, u8, u8),
    /// The marker of its points.
    pub marker: Marker,
    /// Whether the line is dashed.
    pub dashed: bool,
}

/// The shape that marks a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marker {
    /// No marker.
    None,
    /// A circle.
    Circle,
    /// A square.
    Square,
    /// A diamond.
    Diamond,
    /// A triangle that points up.
    Up,
    /// A triangle that points down.
    Down,
}

/// PNGs are drawn this many times larger and averaged down, so that lines and letters are smooth.
const OVERSAMPLING: u32 = 2;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Writes `NAME.svg` and `NAME.png` into `directory`; returns their paths.
///
/// # Errors
/// If a file cannot be written.
pub fn write(figure: &Figure, directory: &Path) -> Result<[PathBuf; 2], Failure> {
    let (svg, size) = (write_svg(figure, directory)?, size(figure));
    let png = directory.join(format!("{}.png", figure.name));
    write_png(&png, &averaged(figure, size)?, size)?;
    Ok([svg, png])
}

/// Writes `NAME.svg` into `directory`; returns its path.
///
/// # Errors
/// If the file cannot be written.
pub fn write_svg(figure: &Figure, directory: &Path) -> Result<PathBuf, Failure> {
    fonts();
    let (width, height) = size(figure);
    let svg = directory.join(format!("{}.svg", figure.name));
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, (width, height)).into_drawing_area();
        Painter { root: &root, scale: 1.0, drop: 0.0 }.figure(figure)?;
        root.present().map_err(failure)?;
    }
    std::fs::write(&svg, text)?;
    Ok(svg)
}

fn write_png(path: &Path, pixels: &[u8], size: (u32, u32)) -> Result<(), Failure> {
    let mut backend = BitMapBackend::new(path, size);
    backend.blit_bitmap((0, 0), size, pixels).map_err(failure)?;
    backend.present().map_err(failure)
}

fn failure<E: std::error::Error + Send + Sync + 'static>(error: E) -> Failure {
    Box::new(error)
}

/// Registers the fonts. Plotters draws only with fonts that it was given; DejaVu has the Greek letters.
fn fonts() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // This fails only if the bytes are not a font, and the tests show that these are.
        let _ = register_font(FONT, FontStyle::Normal, dejavu::sans::regular());
        let _ = register_font(FONT, FontStyle::Bold, dejavu::sans::bold());
    });
}

/// The figure, drawn larger and averaged over squares of pixels.
fn averaged(figure: &Figure, (width, height): (u32, u32)) -> Result<Vec<u8>, Failure> {
    let by = OVERSAMPLING as usize;
    let (w, h) = (width as usize, height as usize);
    let mut large = vec![0u8; w * by * h * by * 3];
    {
        let backend = BitMapBackend::with_buffer(&mut large, (width * OVERSAMPLING, height * OVERSAMPLING));
        let root = backend.into_drawing_area();
        Painter { root: &root, scale: f64::from(OVERSAMPLING), drop: 0.15 }.figure(figure)?;
        root.present().map_err(failure)?;
    }
    let mut small = Vec::with_capacity(w * h * 3);
    for y in 0..h {
        for x in 0..w {
            for channel in 0..3 {
                let at = |dx: usize, dy: usize| {
                    usize::from(large[(((y * by + dy) * w * by) + x * by + dx) * 3 + channel])
                };
                let total: usize = (0..by * by).map(|i| at(i % by, i / by)).sum();
                small.push((total / (by * by)) as u8);
            }
        }
    }
    Ok(small)
}
