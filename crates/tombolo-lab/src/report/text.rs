//! Text for people as templates, in `templates/`: what is printed where, of which field, in which unit.
//!
//! Not here: tables whose columns are as wide as what is in them (`terminal.rs`).

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{Environment, UndefinedBehavior, context};
use serde::Serialize;

use super::canvas::{Canvas, wrapped};
use super::dissection::{figure, place, signed, times, whole};
use super::terminal::{Style, at_point, bar, switches_on, table};
use super::{MISSING, quantity, separated, size};
use crate::counters::Category;
use crate::experiment::looking_glass::paper;
use crate::experiment::looking_glass::result::Component;

macro_rules! templates {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("templates/", $name, ".txt")))),*]
    };
}

const TEMPLATES: &[(&str, &str)] = templates! {
    "macros" "run" "verified" "transactions" "instructions" "summary"
    "compare" "calls" "profiles" "check" "recover" "restart" "inspect" "inspect_pages" "in_doubt"
    "components" "matrix" "dissect_closing" "demo_opening" "demo_step" "demo_closing"
    "topology" "counters" "links" "deployment" "advice"
};

/// A result as a template has it, with what else it can ask for.
pub(super) fn fields(result: &impl Serialize, more: Value) -> Value {
    context! { ..more, ..Value::from(Serde(result)) }
}

/// The text that the template `name` makes of `context`.
pub(super) fn text(name: &str, context: Value, style: Style) -> String {
    // A field that is not there is a mistake, but for asking whether it is.
    draw(name, context, Canvas::new(style, true, 0), UndefinedBehavior::SemiStrict)
}

/// The same of a result that may lack parts, as wide as there is space.
pub(super) fn drawn(name: &str, context: Value, canvas: Canvas) -> String {
    draw(name, context, canvas, UndefinedBehavior::Chainable)
}

fn draw(name: &str, context: Value, canvas: Canvas, undefined: UndefinedBehavior) -> String {
    let mut environment = common(|figure| figure);
    environment.set_undefined_behavior(undefined);
    for (name, text) in TEMPLATES {
        let added = environment.add_template(name, text);
        added.unwrap_or_else(|error| panic!("{name} is a template: {error:#}"));
    }
    let style = canvas.style;
    environment.add_filter("separated", separated);
    // With no digit more than it has.
    environment.add_filter("plain", |value: f64| value.to_string());
    environment.add_filter("left", |value: String, width: usize| format!("{value:<width$}"));
    environment.add_filter("right", |value: String, width: usize| format!("{value:>width$}"));
    environment.add_filter("strong", move |text: &str| style.strong(text));
    environment.add_filter("faint", move |text: &str| style.faint(text));
    environment.add_filter("good", move |text: &str| style.good(text));
    environment.add_filter("bad", move |text: &str| style.bad(text));
    environment.add_filter("paragraph", move |text: &str| {
        let lines = wrapped(text, canvas.width() - 2).into_iter();
        lines.map(|line| format!("  {}", style.faint(&line))).collect::<Vec<_>>().join("\n")
    });
    // Lines of cells that `|` separates; the first is the heads.
    environment.add_filter("table", move |text: &str, left: usize| {
        let row = |line: &str| line.split('|').map(str::to_owned).collect();
        table(&text.lines().map(row).collect::<Vec<_>>(), left, style)
    });
    environment.add_filter("point", |Serde(point): Serde<_>| at_point(&point));
    environment.add_filter("switches", |Serde(switches): Serde<_>| switches_on(&switches));
    let drawn = move |part: f64, of: f64, width: usize| style.bar(&bar(part, of, width));
    environment.add_function("bar", drawn);
    let text = environment.get_template(name).and_then(|template| template.render(context));
    text.unwrap_or_else(|error| panic!("a template shows what results have: {error:#}"))
}

/// How a figure is shown.
type Show = fn(f64) -> String;

/// What text and page have in common: figures, components and calls in their order. `finish` is what becomes of a
/// figure as it is written.
pub(super) fn common(finish: fn(String) -> String) -> Environment<'static> {
    let mut environment = Environment::new();
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true);
    environment.set_syntax(syntax.build().expect("the usual delimiters"));
    let numbers: [(&str, Show); 7] = [
        ("quantity", quantity),
        ("whole", whole),
        ("size", |bytes| size(bytes as u64)),
        ("times", times),
        ("signed", signed),
        ("amount", amount),
        ("percent", |value| format!("{value:.1}")),
    ];
    let shown = move |number: Option<f64>, show: &dyn Fn(f64) -> String| {
        number.map_or_else(|| MISSING.to_owned(), |number| finish(show(number)))
    };
    for (name, show) in numbers {
        environment.add_filter(name, move |number: Option<f64>| shown(number, &show));
    }
    environment.add_filter("figure", move |number: Option<f64>, unit: &str| {
        shown(number, &|number| figure(number, unit))
    });
    environment.add_filter("fixed", |value: f64, digits: Option<usize>| {
        format!("{value:.0$}", digits.unwrap_or(2))
    });
    environment.add_filter("transaction", |key: &str| paper::name(key).to_owned());
    let component = |component: Component| {
        context! { key => component.key(), label => component.label(), at => place(component) }
    };
    environment.add_global("components", Component::ALL.map(component).to_vec());
    environment.add_global("calls", Category::ALL.map(Category::name).to_vec());
    environment
}

/// A count per transaction: whole, where it is.
fn amount(value: f64) -> String {
    if value.fract().abs() < 0.005 { whole(value) } else { quantity(value) }
}

#[cfg(test)]
mod tests {
    use crate::compare::{EngineResult, RatioResult};
    use crate::report::run::RunResult;
    use crate::report::terminal::{self, Style};

    const PLAIN: Style = Style { colour: false };

    #[test]
    fn results_have_what_their_text_asks_for() {
        let runs = include_str!("tests/run.jsonl").lines();
        for run in runs.filter_map(|line| serde_json::from_str::<RunResult>(line).ok()) {
            let text = terminal::measured(&run, PLAIN) + &terminal::verified(&run, PLAIN);
            for name in ["\n  throughput ", "\n  memory     ", "\n  checks     ", "\n  state      "]
            {
                assert!(text.contains(name), "{name} in {text}");
            }
            assert_eq!(text.contains("counted by"), run.counter.is_some(), "{text}");
        }
        let compared = include_str!("tests/compare.jsonl");
        let engines = compared.lines().filter_map(|line| serde_json::from_str(line).ok());
        let engines: Vec<EngineResult> = engines.collect();
        let ratios =
            compared.lines().find_map(|line| serde_json::from_str::<RatioResult>(line).ok());
        let text = terminal::compare(&engines, &ratios.unwrap(), PLAIN);
        assert!(text.lines().all(|line| line == line.trim_end() || line.contains('µ')), "{text}");
        assert!(text.contains("\n  ✓ ") && text.contains("takes"), "{text}");
    }
}
