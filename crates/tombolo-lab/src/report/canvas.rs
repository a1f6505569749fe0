//! Where text for people is drawn: how wide, in which characters, with or without colour.
//!
//! Drawing is pure: the caller says what kind of terminal it is. Colour is never the only thing that distinguishes
//! two parts.

use std::borrow::Cow;

use super::terminal::Style;

/// The narrowest place that is drawn for; a narrower one gets lines that it breaks.
const WIDTH_MIN: usize = 48;
/// The widest: longer bars say nothing more.
const WIDTH_MAX: usize = 132;

/// A place to draw on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Canvas {
    /// How to emphasise.
    pub style: Style,
    /// Whether it shows more than ASCII.
    pub unicode: bool,
    width: usize,
}

impl Canvas {
    /// A place `width` characters wide.
    pub fn new(style: Style, unicode: bool, width: usize) -> Self {
        Self { style, unicode, width: width.clamp(WIDTH_MIN, WIDTH_MAX) }
    }

    /// Characters in a line.
    pub fn width(self) -> usize {
        self.width
    }

    /// The character that fills part `at` of a stacked bar.
    pub fn fill(self, at: usize) -> char {
        const UNICODE: [char; 8] = ['█', '▓', '▒', '░', '▚', '·', '▤', '='];
        const ASCII: [char; 8] = ['#', '=', '%', '+', ':', '.', 'o', '-'];
        (if self.unicode { UNICODE } else { ASCII })[at % 8]
    }

    /// `text` in the colour of part `at`.
    pub fn paint(self, at: usize, text: &str) -> String {
        const COLOURS: [&str; 8] = ["36", "33", "35", "93", "32", "37", "34", "31"];
        if !self.style.colour || text.is_empty() {
            return text.to_owned();
        }
        format!("\x1b[{}m{text}\x1b[0m", COLOURS[at % 8])
    }

    /// A bar of parts that are aligned with those of other bars: part `i` ends where the sum of the
    /// first parts up to it ends, of `of`, on `width` characters.
    pub fn stack(self, parts: &[(usize, f64)], of: f64, width: usize) -> String {
        let mut text = String::new();
        let (mut sum, mut drawn) = (0.0, 0);
        for &(at, part) in parts {
            sum += part.max(0.0);
            let end = if of > 0.0 { (sum / of * width as f64).round() as usize } else { 0 };
            let end = end.min(width);
            let run: String =
                std::iter::repeat_n(self.fill(at), end.saturating_sub(drawn)).collect();
            text.push_str(&self.paint(at, &run));
            drawn = end.max(drawn);
        }
        text
    }

    /// The legend of a stack's fills, on as many lines as it takes.
    pub fn legend(self, names: &[(usize, &str)]) -> String {
        let mut lines = vec![String::new()];
        let mut used = 0;
        for &(at, name) in names {
            let long = name.chars().count() + 5;
            if used > 0 && used + long > self.width {
                lines.push(String::new());
                used = 0;
            }
            used += long;
            if let Some(line) = lines.last_mut() {
                line.push_str(&format!("  {} {name}", self.paint(at, &self.fill(at).to_string())));
            }
        }
        lines.iter().map(|line| format!("{line}\n")).collect()
    }

    /// `text` in the characters of this place.
    pub fn finish(self, text: String) -> String {
        if self.unicode { text } else { ascii(&text).into_owned() }
    }
}

/// `text` in ASCII, each character by one that is read the same way; one of unknown meaning is `?`.
pub fn ascii(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            c if c.is_ascii() => plain.push(c),
            'µ' => plain.push('u'),
            '·' | '−' | '–' | '—' => plain.push('-'),
            '×' => plain.push('x'),
            '•' => plain.push('*'),
            '…' => plain.push_str("..."),
            '→' => plain.push_str("->"),
            '≥' => plain.push_str(">="),
            '≤' => plain.push_str("<="),
            '✓' => plain.push_str("ok"),
            '✗' => plain.push_str("FAILED"),
            '█' | '▉' | '▊' | '▋' | '▌' => plain.push('#'),
            '▍' | '▎' | '▏' => plain.push(' '),
            '\u{a0}' => plain.push(' '),
            _ => plain.push('?'),
        }
    }
    Cow::Owned(plain)
}

/// `text` broken between words into lines of at most `width` characters; a longer word stands
/// alone.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let fits = |line: &String| line.chars().count() + 1 + word.chars().count() <= width;
        match lines.last_mut().filter(|line| fits(line)) {
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Style = Style { colour: false };

    #[test]
    fn parts_of_bars_are_aligned() {
        let canvas = Canvas::new(PLAIN, true, 80);
        let parts = [(5, 1.0), (4, 1.0), (3, 2.0)];
        assert_eq!(canvas.stack(&parts, 4.0, 8), "··▚▚░░░░");
        assert_eq!(canvas.stack(&parts[..2], 4.0, 8), "··▚▚");
        assert_eq!(canvas.stack(&parts, 3.0, 6), "··▚▚░░", "never wider than it may be");
        assert_eq!(canvas.stack(&parts, 0.0, 6), "");
        assert_eq!(canvas.stack(&[(0, 1.0), (1, -0.5), (2, 1.0)], 2.0, 4), "██▒▒");
        let colourful = Canvas::new(Style { colour: true }, false, 80);
        assert_eq!(colourful.stack(&[(0, 1.0)], 1.0, 2), "\x1b[36m##\x1b[0m");
    }

    #[test]
    fn every_fill_is_its_own() {
        for unicode in [false, true] {
            let canvas = Canvas::new(PLAIN, unicode, 80);
            let mut fills: Vec<_> = (0..8).map(|at| canvas.fill(at)).collect();
            fills.sort_unstable();
            fills.dedup();
            assert_eq!(fills.len(), 8);
            assert!(unicode || fills.iter().all(char::is_ascii));
        }
    }

    #[test]
    fn legends_stay_within_the_width() {
        let canvas = Canvas::new(PLAIN, false, 48);
        let names: Vec<(usize, &str)> = (0..6).map(|at| (at, "a component")).collect();
        let legend = canvas.legend(&names);
        assert_eq!(legend.lines().count(), 2);
        assert!(legend.lines().all(|line| line.len() <= 48), "{legend}");
    }

    #[test]
    fn text_is_written_in_ascii() {
        assert_eq!(ascii("p50 3 µs · 2 × ✓ …"), "p50 3 us - 2 x ok ...");
        assert!(matches!(ascii("plain"), Cow::Borrowed("plain")));
        assert_eq!(ascii("−logging → é"), "-logging -> ?");
    }

    #[test]
    fn words_are_wrapped() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("incomprehensibilities", 7), ["incomprehensibilities"]);
        assert!(wrapped("", 7).is_empty());
    }
}
