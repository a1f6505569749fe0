//! Rust text with everything that is not code blanked, and the few facts the rules read from it.
//!
//! Blanking keeps every newline and every byte offset, so an offset in the code is one in the text. It knows
//! nested comments, raw and byte strings, and distinguishes characters from lifetimes; it does not expand macros.

use std::ops::Range;

/// `text` with comments, strings and character literals turned into spaces.
pub(crate) fn blanked(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = literal_end(bytes, at);
        if end > at {
            let blanks = code[at..end].iter_mut().filter(|byte| **byte != b'\n');
            blanks.for_each(|byte| *byte = b' ');
            at = end;
        } else {
            at += 1;
        }
    }
    // Literals are blanked whole, so no character is cut; were one, it would be replaced, not refused.
    String::from_utf8_lossy(&code).into_owned()
}

/// Where the comment or literal that starts at `at` ends; `at` itself if none starts there.
fn literal_end(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    if rest.starts_with(b"//") {
        return at + rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    }
    if rest.starts_with(b"/*") {
        return at + block_comment_length(rest);
    }
    if rest[0] == b'"' {
        return at + quoted_length(rest, b'"');
    }
    if rest[0] == b'\'' {
        return at + character_length(rest);
    }
    let starts_word = at == 0 || !is_word(bytes[at - 1]);
    if starts_word { at + raw_string_length(rest) } else { at }
}

fn block_comment_length(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest[at..].starts_with(b"*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// The length of what stands between two quotes, both included; backslashes escape.
fn quoted_length(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// The length of a character literal, 0 for a lifetime: only a literal closes after one character.
fn character_length(rest: &[u8]) -> usize {
    let width = match rest.get(1) {
        None | Some(b'\'') => return 0,
        Some(b'\\') => return quoted_length(rest, b'\''),
        Some(0xF0..) => 4,
        Some(0xE0..) => 3,
        Some(0xC0..) => 2,
        Some(_) => 1,
    };
    if rest.get(1 + width) == Some(&b'\'') { width + 2 } else { 0 }
}

/// The length of `r"…"`, `r#"…"#`, `br…`, `cr…`; 0 for anything else, raw identifiers among it.
fn raw_string_length(rest: &[u8]) -> usize {
    let prefix = usize::from(matches!(rest[0], b'b' | b'c'));
    if rest.get(prefix) != Some(&b'r') {
        return 0;
    }
    let hashes = rest[prefix + 1..].iter().take_while(|byte| **byte == b'#').count();
    let open = prefix + 1 + hashes;
    if rest.get(open) != Some(&b'"') {
        return 0;
    }
    let mut at = open + 1;
    while at < rest.len() {
        let closing = rest[at + 1..].iter().take(hashes).filter(|byte| **byte == b'#').count();
        if rest[at] == b'"' && closing == hashes {
            return at + 1 + hashes;
        }
        at += 1;
    }
    rest.len()
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Every identifier and keyword, with its offset.
pub(crate) fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let bytes = code.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() && !is_word(bytes[at]) {
            at += 1;
        }
        let start = at;
        while at < bytes.len() && is_word(bytes[at]) {
            at += 1;
        }
        (start < at).then(|| (start, &code[start..at]))
    })
}

/// The byte ranges of items under `#[cfg(test)]` or `#[cfg(all(test, …))]`, attribute included.
pub(crate) fn test_items(code: &str) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for (start, _) in code.match_indices("#[cfg(").chain(code.match_indices("#![cfg(")) {
        let open = start + code[start..].find('[').unwrap_or(0);
        let end = closing(code, open);
        let condition = &code[open..end];
        if condition.contains("not(") || !words(condition).any(|(_, word)| word == "test") {
            continue;
        }
        if code[start..].starts_with("#!") {
            return std::iter::once(0..code.len()).collect();
        }
        ranges.push(start..item_end(code, end));
    }
    ranges
}

/// The end of the item that follows `at`: behind its block, or behind its semicolon.
fn item_end(code: &str, mut at: usize) -> usize {
    let bytes = code.as_bytes();
    while at < bytes.len() {
        match bytes[at] {
            b';' => return at + 1,
            b'{' => return closing(code, at),
            b'(' | b'[' => at = closing(code, at),
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The offset behind the bracket that closes the one at `open`.
pub(crate) fn closing(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (offset, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return offset + 1;
                }
            }
            _ => {}
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::{blanked, test_items, words};

    fn remaining_words(text: &str) -> String {
        let code = blanked(text);
        assert_eq!(code.len(), text.len(), "offsets are kept");
        words(&code).map(|(_, word)| word).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_and_literals_are_no_code() {
        assert_eq!(remaining_words("a // b\nc /* d /* e */ f */ g"), "a c g");
        assert_eq!(remaining_words(r#"a "b \" c" d"#), "a d");
        assert_eq!(remaining_words(r###"a r#"b " c"# d br"e\" f"###), "a d f");
        assert_eq!(remaining_words("a 'b' c '\\'' d 'ä' e '\u{10348}' f"), "a c d e f");
        assert_eq!(
            remaining_words("fn f<'a>(x: &'a str, y: &'static str)"),
            "fn f a x a str y static str"
        );
        assert_eq!(remaining_words("r#type for_r \"x"), "r type for_r");
        assert_eq!(remaining_words("b'\"' a b\"unsafe\" c\"unsafe\" z"), "b a b c z");
    }

    #[test]
    fn test_items_are_found_whole() {
        let item = |text: &str| {
            let ranges = test_items(&blanked(text));
            ranges.into_iter().map(|range| text[range].to_string()).collect::<Vec<_>>()
        };
        assert_eq!(
            item("a\n#[cfg(test)]\nmod t { { '}' } }\nb"),
            ["#[cfg(test)]\nmod t { { '}' } }"]
        );
        assert_eq!(
            item("#[cfg(all(test, loom))]\n#[path = \"x.rs\"]\nmod t;\nb"),
            ["#[cfg(all(test, loom))]\n#[path = \"x.rs\"]\nmod t;"]
        );
        assert_eq!(item("#![cfg(test)]\nfn a() {}\n"), ["#![cfg(test)]\nfn a() {}\n"]);
        assert!(item("#[cfg(not(test))] fn a() {}\n#[cfg(loom)] fn b() {}").is_empty());
    }
}
