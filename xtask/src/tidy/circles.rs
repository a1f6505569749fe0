//! Circles of imports: files that need each other cannot be read, tested or moved one without the other.
//!
//! A circle that spans folders is a finding, as a ratchet: the exceptions file may grant the circle whose first file
//! it names as many files as it has today. One within a folder is listed for the reader, who decides.

use super::exceptions::{self, Exceptions};
use super::imports::{self, Arrows};
use super::modules;
use super::tree::Tree;
use crate::findings::Findings;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Files that all need each other, in order of path, with a shortest circle through the first of them.
struct Circle {
    files: Vec<String>,
    /// Each file on the way, with the names it takes from the next one.
    way: Vec<(String, Vec<String>)>,
}

/// No circle spans folders but those granted, and no grant reaches further than it is needed.
pub(crate) fn across_folders(tree: &Tree, findings: &mut Findings) {
    let mut granted = Exceptions::read(tree).circles;
    for circle in circles(tree).filter(Circle::spans_folders) {
        let (first, count) = (&circle.files[0], circle.files.len());
        let (grant, line) = granted.remove(first).unwrap_or((1, 0));
        if count > grant {
            let problem =
                format!("{count} files in more than one folder need each other: {circle}");
            findings.add(first, 1, problem, "move what both need to a place below both");
        } else if count < grant {
            let problem =
                format!("the circle of {first} has {count} files now, fewer than {grant}");
            findings.add(exceptions::PATH, line, problem, "lower the number");
        }
    }
    for (first, (_, line)) in granted {
        let problem = format!("no circle across folders begins with {first}");
        findings.add(exceptions::PATH, line, problem, "remove the entry");
    }
}

/// A line for each circle within one folder.
pub(crate) fn within_folders(tree: &Tree) -> Vec<String> {
    let circles = circles(tree).filter(|circle| !circle.spans_folders());
    circles
        .map(|circle| format!("{} files need each other: {circle}", circle.files.len()))
        .collect()
}

fn circles(tree: &Tree) -> impl Iterator<Item = Circle> {
    modules::source_roots(tree).flat_map(|root| found_in(&imports::arrows(tree, &root)))
}

/// The circles among `arrows`: groups of files in which each reaches each.
fn found_in(arrows: &Arrows) -> Vec<Circle> {
    let mut targets: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (from, to) in arrows.keys() {
        targets.entry(from).or_default().push(to);
    }
    let reach: BTreeMap<&str, BTreeSet<&str>> =
        targets.keys().map(|from| (*from, reached(&targets, from))).collect();
    let mut placed = BTreeSet::new();
    let mut circles = Vec::new();
    for (first, reached) in &reach {
        if !reached.contains(first) || placed.contains(first) {
            continue;
        }
        let back = |other: &&&str| reach.get(**other).is_some_and(|back| back.contains(first));
        let files: Vec<&str> = reached.iter().filter(back).copied().collect();
        placed.extend(files.iter().copied());
        let way = way_round(&targets, first);
        let names = |from: &str, to: &str| {
            let names = arrows.get(&(from.to_string(), to.to_string()));
            names.into_iter().flatten().cloned().collect()
        };
        let next = way.iter().skip(1).chain(&way[..1]);
        circles.push(Circle {
            way: way
                .iter()
                .zip(next)
                .map(|(from, to)| ((*from).to_string(), names(from, to)))
                .collect(),
            files: files.iter().map(|file| (*file).to_string()).collect(),
        });
    }
    circles
}

/// All that `from` needs, directly and through others.
fn reached<'a>(targets: &BTreeMap<&'a str, Vec<&'a str>>, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        for to in targets.get(at).into_iter().flatten() {
            if reached.insert(*to) {
                open.push(to);
            }
        }
    }
    reached
}

/// A shortest way from `first` back to itself, without its end.
fn way_round<'a>(targets: &BTreeMap<&'a str, Vec<&'a str>>, first: &'a str) -> Vec<&'a str> {
    let mut ways = VecDeque::from([vec![first]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        for to in way.last().and_then(|at| targets.get(at)).into_iter().flatten() {
            if *to == first {
                return way;
            }
            if seen.insert(*to) {
                ways.push_back([way.as_slice(), &[*to]].concat());
            }
        }
    }
    vec![first]
}

impl Circle {
    fn spans_folders(&self) -> bool {
        let folder = |file| str::rsplit_once(file, '/').map_or("", |(folder, _)| folder);
        let folders = self.files.iter().map(|file| folder(file));
        folders.collect::<BTreeSet<_>>().len() > 1
    }
}

impl std::fmt::Display for Circle {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (file, names) in &self.way {
            write!(out, "{file} takes {} from ", names.join(", "))?;
        }
        write!(out, "{}", self.way[0].0)
    }
}
