//! Charts as inline SVG: stacked bars, slim bars, marks on a logarithmic axis.
//!
//! Horizontal positions are percentages and there is no view box: a chart is as wide as its page
//! while its text keeps its size, on a phone as on a wall. Every part has a pattern besides its
//! colour, a label where there is room, and a title; the figures stand in a table next to the chart.

use super::markup::Markup;
use crate::report::canvas::wrapped;

/// What a chart's colours and patterns mean: the classes of the style sheet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Palette {
    /// Components, in the order of `Component::ALL`, then useful work and what is not broken down.
    Component,
    /// Calls, in the order of `Category::ALL`.
    Call,
}

impl Palette {
    /// The pattern of part `at`.
    fn pattern(self, at: usize) -> String {
        match self {
            Self::Component => format!("c{at}"),
            Self::Call => format!("k{at}"),
        }
    }

    /// Both, with their parts.
    const ALL: [(Self, usize); 2] = [(Self::Component, 8), (Self::Call, 8)];
}

/// A part of a stacked bar.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    /// Its place in the palette.
    pub(super) at: usize,
    /// How long it is, in the chart's unit.
    pub(super) value: f64,
    /// Its name.
    pub(super) name: String,
    /// Its figure.
    pub(super) figure: String,
}

/// A stacked bar.
#[derive(Clone, Debug)]
pub(super) struct Bar {
    /// Stands above it, on the left.
    pub(super) name: String,
    /// Stands above it, on the right.
    pub(super) figure: String,
    /// Its parts, from the left.
    pub(super) segments: Vec<Segment>,
    /// A mark on the same scale, and what it is.
    pub(super) mark: Option<(f64, String)>,
}

const LABEL: usize = 17;
const THICK: usize = 26;
const GAP: usize = 13;
/// Widths of charts that labels are fitted to, in pixels: on a phone, and from where the style
/// sheet shows the wide labels.
const NARROW: f64 = 330.0;
const WIDE: f64 = 800.0;
const CHARACTER: f64 = 7.0;

/// Whether names and figures have to stand below each other to fit on a phone.
fn is_tall<'a>(mut lines: impl Iterator<Item = (&'a str, &'a str)>) -> bool {
    lines.any(|(name, figure)| {
        (name.chars().count() + figure.chars().count() + 1) as f64 * CHARACTER > NARROW
    })
}

/// The height of the text above a bar.
fn label_height(is_tall: bool) -> usize {
    if is_tall { 2 * LABEL - 1 } else { LABEL }
}

/// The text above a bar: its name on the left, its figure on the right, or below if that is tall.
fn label(page: &mut Markup, name: &str, figure: &str, top: usize, is_tall: bool) {
    let y = (top + 12).to_string();
    page.leaf("text", &[("x", "0"), ("y", &y), ("class", "name back")], name);
    let y = (top + if is_tall { 11 + LABEL } else { 12 }).to_string();
    let (x, class) = if is_tall { ("0", "figure back") } else { ("100%", "figure end back") };
    page.leaf("text", &[("x", x), ("y", &y), ("class", class)], figure);
}

fn percent(value: f64) -> String {
    format!("{value:.3}%")
}

/// Opens a chart of this height; `label` describes it to a reader who does not see it.
fn svg(page: &mut Markup, height: usize, label: &str, inner: impl FnOnce(&mut Markup)) {
    let height = height.to_string();
    let attributes = [
        ("class", "chart"),
        ("role", "img"),
        ("aria-label", label),
        ("width", "100%"),
        ("height", height.as_str()),
    ];
    page.node("svg", &attributes, inner);
}

/// Stacked bars, one below the other, all on the scale 0 to `of`.
pub(super) fn stacked(page: &mut Markup, label: &str, palette: Palette, of: f64, bars: &[Bar]) {
    let is_tall = is_tall(bars.iter().map(|bar| (bar.name.as_str(), bar.figure.as_str())));
    let step = label_height(is_tall) + THICK + GAP;
    svg(page, bars.len() * step, label, |page| {
        for (i, bar) in bars.iter().enumerate() {
            self::label(page, &bar.name, &bar.figure, i * step, is_tall);
            draw_bar(page, palette, of, bar, i * step + label_height(is_tall));
        }
    });
}

fn draw_bar(page: &mut Markup, palette: Palette, of: f64, bar: &Bar, bar_y: usize) {
    let scale = if of > 0.0 { 100.0 / of } else { 0.0 };
    let mut from = 0.0;
    for segment in &bar.segments {
        let long = (segment.value.max(0.0) * scale).min(100.0 - from);
        draw_segment(page, palette, segment, (from, long), bar_y);
        from += long;
    }
    if let Some((value, what)) = &bar.mark {
        let x = percent((value * scale).clamp(0.0, 100.0));
        // Two ticks, so that no label is struck through.
        for (from, to) in [(bar_y - 4, bar_y + 5), (bar_y + THICK - 5, bar_y + THICK + 4)] {
            let (y1, y2) = (from.to_string(), to.to_string());
            for class in ["mark under", "mark"] {
                let ends = [("x1", x.as_str()), ("x2", &x), ("y1", &y1), ("y2", &y2)];
                let line = [ends[0], ends[1], ends[2], ends[3], ("class", class)];
                page.node("line", &line, |page| page.leaf("title", &[], what));
            }
        }
    }
}

fn draw_segment(
    page: &mut Markup,
    palette: Palette,
    segment: &Segment,
    (from, long): (f64, f64),
    y: usize,
) {
    if long <= 0.0 {
        return;
    }
    let fill = format!("url(#{})", palette.pattern(segment.at));
    let (x, width, top) = (percent(from), percent(long), y.to_string());
    let thick = THICK.to_string();
    let attributes = [
        ("x", x.as_str()),
        ("y", top.as_str()),
        ("width", width.as_str()),
        ("height", thick.as_str()),
        ("fill", fill.as_str()),
        ("class", "part"),
    ];
    let title = format!("{}: {}", segment.name, segment.figure);
    page.node("rect", &attributes, |page| page.leaf("title", &[], &title));
    let fits = |text: &str, chart: f64| {
        text.chars().count() as f64 * CHARACTER + 6.0 <= long / 100.0 * chart
    };
    let short = segment.figure.as_str();
    let named = format!("{} {short}", segment.name);
    let wide = [named.as_str(), short].into_iter().find(|text| fits(text, WIDE));
    let narrow = Some(short).filter(|text| fits(text, NARROW));
    let (x, y) = (percent(from + long / 2.0), (y + THICK / 2 + 4).to_string());
    for (class, text) in [("in wide", wide), ("in narrow", narrow)] {
        if let Some(text) = text {
            page.leaf("text", &[("x", &x), ("y", &y), ("class", class)], text);
        }
    }
}

/// What the patterns mean.
pub(super) fn legend(page: &mut Markup, palette: Palette, names: &[(usize, &str)]) {
    page.node("ul", &[("class", "legend")], |page| {
        for (at, name) in names {
            page.node("li", &[], |page| {
                let swatch = [("width", "18"), ("height", "14"), ("aria-hidden", "true")];
                page.node("svg", &swatch, |page| {
                    let fill = format!("url(#{})", palette.pattern(*at));
                    let size = [("width", "18"), ("height", "14"), ("class", "part")];
                    page.empty("rect", &[size[0], size[1], size[2], ("fill", &fill)]);
                });
                page.text(name);
            });
        }
    });
}

/// A line of a chart of slim bars.
#[derive(Clone, Debug)]
pub(super) enum Slim {
    /// What the bars below it are of.
    Heading(String),
    /// A bar whose text stands behind it.
    Bar {
        /// Its place in the components' palette.
        at: usize,
        /// How long it is.
        value: f64,
        /// What stands behind it.
        text: String,
        /// Least and most, drawn as a line.
        spread: Option<(f64, f64)>,
    },
    /// There is none; the text says so.
    Missing(String),
}

/// How much of the width the longest slim bar takes; the rest is for the texts.
const SLIM_PERCENT: f64 = 56.0;
const SLIM_THICK: usize = 13;
const SLIM_STEP: usize = 19;

/// Slim bars under headings, all on the scale 0 to `of`.
pub(super) fn slim(page: &mut Markup, label: &str, of: f64, lines: &[Slim]) {
    let step = |line: &Slim| match line {
        Slim::Heading(text) => 8 + 16 * heading_lines(text).len(),
        Slim::Bar { .. } | Slim::Missing(_) => SLIM_STEP,
    };
    let height = lines.iter().map(step).sum::<usize>() + 6;
    svg(page, height, label, |page| {
        let mut top = 0;
        for line in lines {
            draw_slim(page, of, line, top);
            top += step(line);
        }
    });
}

/// A heading in lines that fit on a phone.
fn heading_lines(text: &str) -> Vec<String> {
    wrapped(text, (NARROW / CHARACTER) as usize)
}

fn draw_slim(page: &mut Markup, of: f64, line: &Slim, top: usize) {
    let y = (top + 11).to_string();
    match line {
        Slim::Heading(text) => {
            for (i, line) in heading_lines(text).iter().enumerate() {
                let y = (top + 18 + 16 * i).to_string();
                page.leaf("text", &[("x", "0"), ("y", &y), ("class", "name")], line);
            }
        }
        Slim::Missing(text) => {
            page.leaf("text", &[("x", "0"), ("y", &y), ("class", "after")], text);
        }
        Slim::Bar { at, value, text, spread } => {
            let place =
                |value: f64| if of > 0.0 { value.max(0.0) / of * SLIM_PERCENT } else { 0.0 };
            let fill = format!("url(#c{at})");
            let (width, rect_y) = (percent(place(*value)), top.to_string());
            let thick = SLIM_THICK.to_string();
            let attributes = [
                ("x", "0"),
                ("y", rect_y.as_str()),
                ("width", width.as_str()),
                ("height", thick.as_str()),
                ("fill", fill.as_str()),
                ("class", "part"),
            ];
            page.node("rect", &attributes, |page| page.leaf("title", &[], text));
            let mut end = place(*value);
            if let Some((least, most)) = spread {
                end = end.max(place(*most));
                let (x1, x2) = (percent(place(*least)), percent(place(*most)));
                let y = (top + SLIM_THICK / 2).to_string();
                let line = [("x1", x1.as_str()), ("x2", &x2), ("y1", &y), ("y2", &y)];
                page.empty("line", &[line[0], line[1], line[2], line[3], ("class", "mark")]);
            }
            let x = percent(end);
            let place = [("x", x.as_str()), ("dx", "7"), ("y", y.as_str()), ("class", "after")];
            page.leaf("text", &place, text);
        }
    }
}

/// Marks of a line on a logarithmic axis.
#[derive(Clone, Debug)]
pub(super) struct Marks {
    /// Stands above the line, on the left.
    pub(super) name: String,
    /// Stands above the line, on the right.
    pub(super) figure: String,
    /// Values above 0, with the series they are of and what they are.
    pub(super) marks: Vec<(usize, f64, String)>,
}

/// Shapes of series: a diamond, a circle, a triangle, a bar.
const SHAPES: [&str; 4] =
    ["M0-7L7 0 0 7-7 0Z", "M-6 0A6 6 0 1 1 6 0 6 6 0 1 1-6 0Z", "M0-7L7 6-7 6Z", "M-2-8H2V8H-2Z"];

/// Lines of marks on one logarithmic axis in powers of ten.
pub(super) fn logarithmic(page: &mut Markup, label: &str, lines: &[Marks]) {
    let values = || lines.iter().flat_map(|line| &line.marks).map(|(_, value, _)| *value);
    let usable = || values().filter(|value| *value > 0.0);
    let Some(least) = usable().reduce(f64::min) else { return };
    let most = usable().fold(least, f64::max);
    let low = least.log10().floor() as i32;
    let high = (most.log10().ceil() as i32).max(low + 1);
    let place = |value: f64| 2.0 + 96.0 * (value.log10() - f64::from(low)) / f64::from(high - low);
    let is_tall = is_tall(lines.iter().map(|line| (line.name.as_str(), line.figure.as_str())));
    let step = label_height(is_tall) + 24 + 8;
    let bottom = lines.len() * step;
    svg(page, bottom + 18, label, |page| {
        for power in low..=high {
            let value = 10f64.powi(power);
            let x = percent(place(value));
            let end = bottom.to_string();
            let line = [("x1", x.as_str()), ("x2", &x), ("y1", "0"), ("y2", &end)];
            page.empty("line", &[line[0], line[1], line[2], line[3], ("class", "grid")]);
            let class = if power == high {
                "tick last"
            } else if power == low {
                "tick first"
            } else {
                "tick"
            };
            let y = (bottom + 14).to_string();
            let text = power_name(power);
            page.leaf("text", &[("x", &x), ("y", &y), ("class", class)], &text);
        }
        for (i, line) in lines.iter().enumerate() {
            self::label(page, &line.name, &line.figure, i * step, is_tall);
            draw_marks(page, line, i * step + label_height(is_tall) + 12, &place);
        }
    });
}

fn draw_marks(page: &mut Markup, line: &Marks, y: usize, place: &impl Fn(f64) -> f64) {
    let y = y.to_string();
    let usable: Vec<_> = line.marks.iter().filter(|(_, value, _)| *value > 0.0).collect();
    let ends = usable.iter().map(|(_, value, _)| place(*value));
    let (least, most) = ends.fold((f64::MAX, f64::MIN), |(a, b), x| (a.min(x), b.max(x)));
    if most > least {
        let (x1, x2) = (percent(least), percent(most));
        let ends = [("x1", x1.as_str()), ("x2", &x2), ("y1", &y), ("y2", &y), ("class", "join")];
        page.empty("line", &ends);
    }
    for (series, value, what) in usable {
        let x = percent(place(*value));
        let at = [("x", x.as_str()), ("y", y.as_str()), ("class", "place")];
        page.node("svg", &at, |page| {
            let class = format!("shape s{series}");
            let path = [("d", SHAPES[series % 4]), ("class", class.as_str())];
            page.node("path", &path, |page| page.leaf("title", &[], what));
        });
    }
}

/// `1`, `10`, `1k`, `1M`: a power of ten in few characters.
fn power_name(power: i32) -> String {
    match power {
        0..=2 => 10u64.pow(power.unsigned_abs()).to_string(),
        3..=5 => format!("{}k", 10u64.pow((power - 3).unsigned_abs())),
        6..=8 => format!("{}M", 10u64.pow((power - 6).unsigned_abs())),
        -3..=-1 => format!("{}", 10f64.powi(power)),
        _ => format!("1e{power}"),
    }
}

/// What the shapes of a logarithmic chart mean.
pub(super) fn shapes_legend(page: &mut Markup, names: &[&str]) {
    page.node("ul", &[("class", "legend")], |page| {
        for (series, name) in names.iter().enumerate() {
            page.node("li", &[], |page| {
                let size = [("width", "18"), ("height", "18"), ("aria-hidden", "true")];
                let view = [size[0], size[1], size[2], ("viewBox", "-9 -9 18 18")];
                page.node("svg", &view, |page| {
                    let class = format!("shape s{series}");
                    page.empty("path", &[("d", SHAPES[series % 4]), ("class", &class)]);
                });
                page.text(name);
            });
        }
    });
}

/// The patterns of all palettes, for the whole page once.
pub(super) fn patterns(page: &mut Markup) {
    const LINES: [&str; 8] = [
        "",
        "M-2 2L2-2M0 8L8 0M6 10L10 6",
        "M4 4h.01M0 0h.01M8 0h.01M0 8h.01M8 8h.01",
        "M-2 6L2 10M0 0L8 8M6-2L10 2",
        "M0 4H8",
        "M4 0V8",
        "",
        "M0 4H8M4 0V8",
    ];
    let attributes =
        [("width", "0"), ("height", "0"), ("class", "patterns"), ("aria-hidden", "true")];
    page.node("svg", &attributes, |page| {
        page.node("defs", &[], |page| {
            for (palette, parts) in Palette::ALL {
                for (at, lines) in LINES.iter().enumerate().take(parts) {
                    let id = palette.pattern(at);
                    let pattern = [
                        ("id", id.as_str()),
                        ("width", "8"),
                        ("height", "8"),
                        ("patternUnits", "userSpaceOnUse"),
                    ];
                    page.node("pattern", &pattern, |page| {
                        let class = format!("fill-{id}");
                        page.empty("rect", &[("width", "8"), ("height", "8"), ("class", &class)]);
                        if !lines.is_empty() {
                            let class = if at == 2 { "hatch dots" } else { "hatch" };
                            page.empty("path", &[("d", lines), ("class", class)]);
                        }
                    });
                }
            }
        });
    });
}
