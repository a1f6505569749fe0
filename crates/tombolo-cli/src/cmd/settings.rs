//! `tombolo settings`: prints every setting with its value and the value's source.

use tombolo_lab::failure::Failure;
use tombolo_lab::report::listed::{SettingResult, SettingsResult};
use tombolo_lab::report::terminal::{Style, table};
use tombolo_lab::report::value_json;
use tombolo_lab::settings::{self, Setting, Settings};

use super::run::RunSettings;
use crate::flags::Flags;
use crate::output::{Output, result_header};

const EXAMPLES: &str = "\
Examples:
  tombolo settings
  TOMBOLO_WAREHOUSES=20 tombolo settings --config bench.toml --json

A file holds one setting a line: warehouses = 20, mix = \"paper\", seconds = \"500ms\".
A variable is TOMBOLO_ and the name in capitals. Flags are strongest, then variables, then the file.";

/// Print every setting with its unit, limits, default and value
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(flatten)]
    flags: Flags<RunSettings>,
}

fn describe(settings: &Settings, setting: &'static Setting) -> SettingResult {
    SettingResult {
        name: setting.name.to_owned(),
        value: value_json(settings.get(setting)),
        source: settings.source(setting).name().to_owned(),
        unit: setting.unit.to_owned(),
        limits: setting.limits(),
        default: setting.default_text().to_owned(),
        flag: format!("--{}", setting.flag()),
        variable: setting.variable(),
        about: setting.about.to_owned(),
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let settings = arguments.flags.settings()?;
    let result = SettingsResult {
        registry: settings::all().iter().map(|setting| describe(&settings, setting)).collect(),
    };
    let (output, header) =
        (Output::new(arguments.flags.json), result_header("settings", &settings));
    output.result(&header, &result, |result, style| for_people(&settings, &result.registry, style))
}

fn for_people(settings: &Settings, registry: &[SettingResult], style: Style) -> String {
    let heads = ["setting", "value", "from", "default", "limits", "unit"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    for (setting, result) in settings::all().iter().zip(registry) {
        let value = settings.get(setting).map_or_else(|| "—".to_owned(), ToString::to_string);
        let texts =
            [&result.name, &value, &result.source, &result.default, &result.limits, &result.unit];
        rows.push(texts.map(String::clone).to_vec());
    }
    let mut text = table(&rows, heads.len(), style);
    text.push('\n');
    for result in registry {
        text.push_str(&format!("  {:<24} {}\n", result.name, style.faint(&result.about)));
    }
    text
}
