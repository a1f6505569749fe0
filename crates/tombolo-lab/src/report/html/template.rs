//! The page's templates, written in Jinja, and what they can ask for.
//!
//! | word | gives |
//! |---|---|
//! | `x \| quantity`, `whole`, `size`, `times`, `signed`, `percent` | a number for people; a dash where there is none |
//! | `x \| figure(unit)` | the same with the digits that mean something in its unit |
//! | `x \| amount` | a count per transaction, which may be a fraction |
//! | `x \| field(name)` | a field's value, with the unit that its name ends with |
//! | `key \| transaction` | a transaction's name |
//! | `scale(values, logarithmic)`, `x \| on(scale)` | a scale, and where a value stands on it, in percent |
//! | `components`, `calls`, `common` | components and calls in their order; fields that every result has |
//!
//! Text is escaped, quotes and control characters too: all that is text stays text.

use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, Environment, Error, Output, State, UndefinedBehavior};
use serde_json::Value as Json;

use super::chart::Scale;
use super::json_text;
use crate::report::{MISSING, quantity, separated, size, text};

/// The templates; the first is the page.
const TEMPLATES: [(&str, &str); 9] = [
    ("page.html", include_str!("page.html")),
    ("style.css", include_str!("style.css")),
    ("chart.html", include_str!("chart.html")),
    ("dissect.html", include_str!("dissect.html")),
    ("paper.html", include_str!("paper.html")),
    ("runs.html", include_str!("runs.html")),
    ("comparison.html", include_str!("comparison.html")),
    ("plain.html", include_str!("plain.html")),
    ("series.html", include_str!("series.html")),
];

/// The fields that stand at the end of the page.
pub(super) const COMMON: [&str; 7] =
    ["command", "version", "commit", "settings", "settings_hash", "host", "seed"];

/// The page that shows what is in `context`.
pub(super) fn render(context: Value) -> String {
    let environment = environment();
    let page = environment.get_template(TEMPLATES[0].0).and_then(|page| page.render(context));
    let page = page.unwrap_or_else(|error| {
        panic!("a template shows whatever was read: {}", explained(&error))
    });
    let lines = page.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// An error of a template with its causes: the first is of the page, the last of what is wrong.
fn explained(error: &Error) -> String {
    let causes =
        std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn environment() -> Environment<'static> {
    let mut environment = text::common(with_minus);
    // What an older result lacks is a dash.
    environment.set_undefined_behavior(UndefinedBehavior::Chainable);
    environment.set_formatter(format);
    for (name, text) in TEMPLATES {
        let added = environment.add_template(name, text);
        added.unwrap_or_else(|error| panic!("{name} is a template: {error:#}"));
    }
    environment.add_filter("field", |Serde(value): Serde<Json>, name: &str| field(&value, name));
    environment.add_filter("on", |value: f64, Serde(scale): Serde<Scale>| scale.place(value));
    environment.add_function("scale", |values: Vec<Option<f64>>, logarithmic: Option<bool>| {
        let values: Vec<f64> = values.into_iter().flatten().collect();
        Value::from(Serde(match logarithmic {
            Some(true) => Scale::logarithmic(&values),
            _ => Scale::linear(values.into_iter().fold(0.0, f64::max)),
        }))
    });
    environment.add_global("common", COMMON.to_vec());
    environment
}

/// A figure with a minus as wide as a plus.
fn with_minus(figure: String) -> String {
    figure.replace('-', "−")
}

/// A field's value for people; units are at the end of names.
pub(super) fn field(value: &Json, name: &str) -> String {
    let Json::Number(number) = value else {
        return match value {
            Json::Bool(holds) => (if *holds { "yes" } else { "no" }).to_owned(),
            Json::Array(values) if values.is_empty() => MISSING.to_owned(),
            Json::Array(values) => {
                values.iter().map(|value| field(value, name)).collect::<Vec<_>>().join(", ")
            }
            Json::Object(fields) => {
                let named = fields.iter().map(|(name, it)| format!("{name} {}", field(it, name)));
                named.collect::<Vec<_>>().join(", ")
            }
            other => json_text(other),
        };
    };
    let figure = match (number.as_u64(), number.as_f64()) {
        (Some(bytes), _) if name.ends_with("_bytes") || name == "bytes" => return size(bytes),
        (Some(whole), _) => separated(whole),
        (_, Some(small)) if small != 0.0 && small.abs() < 0.1 => format!("{small:.4}"),
        (_, value) => with_minus(value.map_or_else(|| MISSING.to_owned(), quantity)),
    };
    const UNITS: [(&str, &str); 6] = [
        ("_us", "µs"),
        ("_ms", "ms"),
        ("_ns", "ns"),
        ("_percent", "%"),
        ("per_s", ""),
        ("_s", "s"),
    ];
    let unit = UNITS.iter().find(|(end, _)| name.ends_with(end)).map_or("", |(_, unit)| unit);
    if unit.is_empty() { figure } else { format!("{figure} {unit}") }
}

/// Writes a value, escaped where it is text of no template; control characters are in no HTML.
fn format(out: &mut Output, state: &mut State, value: &Value) -> Result<(), Error> {
    if value.is_safe() || matches!(state.auto_escape(), AutoEscape::None) {
        return Ok(write!(out, "{value}")?);
    }
    for character in value.to_string().chars() {
        match character {
            '&' => out.write_str("&amp;")?,
            '<' => out.write_str("&lt;")?,
            '>' => out.write_str("&gt;")?,
            '"' => out.write_str("&quot;")?,
            '\n' | '\t' => out.write_str(" ")?,
            c if c.is_control() => out.write_str("\u{fffd}")?,
            c => write!(out, "{c}")?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use minijinja::context;

    use super::*;

    #[test]
    fn what_is_text_stays_text() {
        let mut environment = environment();
        environment.add_template("t.html", "<b title=\"{{ title }}\">{{ text }}</b>").unwrap();
        let page = environment.get_template("t.html").unwrap();
        let page = page.render(context! { title => "a \"b\" & c", text => "<script>\u{1b}[31m" });
        let expected = "<b title=\"a &quot;b&quot; &amp; c\">&lt;script&gt;\u{fffd}[31m</b>";
        assert_eq!(page.unwrap(), expected);
    }

    #[test]
    fn fields_have_the_unit_of_their_name() {
        let shown = |value: Json, name| field(&value, name);
        assert_eq!(shown(1536.into(), "log_bytes"), "1.5 KB");
        assert_eq!(shown(12.345.into(), "wall_s"), "12.3 s");
        assert_eq!(shown(40_000.into(), "mb_per_s"), "40,000");
        assert_eq!(shown((-0.5).into(), "saved_percent"), "−0.50 %");
        assert_eq!(shown(0.002.into(), "cpu_s"), "0.0020 s");
        assert_eq!(shown(Json::Null, "note"), MISSING);
        assert_eq!(shown(serde_json::json!([true, "a", 1000]), "list"), "yes, a, 1,000");
    }
}
