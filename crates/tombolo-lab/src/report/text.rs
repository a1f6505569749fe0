//! Text for people as templates, in the folder of this name: what is printed where, of which field, in which unit.
//!
//! Not here: tables whose columns are as wide as what is in them (`terminal.rs`).

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{Environment, UndefinedBehavior};
use serde::Serialize;

use super::dissection::whole;
use super::terminal::{Style, bar};
use super::{quantity, separated, size};
use crate::counters::Category;

const TEMPLATES: [(&str, &str); 10] = [
    ("macros", include_str!("text/macros.txt")),
    ("run", include_str!("text/run.txt")),
    ("instructions", include_str!("text/instructions.txt")),
    ("compare", include_str!("text/compare.txt")),
    ("check", include_str!("text/check.txt")),
    ("recover", include_str!("text/recover.txt")),
    ("inspect", include_str!("text/inspect.txt")),
    ("demo_opening", include_str!("text/demo_opening.txt")),
    ("demo_step", include_str!("text/demo_step.txt")),
    ("demo_closing", include_str!("text/demo_closing.txt")),
];

/// A result as a template has it, with what else it can ask for.
pub(super) fn fields(result: &impl Serialize, more: Value) -> Value {
    minijinja::context! { ..more, ..Value::from(Serde(result)) }
}

/// The text that the template `name` makes of `context`.
pub(super) fn text(name: &str, context: Value, style: Style) -> String {
    let environment = environment(style);
    let text = environment.get_template(name).and_then(|template| template.render(context));
    text.unwrap_or_else(|error| panic!("a template shows what results have: {error:#}"))
}

fn environment(style: Style) -> Environment<'static> {
    let mut environment = Environment::new();
    // A field that is not there is a mistake, but for asking whether it is.
    environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true);
    environment.set_syntax(syntax.build().expect("the usual delimiters"));
    for (name, text) in TEMPLATES {
        let added = environment.add_template(name, text);
        added.unwrap_or_else(|error| panic!("{name} is a template: {error:#}"));
    }
    environment.add_filter("quantity", quantity);
    environment.add_filter("separated", separated);
    environment.add_filter("size", size);
    environment.add_filter("whole", whole);
    environment.add_filter("fixed", |value: f64, digits: usize| format!("{value:.digits$}"));
    environment.add_filter("left", |value: String, width: usize| format!("{value:<width$}"));
    environment.add_filter("right", |value: String, width: usize| format!("{value:>width$}"));
    environment.add_filter("strong", move |text: &str| style.strong(text));
    environment.add_filter("faint", move |text: &str| style.faint(text));
    environment.add_filter("good", move |text: &str| style.good(text));
    environment.add_filter("bad", move |text: &str| style.bad(text));
    let drawn = move |part: f64, of: f64, width: usize| style.bar(&bar(part, of, width));
    environment.add_function("bar", drawn);
    environment.add_global("calls", Category::ALL.map(Category::name).to_vec());
    environment
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
