//! A small canvas for charts, in colours that read on light and on dark ground.

use std::fmt::Write;

/// Text and axes.
pub(super) const INK: &str = "#7a828c";
const GRID: &str = "#7a828c";
/// Of series, in their order; told apart without colours too, by their lightness.
pub(super) const COLOURS: [&str; 4] = ["#3d8bd4", "#e08a2e", "#3fa672", "#b565c9"];
const FONT: &str = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif";

/// Where a text is anchored.
#[derive(Debug, Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A picture in the making.
pub(super) struct Canvas {
    out: String,
    height: f64,
}

impl Canvas {
    pub(super) fn new(width: f64, height: f64, title: &str) -> Canvas {
        let mut out = String::new();
        let _ = write!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
             role=\"img\" font-family=\"{FONT}\" font-size=\"13\">\n<title>{}</title>\n",
            escaped(title)
        );
        Canvas { out, height }
    }

    pub(super) fn text(&mut self, x: f64, y: f64, anchor: Anchor, text: &str) {
        self.styled(x, y, anchor, "", text);
    }

    pub(super) fn heading(&mut self, x: f64, y: f64, text: &str) {
        self.styled(x, y, Anchor::Start, " font-weight=\"600\" font-size=\"15\"", text);
    }

    pub(super) fn small(&mut self, x: f64, y: f64, anchor: Anchor, text: &str) {
        self.styled(x, y, anchor, " font-size=\"11\"", text);
    }

    fn styled(&mut self, x: f64, y: f64, anchor: Anchor, style: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let _ = writeln!(
            self.out,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{INK}\"{style}>{}</text>",
            escaped(text)
        );
    }

    pub(super) fn bar(&mut self, x: f64, y: f64, width: f64, height: f64, colour: &str) {
        let _ = writeln!(
            self.out,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"1.5\" fill=\"{colour}\"/>"
        );
    }

    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str, width: f64) {
        self.stroke(from, to, colour, width, 1.0);
    }

    /// A line of the grid, fainter than all else.
    pub(super) fn grid(&mut self, from: (f64, f64), to: (f64, f64)) {
        self.stroke(from, to, GRID, 1.0, 0.25);
    }

    fn stroke(&mut self, from: (f64, f64), to: (f64, f64), colour: &str, width: f64, opacity: f64) {
        let _ = writeln!(
            self.out,
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\" stroke-width=\"{width}\" \
             stroke-opacity=\"{opacity}\"/>",
            from.0, from.1, to.0, to.1
        );
    }

    pub(super) fn dot(&mut self, x: f64, y: f64, colour: &str) {
        let _ = writeln!(self.out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"/>");
    }

    /// Squares and names, from left to right.
    pub(super) fn legend(&mut self, x: f64, y: f64, names: &[(&str, &str)]) {
        let mut x = x;
        for (name, colour) in names {
            self.bar(x, y - 10.0, 11.0, 11.0, colour);
            self.text(x + 16.0, y, Anchor::Start, name);
            x += 16.0 + 7.2 * name.chars().count() as f64 + 22.0;
        }
    }

    /// The whole, with a line on where it was taken at its foot.
    pub(super) fn finish(mut self, foot: &str) -> String {
        let y = self.height - 8.0;
        self.small(16.0, y, Anchor::Start, foot);
        self.out.push_str("</svg>\n");
        self.out
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
