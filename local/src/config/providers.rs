//! Flags and variables of sandbox providers, from their registrations.

use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};
use providers::{PROVIDERS, Setting};
use std::collections::BTreeMap;
use std::fmt;

/// Values by variable.
#[derive(Clone, Default)]
pub struct ProviderOptions(BTreeMap<&'static str, String>);

impl ProviderOptions {
    pub fn get(&self, variable: &str) -> Option<&str> {
        self.0.get(variable).map(String::as_str)
    }

    #[cfg(test)]
    pub fn of(variable: &'static str, value: &str) -> Self {
        Self([(variable, value.to_owned())].into())
    }
}

/// The settings of all providers.
pub fn settings() -> impl Iterator<Item = &'static Setting> {
    PROVIDERS.iter().flat_map(|kind| kind.settings)
}

impl Args for ProviderOptions {
    fn augment_args(mut command: Command) -> Command {
        for kind in PROVIDERS {
            for setting in kind.settings {
                let default = setting.default.unwrap_or(setting.fallback);
                let help = match default {
                    "" => setting.description.to_owned(),
                    default => format!("{} [default: {default}]", setting.description),
                };
                let argument = Arg::new(setting.variable)
                    .long(setting.flag)
                    .env(setting.variable)
                    .hide_env_values(true)
                    .value_name(setting.placeholder)
                    .help(help)
                    .help_heading(kind.title);
                command = command.arg(argument);
            }
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ProviderOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let value = |setting: &Setting| matches.get_one::<String>(setting.variable).cloned();
        let values = settings().filter_map(|setting| Some((setting.variable, value(setting)?)));
        Ok(Self(values.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.extend(Self::from_arg_matches(matches)?.0);
        Ok(())
    }
}

impl fmt::Debug for ProviderOptions {
    /// Omits the values, which include secrets: debug output ends up in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
