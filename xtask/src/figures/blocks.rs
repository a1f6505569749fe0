//! Finds the marked places of a Markdown file, and renders them anew.
//!
//! A mark is alone on its line: `<!-- figures: NAME -->`, and `<!-- end -->` below it. Lines within code blocks are
//! marks as well.

const BEGIN: &str = "<!-- figures: ";
const END: &str = "<!-- end -->";

/// The name in a line that begins a block.
pub(super) fn begins(line: &str) -> Option<&str> {
    line.strip_prefix(BEGIN)?.strip_suffix("-->").map(str::trim)
}

/// Whether the line ends a block.
pub(super) fn ends(line: &str) -> bool {
    line == END
}

/// The names of all blocks.
pub(super) fn names(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(begins)
}

/// `text` with every block replaced by the result of `render` for its name, or the line and reason of a failure.
pub(super) fn replaced(
    text: &str,
    mut render: impl FnMut(&str) -> Result<String, String>,
) -> Result<String, (usize, String)> {
    let mut new = String::new();
    let mut open: Option<(usize, String)> = None;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let number = index + 1;
        let bare = line.trim_end_matches('\n');
        match (&open, begins(bare), ends(bare)) {
            (None, Some(name), _) => {
                let figures = render(name).map_err(|problem| (number, problem))?;
                new.push_str(line);
                open = Some((number, figures));
            }
            (Some((_, figures)), None, true) => {
                new.push_str(&format!("{}\n", figures.trim_end()));
                new.push_str(line);
                open = None;
            }
            (Some((began, _)), Some(_), _) => {
                return Err((*began, "the block does not end before the next begins".to_string()));
            }
            (None, None, true) => {
                return Err((number, "no block begins before its end".to_string()));
            }
            (Some(_), None, false) => {}
            (None, None, false) => new.push_str(line),
        }
    }
    match open {
        Some((began, _)) => Err((began, format!("the block does not end with `{END}`"))),
        None => Ok(new),
    }
}
