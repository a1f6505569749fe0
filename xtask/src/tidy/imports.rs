//! Which file needs which: the arrows between the source files of one crate, read from the paths in its code.
//!
//! A path is followed through the names that modules import and hand on, to the file that defines its item. So a
//! module's face, which only hands names on, is no target and has no arrows. Tests do not count. Not seen, because
//! no path names them: methods of a type that another file defines, and what macros expand to.

use super::code;
use super::modules;
use super::tree::{RustFile, Tree};
use std::collections::{BTreeMap, BTreeSet};

/// From file to file, with the names that the first takes from the second.
pub(crate) type Arrows = BTreeMap<(String, String), BTreeSet<String>>;

/// A module by the names on its path from the crate's root.
type Place = Vec<String>;

/// Names that modules hand on in a ring would be followed for ever.
const HOPS_MAX: usize = 16;

/// The arrows among the files that the crate's root file `root` reaches.
pub(crate) fn arrows(tree: &Tree, root: &str) -> Arrows {
    let files = modules::source_modules(tree, root);
    let modules = Modules(files.map(|(place, file)| (place, Module::read(file))).collect());
    let mut arrows = Arrows::new();
    for (place, module) in &modules.0 {
        for path in &module.needed {
            let Some(target) = modules.definer(place, path, HOPS_MAX) else { continue };
            let (from, to) = (&module.file.path, &target.file.path);
            if from != to {
                let names = arrows.entry((from.clone(), to.clone())).or_default();
                names.extend(path.last().map(|name| (*name).to_string()));
            }
        }
    }
    arrows
}

/// The modules of one crate.
struct Modules<'a>(BTreeMap<Place, Module<'a>>);

impl<'a> Modules<'a> {
    /// The module that defines what `path` names, seen from `place`; none where that is another crate's.
    fn definer(&self, place: &[String], path: &[&str], hops: usize) -> Option<&Module<'a>> {
        let (first, rest) = path.split_first()?;
        let module = self.0.get(place)?;
        match *first {
            "crate" => return self.definer(&[], rest, hops),
            "self" => return self.definer(place, rest, hops),
            "super" => return self.definer(place.split_last()?.1, rest, hops),
            _ => {}
        }
        let child = [place, &[(*first).to_string()]].concat();
        if self.0.contains_key(&child) {
            return self.definer(&child, rest, hops);
        }
        if module.defined.contains(first) {
            return Some(module);
        }
        let hops = hops.checked_sub(1)?;
        let through = |import: &Import<'a>, rest| {
            self.definer(place, &[import.path.as_slice(), rest].concat(), hops)
        };
        match module.imports.iter().find(|import| import.name == *first) {
            // An import of a name that is one's own module's, too, leads to another crate's.
            Some(import) if import.path.first() == Some(first) => None,
            Some(import) => through(import, rest),
            None => {
                let globs = module.imports.iter().filter(|import| import.name == "*");
                globs.filter_map(|glob| through(glob, path)).next()
            }
        }
    }
}

/// One file, as paths see it.
struct Module<'a> {
    file: &'a RustFile,
    /// Names of the items that the file defines.
    defined: BTreeSet<&'a str>,
    imports: Vec<Import<'a>>,
    /// The paths by which the file needs items.
    needed: Vec<Vec<&'a str>>,
}

/// One name that a `use` brings in; `*` for all names of a module.
struct Import<'a> {
    name: &'a str,
    path: Vec<&'a str>,
    handed_on: bool,
}

impl<'a> Module<'a> {
    fn read(file: &'a RustFile) -> Self {
        let code = file.code.as_str();
        let mut module =
            Self { file, defined: BTreeSet::new(), imports: Vec::new(), needed: Vec::new() };
        let mut used = BTreeSet::new();
        let mut behind = 0;
        let mut previous = "";
        for (at, word) in code::words(code).filter(|(at, _)| !file.in_test_item(*at)) {
            if at < behind {
                continue;
            }
            match (previous, word) {
                (_, "use") => {
                    behind = at + code[at..].find(';').unwrap_or(code.len() - at);
                    let handed_on = is_public(&code[..at]);
                    leaves(&code[at + "use".len()..behind], &[], &mut |name, path| {
                        module.imports.push(Import { name, path, handed_on });
                    });
                }
                (
                    "struct" | "enum" | "union" | "trait" | "type" | "fn" | "const" | "static"
                    | "macro_rules" | "mod",
                    name,
                ) => drop(module.defined.insert(name)),
                _ => {
                    used.insert(word);
                    let path = path_at(code, at);
                    if path.len() > 1 && !code[..at].ends_with(['$', ':', '.']) {
                        module.needed.push(path);
                    }
                }
            }
            previous = word;
        }
        let is_needed = |import: &&Import<'a>| !import.handed_on || used.contains(import.name);
        let imported = module.imports.iter().filter(is_needed).map(|import| import.path.clone());
        module.needed.extend(imported);
        if module.imports.iter().any(|import| import.name == "*") {
            module.needed.extend(used.into_iter().map(|name| vec![name]));
        }
        module
    }
}

/// Whether the item that begins behind `before` has a visibility of its own.
fn is_public(before: &str) -> bool {
    let start = before.rfind([';', '{', '}', ']']).map_or(0, |at| at + 1);
    code::words(&before[start..]).any(|(_, word)| word == "pub")
}

/// The names that stand at `at`, joined by `::`.
fn path_at(code: &str, mut at: usize) -> Vec<&str> {
    let mut path = Vec::new();
    while let Some((0, name)) = code::words(&code[at..]).next() {
        path.push(name);
        at += name.len();
        match code[at..].starts_with("::") {
            true => at += "::".len(),
            false => break,
        }
    }
    path
}

/// Each leaf of a `use` tree, with the name it brings in and its whole path.
fn leaves<'a>(tree: &'a str, before: &[&'a str], found: &mut impl FnMut(&'a str, Vec<&'a str>)) {
    let tree = tree.trim();
    if let Some((front, group)) = tree.split_once('{') {
        let group = group.trim_end().strip_suffix('}').unwrap_or(group);
        let before = [before, &names(front)].concat();
        parts(group).for_each(|part| leaves(part, &before, found));
        return;
    }
    let (path, alias) =
        tree.split_once(" as ").map_or((tree, None), |(path, alias)| (path, Some(alias)));
    let mut path = [before, &names(path)].concat();
    // `a::{self}` brings in `a`; `a::*` all that stands in `a`.
    let name = match path.last().copied() {
        Some("self") if path.len() > 1 => {
            path.pop();
            path.last().copied()
        }
        _ if tree.ends_with('*') => Some("*"),
        last => last,
    };
    if let Some(name) = alias.map(str::trim).or(name) {
        found(name, path);
    }
}

/// The names of a path, without what joins them.
fn names(path: &str) -> Vec<&str> {
    code::words(path).map(|(_, name)| name).collect()
}

/// The parts of a group, divided at the commas outside inner groups.
fn parts(group: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    group
        .split(move |c| {
            depth = match c {
                '{' => depth + 1,
                '}' => depth.saturating_sub(1),
                _ => depth,
            };
            c == ',' && depth == 0
        })
        .filter(|part| !part.trim().is_empty())
}
