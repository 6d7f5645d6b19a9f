//! Parameters and conditions of the template for the settings of sandbox providers.

use crate::environment::parameter;
use ::providers::{PROVIDERS, Setting};

/// The content of `Parameters`.
pub fn parameters() -> Result<String, String> {
    let mut text = String::new();
    for setting in PROVIDERS.iter().flat_map(|kind| kind.settings) {
        let name = setting
            .secret
            .map_or_else(|| parameter(setting.variable), |secret| Ok(secret.parameter.to_owned()))?;
        let default = setting.default.filter(|_| setting.secret.is_none()).unwrap_or_default();
        let [default, description] = [default, &description(setting)].map(|text| format!("{text:?}"));
        text +=
            &format!("  {name}:\n    Type: String\n    Default: {default}\n    Description: {description}\n");
    }
    Ok(text)
}

fn description(setting: &Setting) -> String {
    let Setting { description, fallback, .. } = setting;
    match (setting.secret, *fallback) {
        (Some(_), _) => {
            format!("Name of the secret in Secrets Manager with this value; empty for none: {description}")
        }
        (None, "") => (*description).to_owned(),
        (None, fallback) => format!("{description}; empty for {fallback}"),
    }
}

/// The content of `Conditions`.
pub fn conditions() -> String {
    let secrets = || PROVIDERS.iter().flat_map(|kind| kind.settings).filter_map(|setting| setting.secret);
    let mut text = String::new();
    for secret in secrets() {
        text += &format!("  {}: !Not [!Equals [!Ref {}, \"\"]]\n", secret.condition, secret.parameter);
    }
    let any: String = secrets().map(|secret| format!("!Condition {}, ", secret.condition)).collect();
    text + &format!("  HasProviderSecrets: !Or [{any}!Condition HasWorkerVariables]\n")
}
