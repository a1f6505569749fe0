//! The page is well formed, loads nothing, is the same each time, and holds every figure.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use super::*;
use crate::experiment::looking_glass::figures::Figure;

const DISSECT: &str = include_str!("../tests/dissect.json");
const RUN: &str = include_str!("../tests/run.jsonl");
const COMPARE: &str = include_str!("../tests/compare.jsonl");
const OTHER: &str = "{\"command\": \"a chore\", \"islands\": [{\"cores\": 2, \"name\": \"a<b\"}, \
                     {\"cores\": 4, \"shared\": true}], \"text\": \"<script>alert(1)</script>\"}";

fn reproduction() -> String {
    let dissection = serde_json::from_str(DISSECT).unwrap();
    let found = Figure::Fig5.reproduce(&dissection);
    let mut object = serde_json::to_value(found).unwrap();
    object["command"] = "paper".into();
    object.to_string()
}

fn everything() -> String {
    let mut results = Vec::new();
    for text in [DISSECT, RUN, COMPARE, OTHER, &reproduction()] {
        results.extend(read("a.json", text.as_bytes()).unwrap());
    }
    page(&results)
}

/// Every element is closed by its own end, no attribute comes twice, ids are unique, references
/// lead somewhere.
fn assert_well_formed(page: &str) {
    let mut open: Vec<String> = Vec::new();
    let (mut ids, mut references) = (Vec::new(), Vec::new());
    let mut rest = page.strip_prefix("<!DOCTYPE html>\n").unwrap();
    while let Some(at) = rest.find('<') {
        let text = &rest[..at];
        assert!(!text.contains('>') || open.last().is_some_and(|tag| tag == "style"), "{text}");
        let end = at + rest[at..].find('>').expect("a tag ends");
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name));
            continue;
        }
        let (tag, is_empty) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let name = tag.split(' ').next().unwrap();
        let mut names = Vec::new();
        let mut attributes = tag[name.len()..].trim();
        while let Some((name, value)) = attributes.split_once("=\"") {
            let (value, next) = value.split_once('"').expect("a value ends");
            assert!(!names.contains(&name), "{name} twice in {tag}");
            names.push(name);
            match name {
                "id" => ids.push(value),
                "href" => references.push(value.strip_prefix('#').expect("a place in the page")),
                "fill" => references.extend(value.strip_prefix("url(#").map(|v| &v[..v.len() - 1])),
                _ => {}
            }
            attributes = next.trim_start();
        }
        assert_eq!(attributes, "", "{tag}");
        if !is_empty {
            open.push(name.to_owned());
        }
    }
    assert!(open.is_empty(), "{open:?}");
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "ids are unique");
    assert!(references.iter().all(|reference| ids.contains(reference)));
    assert!(!references.is_empty());
}

#[test]
fn the_page_is_well_formed() {
    assert_well_formed(&everything());
}

#[test]
fn the_page_loads_nothing_and_runs_nothing() {
    let page = everything();
    for forbidden in
        ["http:", "https:", " src=", "<script", "<link", "@import", "<img", "<iframe", "<object"]
    {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    for (at, _) in page.match_indices("url(") {
        assert!(page[at..].starts_with("url(#"), "{}", &page[at..at + 40]);
    }
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "text stays text");
}

#[test]
fn the_same_results_give_the_same_bytes() {
    assert_eq!(everything(), everything());
}

#[test]
fn every_figure_is_there_with_the_papers_numbers() {
    let page = everything();
    for figure in Figure::ALL {
        assert!(
            page.contains(&format!(">{}</h3>", figure.item().title)),
            "{}",
            figure.item().title
        );
    }
    for number in ["1,730,000 instructions", "180,000 instructions", "46,500", "34.6 %", "29.8 %"] {
        assert!(page.contains(number), "{number}");
    }
    let charts = page.matches("class=\"chart\"").count();
    assert_eq!(page.matches("role=\"img\" aria-label=\"").count(), charts, "each says what it is");
    assert!(charts >= 14, "{charts}");
    assert!(page.contains("prefers-color-scheme: dark") && page.contains("name=\"viewport\""));
    for part in
        ["Which calls each removal hits", "whatever the order", "sqlite / tombolo/bare", "p99.9"]
    {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn what_was_not_counted_is_a_dash() {
    let mut object: serde_json::Value = serde_json::from_str(DISSECT).unwrap();
    for rung in object["rungs"].as_array_mut().unwrap() {
        for cost in rung["by_transaction"].as_object_mut().unwrap().values_mut() {
            *cost = serde_json::json!({});
        }
    }
    for field in ["components", "matrix", "alone", "attribution", "lattice", "if_variant"] {
        object.as_object_mut().unwrap().remove(field);
    }
    let page = page(&read("a.json", object.to_string().as_bytes()).unwrap());
    assert_well_formed(&page);
    assert!(page.contains("not counted") && page.contains("<td>–</td>"));
    assert!(!page.contains("NaN") && !page.contains("inf"));
}

#[test]
fn a_ladder_that_goes_up_has_no_figures_of_the_paper() {
    let mut object: serde_json::Value = serde_json::from_str(DISSECT).unwrap();
    object["ladder"] = "product".into();
    let rungs = object["rungs"].as_array_mut().unwrap();
    rungs.reverse();
    for rung in rungs {
        (rung["switch"], rung["component"]) = ("undo".into(), serde_json::Value::Null);
    }
    let page = page(&read("a.json", object.to_string().as_bytes()).unwrap());
    assert_well_formed(&page);
    assert!(page.contains("an engine put together") && !page.contains("Figure 5"));
}

#[test]
fn the_page_opens_with_its_picture_and_ends_with_where_it_comes_from() {
    let page = everything();
    let at = |part: &str| page.find(part).unwrap_or_else(|| panic!("{part}"));
    assert!(at("class=\"chart\"") < at("class=\"facts\""), "the ladder comes first");
    assert!(at("</main>") < at("Where the results come from</h2>"));
    assert!(at("Where the results come from</h2>") < at("All settings ("));
}

/// The names under which a run of `workload` with `settings` is listed.
fn name_of_run(workload: &str, settings: &[(&str, u64)]) -> String {
    let mut run: Json = serde_json::from_str(RUN.lines().next().unwrap()).unwrap();
    (run["workload"], run["mix"], run["warehouses"]) = (workload.into(), Json::Null, Json::Null);
    settings.iter().for_each(|(name, value)| run[*name] = (*value).into());
    let page = page(&read("a.json", run.to_string().as_bytes()).unwrap());
    let (_, name) = page.split_once("<th scope=\"row\">1 · ").unwrap();
    name.split_once("</th>").unwrap().0.to_owned()
}

#[test]
fn runs_are_named_by_their_workloads_scale() {
    let named = |workload, settings: &[(&str, u64)], scale: &str| {
        assert_eq!(name_of_run(workload, settings), format!("memory{scale} · durability none"));
    };
    named("tpcc", &[("warehouses", 1)], " · 1 warehouse");
    named("tpcc", &[("warehouses", 2_000)], " · 2,000 warehouses");
    let branches = [("branches", 10), ("tellers_per_branch", 10), ("accounts_per_branch", 1_000)];
    named("debit-credit", &branches, " · 10 branches");
    named("ycsb", &[("records", 100_000)], " · 100,000 records");
    named("unknown", &[], "");
}

#[test]
fn results_of_one_command_are_one_table() {
    let point = |islands: u32, tps: f64| {
        let mut object: Json = serde_json::from_str(RUN.lines().next().unwrap()).unwrap();
        let fields = object.as_object_mut().unwrap();
        fields.retain(|name, _| template::COMMON.contains(&name.as_str()));
        let own = serde_json::json!({
            "command": "islands", "workload": "rows", "kind": "read-2", "durability": "none", "islands": islands,
            "threads": 1, "multisite_percent": 20, "round": 0, "committed": 7, "distributed": 0, "wall_s": 1.0,
            "cpu_s": 1.0, "tps": tps, "us_per_transaction_cpu": 1.0, "latency_us": {"mean": 1.0, "p50": 2.5,
            "p95": 3.0, "p99": 3.0, "p999": 3.0, "max": 3.0},
        });
        fields.extend(own.as_object().unwrap().clone());
        object.to_string()
    };
    let results = format!("{}\n{}\n{OTHER}\n{OTHER}", point(1, 1000.0), point(4, 2500.0));
    let page = page(&read("a.json", results.as_bytes()).unwrap());
    assert_well_formed(&page);
    assert_eq!(page.matches("Result of islands</h2>").count(), 1);
    for part in
        ["1 island · 20 % multisite", "4 islands · 20 % multisite", "latency us p50", "2.50 µs"]
    {
        assert!(page.contains(part), "{part}");
    }
    assert!(page.contains("<td>2,500</td>"), "a column of what differs");
    assert_eq!(page.matches(">committed</th>").count(), 1, "what is the same is said once");
    assert_eq!(page.matches("Result of a chore</h2>").count(), 2, "they have tables of their own");
}

/// Files of results below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let below = |path: PathBuf| if path.is_dir() { files(&path) } else { vec![path] };
    let is_json =
        |path: &PathBuf| path.extension().is_some_and(|end| end == "json" || end == "jsonl");
    entries.flat_map(below).filter(is_json).collect()
}

/// Whether `printed` says all that `read` does: it may have nulls and zeros that an older result lacks.
fn says_all_of(printed: &Json, read: &Json) -> bool {
    match (printed, read) {
        (Json::Object(printed), Json::Object(read)) => read
            .iter()
            .all(|(name, read)| printed.get(name).is_some_and(|it| says_all_of(it, read))),
        (Json::Array(printed), Json::Array(read)) => {
            printed.len() == read.len()
                && printed.iter().zip(read).all(|(printed, read)| says_all_of(printed, read))
        }
        (Json::Number(printed), Json::Number(read)) => printed.as_f64() == read.as_f64(),
        _ => printed == read,
    }
}

/// A result of a command is read by the type that prints it, and printed and read again the same.
fn assert_read_as_its_type(object: &Json, place: &str) {
    let read = |object: &Json| read(place, object.to_string().as_bytes()).unwrap().remove(0);
    let stored = read(object);
    let printed = stored.printed().expect("a type of its own");
    assert!(says_all_of(&printed, object), "{place}: {printed} is not {object}");
    let again = read(&printed);
    assert_eq!((&again.found, again.printed()), (&stored.found, Some(printed)));
}

#[test]
fn every_recorded_result_is_shown() {
    let files = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results"));
    let read_file = |file: &PathBuf| read(&file.display().to_string(), &fs::read(file).unwrap());
    let results: Vec<Stored> = files.iter().flat_map(|file| read_file(file).unwrap()).collect();
    let page = page(&results);
    assert_well_formed(&page);
    assert!(!page.contains("NaN") && !page.contains("inf%"));
}

/// The commands that print results.
const COMMANDS: [&str; 17] = [
    "advise",
    "check",
    "compare",
    "counters",
    "dissect",
    "dump",
    "inspect",
    "islands",
    "links",
    "paper",
    "recover",
    "repartition",
    "report",
    "run",
    "settings",
    "topology",
    "verify",
];

#[test]
fn every_recorded_result_of_a_command_is_read_as_its_type() {
    let mut results = 0;
    for file in files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results")) {
        let bytes = fs::read(&file).unwrap();
        for object in serde_json::Deserializer::from_slice(&bytes).into_iter::<Json>() {
            let object = object.unwrap();
            // The others are of this repository's chores, examples and simulator.
            let command = object["command"].as_str();
            if command.is_some_and(|command| COMMANDS.contains(&command)) {
                assert_read_as_its_type(&object, &file.display().to_string());
                results += 1;
            }
        }
    }
    assert!(results > 250, "{results}");
    for text in [DISSECT, COMPARE, RUN] {
        let objects = serde_json::Deserializer::from_str(text).into_iter::<Json>();
        objects.for_each(|object| assert_read_as_its_type(&object.unwrap(), "an example"));
    }
}
