//! Daytona's registration: settings and construction.

use super::{Daytona, Options};
use crate::{Created, Environment, ProviderKind, SecretNames, Setting, Values};
use std::sync::Arc;

pub const DAYTONA: ProviderKind =
    ProviderKind { name: "daytona", title: "Daytona", settings: &[API_KEY, API_URL, TARGET], create };

const API_KEY: Setting = Setting {
    variable: "DAYTONA_API_KEY",
    flag: "daytona-api-key",
    placeholder: "KEY",
    description: "Daytona API key; needed by the provider daytona",
    default: None,
    fallback: "",
    required: true,
    secret: Some(SecretNames {
        variable: "SUNABA_DAYTONA_KEY_ID",
        parameter: "DaytonaKeyName",
        condition: "HasDaytonaKey",
    }),
};

const API_URL: Setting = Setting {
    variable: "DAYTONA_API_URL",
    flag: "daytona-api-url",
    placeholder: "URL",
    description: "URL of the Daytona API",
    default: Some("https://app.daytona.io/api"),
    required: false,
    secret: None,
    ..API_KEY
};

const TARGET: Setting = Setting {
    variable: "DAYTONA_TARGET",
    flag: "daytona-target",
    placeholder: "REGION",
    description: "Daytona region of the sandboxes",
    fallback: "that of the organization",
    required: false,
    secret: None,
    ..API_KEY
};

fn create(values: &Values, environment: Environment) -> Created {
    Ok(Arc::new(Daytona::new(Options {
        api_url: values.require(API_URL.variable)?,
        api_key: values.require(API_KEY.variable)?,
        organization: None,
        target: values.get(TARGET.variable).map(str::to_owned),
        plane: environment.plane,
        worker: environment.worker,
        timeout: environment.timeout,
    })))
}
