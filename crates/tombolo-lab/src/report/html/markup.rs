//! HTML and SVG, well formed by construction: what is opened is closed, what is text is escaped.
//!
//! Everything also closes as XML does, so that a page can be verified without knowing HTML.

/// Attributes: a name, and a value that is still to be escaped.
pub(super) type Attributes<'a> = &'a [(&'static str, &'a str)];

/// A page that is being written.
#[derive(Debug, Default)]
pub(super) struct Markup {
    written: String,
}

impl Markup {
    /// An element with something in it.
    pub(super) fn node(
        &mut self,
        tag: &'static str,
        attributes: Attributes<'_>,
        inner: impl FnOnce(&mut Self),
    ) {
        self.open(tag, attributes);
        self.written.push('>');
        inner(self);
        self.written.push_str("</");
        self.written.push_str(tag);
        self.written.push('>');
        if is_block(tag) {
            self.written.push('\n');
        }
    }

    /// An element with nothing but text in it.
    pub(super) fn leaf(&mut self, tag: &'static str, attributes: Attributes<'_>, text: &str) {
        self.node(tag, attributes, |inner| inner.text(text));
    }

    /// An element with nothing in it.
    pub(super) fn empty(&mut self, tag: &'static str, attributes: Attributes<'_>) {
        self.open(tag, attributes);
        self.written.push_str("/>");
    }

    /// Text.
    pub(super) fn text(&mut self, text: &str) {
        escape(text, &mut self.written);
    }

    /// A style sheet of our own: text that is not escaped in HTML.
    pub(super) fn style_sheet(&mut self, sheet: &'static str) {
        assert!(
            !sheet.contains("</") && !sheet.contains('&'),
            "it would end or change the element"
        );
        self.open("style", &[]);
        self.written.push_str(">\n");
        self.written.push_str(sheet);
        self.written.push_str("</style>\n");
    }

    fn open(&mut self, tag: &'static str, attributes: Attributes<'_>) {
        self.written.push('<');
        self.written.push_str(tag);
        for (name, value) in attributes {
            self.written.push(' ');
            self.written.push_str(name);
            self.written.push_str("=\"");
            escape(value, &mut self.written);
            self.written.push('"');
        }
    }

    /// The whole page.
    pub(super) fn finish(self) -> String {
        format!("<!DOCTYPE html>\n{}", self.written)
    }
}

/// Elements that a line ends behind, for readers of the source.
fn is_block(tag: &str) -> bool {
    matches!(
        tag,
        "h1" | "h2"
            | "h3"
            | "p"
            | "tr"
            | "table"
            | "figure"
            | "section"
            | "svg"
            | "li"
            | "ul"
            | "div"
            | "nav"
            | "head"
            | "body"
            | "html"
            | "title"
            | "main"
            | "header"
            | "footer"
            | "thead"
            | "tbody"
            | "caption"
            | "figcaption"
            | "defs"
            | "pattern"
            | "dl"
            | "details"
    )
}

/// Control characters are in no HTML; they are shown as the replacement character.
fn escape(text: &str, to: &mut String) {
    for character in text.chars() {
        match character {
            '&' => to.push_str("&amp;"),
            '<' => to.push_str("&lt;"),
            '>' => to.push_str("&gt;"),
            '"' => to.push_str("&quot;"),
            '\n' | '\t' => to.push(' '),
            c if c.is_control() => to.push('\u{fffd}'),
            c => to.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_text_stays_text() {
        let mut markup = Markup::default();
        markup.leaf("b", &[("title", "a \"b\" & c")], "<script>\u{1b}[31m");
        let expected =
            "<!DOCTYPE html>\n<b title=\"a &quot;b&quot; &amp; c\">&lt;script&gt;\u{fffd}[31m</b>";
        assert_eq!(markup.finish(), expected);
    }
}
