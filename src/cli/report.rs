//! Text for a terminal of 80 columns: aligned, wrapped, and in color if a person reads it.

const WIDTH: usize = 80;
const LABEL: usize = 22;

/// How a text is emphasized.
#[derive(Clone, Copy)]
pub enum Tone {
    /// A title.
    Strong,
    /// A value as expected.
    Good,
    /// A warning.
    Warning,
    /// Less important.
    Quiet,
}

/// A page of text that is being written.
pub struct ReportPage {
    color: bool,
    text: String,
}

impl ReportPage {
    /// An empty page. It has colors if it is for a terminal and `NO_COLOR` is not set.
    pub fn new(terminal: bool) -> ReportPage {
        ReportPage {
            color: terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
            text: String::new(),
        }
    }

    /// The text written so far.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Writes one line.
    pub fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// Writes the title of the page and an empty line.
    pub fn title(&mut self, title: &str) {
        self.toned(Tone::Strong, title);
        self.line("");
    }

    /// Writes an empty line and the heading of a section.
    pub fn heading(&mut self, heading: &str) {
        self.line("");
        self.toned(Tone::Strong, heading);
    }

    /// Writes one line with emphasis.
    pub fn toned(&mut self, tone: Tone, line: &str) {
        let line = self.tone(tone, line);
        self.line(&line);
    }

    fn tone(&self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Strong => "1",
            Tone::Good => "32",
            Tone::Warning => "33",
            Tone::Quiet => "2",
        };
        if self.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Writes a label and its value.
    pub fn pair(&mut self, label: &str, value: &str) {
        self.hanging(&format!("  {label:<LABEL$}  "), value);
    }

    /// Writes a label, its value, and whether the value is as expected; `None` if it was not tested.
    pub fn verdict(&mut self, label: &str, value: &str, ok: Option<bool>) {
        let (tone, word) = match ok {
            Some(true) => (Tone::Good, "fits"),
            Some(false) => (Tone::Warning, "does not fit"),
            None => (Tone::Quiet, "not tested"),
        };
        let word = self.tone(tone, word);
        self.line(&format!("  {label:<LABEL$}  {value}: {word}"));
    }

    /// Writes `text` after `start`, wrapped, with the other lines below its first.
    pub fn hanging(&mut self, start: &str, text: &str) {
        let indent = start.chars().count();
        let mut line = start.to_owned();
        let mut length = indent;
        for word in text.split(' ') {
            let letters = word.chars().count();
            if length > indent && length + letters > WIDTH {
                self.line(&line);
                (line, length) = (" ".repeat(indent), indent);
            }
            line.push_str(word);
            line.push(' ');
            length += letters + 1;
        }
        self.line(&line);
    }
}

/// A whole number with thousands separators.
pub fn amount(value: f64) -> String {
    if value.abs() >= 1e15 {
        return format!("{value:.3e}");
    }
    let digits = format!("{:.0}", value.abs());
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    if value < 0.0 { format!("-{out}") } else { out }
}

/// A number with four significant digits.
pub fn decimal(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let magnitude = value.abs().log10().floor();
    if magnitude >= 3.0 {
        return amount(value);
    }
    if magnitude < -6.0 {
        return format!("{value:.3e}");
    }
    let text = format!("{value:.*}", (3.0 - magnitude) as usize);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// A share as a percentage.
pub fn percent(share: f64) -> String {
    if share > 0.0 && share < 0.0005 {
        return "less than 0.1%".into();
    }
    format!("{}%", decimal((1000.0 * share).round() / 10.0))
}

/// A size in bytes, kB, MB, GB or TB.
pub fn bytes(count: u64) -> String {
    let (mut value, mut unit) = (count as f64, "bytes");
    for larger in ["kB", "MB", "GB", "TB"] {
        if value < 1000.0 {
            break;
        }
        (value, unit) = (value / 1000.0, larger);
    }
    if unit == "bytes" { format!("{count} bytes") } else { format!("{value:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_right() {
        let decimals = [
            (0.0, "0"),
            (1.0, "1"),
            (46.0, "46"),
            (144.1727, "144.2"),
            (0.5, "0.5"),
            (0.0217391, "0.02174"),
            (1e-6, "0.000001"),
            (1.25e-9, "1.250e-9"),
            (4190.3, "4,190"),
            (12345.6, "12,346"),
            (-3.25, "-3.25"),
        ];
        for (value, text) in decimals {
            assert_eq!(decimal(value), text);
        }
        assert_eq!(
            [amount(0.0), amount(999.0), amount(1000.0), amount(1_234_567.0)],
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!(
            [percent(0.123456), percent(1.0), percent(0.0), percent(0.0001)],
            ["12.3%", "100%", "0%", "less than 0.1%"]
        );
        assert_eq!([bytes(12), bytes(1_500), bytes(5_084_456)], ["12 bytes", "1.5 kB", "5.1 MB"]);
    }

    #[test]
    fn long_texts_hang_under_their_beginning() {
        let mut page = ReportPage::new(false);
        page.hanging("  label  ", &"word ".repeat(30));
        let lines: Vec<&str> = page.text().lines().collect();
        assert!(lines.len() == 3 && lines.iter().all(|line| line.chars().count() <= 80), "{lines:?}");
        assert!(lines[1].starts_with("         word"), "{lines:?}");
    }
}
