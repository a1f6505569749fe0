//! The page is well formed, loads nothing, is the same each time, and holds every figure.

use super::*;
use crate::experiment::looking_glass::figures::Figure;

const DISSECT: &str = include_str!("../tests/dissect.json");
const RUN: &str = include_str!("../tests/run.jsonl");
const COMPARE: &str = include_str!("../tests/compare.jsonl");
const OTHER: &str = "{\"command\": \"topology\", \"islands\": [{\"cores\": 2, \"name\": \"a<b\"}, \
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
        assert!(page.contains(&format!(">{}</h3>", figure.title())), "{}", figure.title());
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
