//! Every dependency says why it is there: a comment on its line or on the line above.
//!
//! Packages of this workspace need none (their place in the design is the reason), nor do lines that inherit from
//! `[workspace.dependencies]`, where the reason is given once. A table (`[dependencies.name]`) counts as a line.

use super::text::numbered;
use super::tree::Tree;
use crate::findings::Findings;

/// Checks the manifests of all packages and of the workspace.
pub(crate) fn reasons(tree: &Tree, findings: &mut Findings) {
    for (path, text) in
        tree.texts().filter(|(path, _)| *path == "Cargo.toml" || path.ends_with("/Cargo.toml"))
    {
        check(path, text, findings);
    }
}

fn check(path: &str, text: &str, findings: &mut Findings) {
    let mut in_dependencies = false;
    let mut above = "";
    // Brackets left open by a value that spans lines.
    let mut open = 0_isize;
    for (number, line) in numbered(text) {
        let (code, comment) = without_comment(line);
        let named = if open > 0 || code.is_empty() {
            None
        } else if let Some(header) = code.strip_prefix('[') {
            let header = header.trim_start_matches('[').trim_end_matches(']');
            in_dependencies = is_dependencies(header);
            header
                .rsplit_once('.')
                .filter(|(section, _)| is_dependencies(section))
                .map(|(_, name)| name)
        } else {
            in_dependencies.then(|| code.split(['=', '.']).next().unwrap_or_default().trim())
        };
        let inherits = code.contains("workspace = true") || code.contains("path = ");
        if let Some(name) = named.filter(|name| !name.starts_with("tombolo") && !inherits)
            && !comment
            && !above.trim_start().starts_with('#')
        {
            let fix = "say in a comment on the line or above it why the project depends on it";
            findings.add(path, number, format!("dependency `{name}` without a reason"), fix);
        }
        if !code.starts_with('[') || open > 0 {
            open += brackets(code);
        }
        above = line;
    }
}

fn is_dependencies(section: &str) -> bool {
    let last = section.rsplit('.').next().unwrap_or(section);
    ["dependencies", "dev-dependencies", "build-dependencies"].contains(&last)
}

/// The line up to a `#` outside of quotes, and whether a comment follows that says something.
fn without_comment(line: &str) -> (&str, bool) {
    let mut in_string = false;
    for (at, c) in line.char_indices() {
        match c {
            '"' => in_string = !in_string,
            '#' if !in_string => return (line[..at].trim(), line[at + 1..].trim().len() > 2),
            _ => {}
        }
    }
    (line.trim(), false)
}

fn brackets(code: &str) -> isize {
    code.chars().map(|c| isize::from("[{".contains(c)) - isize::from("]}".contains(c))).sum()
}
