//! Settings as flags: every command takes the settings that concern it, from the one registry.
//!
//! Their help is the registry's text, their errors are the registry's errors. Flags take precedence over the
//! environment, and the environment over the file.

use std::fs;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use tombolo_lab::failure::Failure;
use tombolo_lab::plan::make_effective;
use tombolo_lab::settings::{self, ENVIRONMENT_PREFIX, Kind, Setting, Settings, Source};

use crate::output;

/// The settings that a command accepts as flags.
pub(crate) trait Scope {
    /// The settings in the order of the help.
    fn settings() -> &'static [&'static Setting];
    /// Defaults of this command that differ from the registry's.
    const DEFAULTS: &'static [(&'static Setting, &'static str)] = &[];
}

/// Of commands without settings.
#[derive(Clone, Debug)]
pub(crate) struct NoSettings;

impl Scope for NoSettings {
    fn settings() -> &'static [&'static Setting] {
        &[]
    }
}

/// The flags of the command line, not yet parsed.
#[derive(Clone, Debug)]
pub(crate) struct Flags<S> {
    /// Whether results are for scripts.
    pub(crate) json: bool,
    config: Option<PathBuf>,
    given: Vec<(&'static str, String)>,
    scope: PhantomData<S>,
}

impl<S: Scope> Flags<S> {
    /// The effective settings.
    pub(crate) fn settings(&self) -> Result<Settings, Failure> {
        self.settings_with(self.config.as_deref())
    }

    /// Whether a setting was given as a flag.
    pub(crate) fn is_given(&self, setting: &Setting) -> bool {
        self.given.iter().any(|(name, _)| *name == setting.name)
    }

    /// The configuration that `--config` names, if `find` knows it; otherwise `--config` names a file.
    pub(crate) fn configuration<T>(&self, find: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        find(self.config.as_ref()?.to_str()?)
    }

    /// The effective settings if `--config` names no file.
    pub(crate) fn settings_without_file(&self) -> Result<Settings, Failure> {
        self.settings_with(None)
    }

    fn settings_with(&self, file: Option<&Path>) -> Result<Settings, Failure> {
        let mut settings = settings::defaults();
        for (setting, default) in S::DEFAULTS {
            let set = settings.set(setting.name, default, Source::Default);
            set.map_err(|error| Failure::check(error.to_string()))?;
        }
        if let Some(path) = file {
            read_file(path, &mut settings)?;
        }
        read_environment(&mut settings)?;
        for (name, value) in &self.given {
            let set = settings.set(name, value, Source::Flag);
            set.map_err(|error| Failure::usage(error.to_string()))?;
        }
        make_effective(&mut settings);
        Ok(settings)
    }
}

fn read_environment(settings: &mut Settings) -> Result<(), Failure> {
    for (variable, value) in std::env::vars_os() {
        let Some(variable) = variable.to_str() else { continue };
        let Some(name) = variable.strip_prefix(ENVIRONMENT_PREFIX) else { continue };
        let name = name.to_ascii_lowercase();
        if settings::find(&name).is_none() {
            output::complain(&format!("variable {variable} is not a setting and has no effect"));
            continue;
        }
        let value = value.to_string_lossy();
        let set = settings.set(&name, &value, Source::Environment);
        set.map_err(|error| Failure::usage(format!("variable {variable}: {error}")))?;
    }
    Ok(())
}

fn read_file(path: &Path, settings: &mut Settings) -> Result<(), Failure> {
    let usage = |what: &str| Failure::usage(format!("--config {}: {what}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| {
        usage(&format!("{error}: give a TOML file of settings (or A, B or C, to run debit-credit)"))
    })?;
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map_or(1, |span| text[..span.start].lines().count().max(1));
        usage(&format!("line {line}: {}", error.message()))
    })?;
    for (name, value) in table {
        let value = match value {
            toml::Value::String(text) => text,
            toml::Value::Integer(number) => number.to_string(),
            toml::Value::Float(number) => number.to_string(),
            other => {
                return Err(usage(&format!(
                    "{name} is a {}: give a number or a text",
                    other.type_str()
                )));
            }
        };
        settings.set(&name, &value, Source::File).map_err(|error| usage(&error.to_string()))?;
    }
    Ok(())
}

/// The placeholder of a setting's value in help.
fn value_name(setting: &Setting) -> String {
    match setting.kind {
        Kind::Choice(words) if words.len() <= 3 => words.join("|"),
        Kind::Choice(_) => "NAME".to_owned(),
        Kind::Text => "DIR".to_owned(), // the only texts that are settings are directories
        Kind::Bytes(..) => "SIZE".to_owned(),
        Kind::Duration(..) => "TIME".to_owned(),
        Kind::DurationOr(word, ..) => format!("TIME|{word}"),
        Kind::Count(..) | Kind::Hundredths(..) => "N".to_owned(),
    }
}

impl<S: Scope> Args for Flags<S> {
    fn augment_args(command: Command) -> Command {
        let json = Arg::new("json").long("json").action(ArgAction::SetTrue);
        let config = Arg::new("config").long("config").value_name("FILE");
        let command = command
            .arg(json.help("Print one JSON object per result, and nothing else"))
            .arg(
                config
                    .value_parser(value_parser!(PathBuf))
                    .help("Read settings from a TOML file; environment and flags take precedence"),
            )
            .next_help_heading("Settings");
        S::settings().iter().fold(command, |command, setting| {
            let own = S::DEFAULTS.iter().find(|(own, _)| own.name == setting.name);
            let default = own.map_or(setting.default_text(), |(_, default)| default);
            let limits = match setting.kind {
                Kind::Choice(words) if words.len() > 3 => format!("; {}", setting.limits()),
                _ => String::new(),
            };
            let help = format!("{} [{}{limits}]", capitalised(setting.about), default);
            let other = setting.other_name.map(|name| name.replace('_', "-"));
            command.arg(
                Arg::new(setting.name)
                    .long(setting.flag())
                    .visible_aliases(other)
                    .value_name(value_name(setting))
                    .help(help),
            )
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn capitalised(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or_else(String::new, |first| first.to_uppercase().chain(rest).collect())
}

impl<S: Scope> FromArgMatches for Flags<S> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = S::settings().iter().filter_map(|setting| {
            matches.get_one::<String>(setting.name).map(|value| (setting.name, value.clone()))
        });
        Ok(Self {
            json: matches.get_flag("json"),
            config: matches.get_one::<PathBuf>("config").cloned(),
            given: given.collect(),
            scope: PhantomData,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
