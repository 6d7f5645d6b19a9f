//! The interface between hosts and providers. A provider is a folder that implements [`SandboxProvider`], and a line in
//! [`PROVIDERS`](crate::PROVIDERS). Hosts read its settings and construct it without knowing which it is.

use crate::SandboxProvider;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A provider that a plane can be configured with.
pub struct ProviderKind {
    /// Name in settings, records and logs: [`SandboxProvider::name`].
    pub name: &'static str,
    /// Name in texts for people.
    pub title: &'static str,
    pub settings: &'static [Setting],
    /// Sends no request yet. Called only if all required settings are set.
    pub create: fn(&Values, Environment) -> Created,
}

/// A provider, or a sentence that names the setting that is wrong.
pub type Created = Result<Arc<dyn SandboxProvider>, String>;

/// A setting of a provider: an environment variable, a flag of `sunaba dev` and a parameter of the stack.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Environment variable. It begins with the name of the provider.
    pub variable: &'static str,
    /// Flag of `sunaba dev`, without dashes in front.
    pub flag: &'static str,
    /// Placeholder in help texts: `URL`.
    pub placeholder: &'static str,
    pub description: &'static str,
    /// Used if it is not set.
    pub default: Option<&'static str>,
    /// What applies if it is not set and has no default, for people. Empty if that is obvious.
    pub fallback: &'static str,
    /// Without it the provider is not set up.
    pub required: bool,
    /// Set if the value is a secret.
    pub secret: Option<SecretNames>,
}

/// Names on AWS, where functions read a secret from Secrets Manager.
#[derive(Debug, Clone, Copy)]
pub struct SecretNames {
    /// Environment variable with the name of the secret.
    pub variable: &'static str,
    /// Parameter of the stack with the name of the secret.
    pub parameter: &'static str,
    /// Condition of the template that the parameter is not empty.
    pub condition: &'static str,
}

/// What every provider is given.
#[derive(Debug, Clone)]
pub struct Environment {
    /// [`SandboxProvider::list`] lists the sandboxes of this plane.
    pub plane: String,
    pub worker: WorkerSource,
    /// Timeout of a request. Uploading the worker executable may take five times as long.
    pub timeout: Duration,
}

/// Where the worker executable comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkerSource {
    /// A path in the snapshot or image.
    InImage(String),
    /// A local file, which is uploaded.
    File(PathBuf),
    /// A URL that the plane downloads from; the file is then uploaded.
    Url(String),
}

/// Values of settings, by variable. Secrets are in plaintext, so they are not shown in debug output.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Values(BTreeMap<&'static str, String>);

impl ProviderKind {
    /// Reads the values of all settings. Empty ones count as not set.
    pub fn read(&self, mut value: impl FnMut(&Setting) -> Option<String>) -> Values {
        let set = self.settings.iter().filter_map(|setting| {
            let value = value(setting).filter(|value| !value.is_empty());
            Some((setting.variable, value.or_else(|| setting.default.map(str::to_owned))?))
        });
        Values(set.collect())
    }

    /// The first required setting that is not set. With it, the provider is not set up.
    pub fn missing(&self, values: &Values) -> Option<&'static Setting> {
        self.settings.iter().find(|setting| setting.required && values.get(setting.variable).is_none())
    }
}

impl Values {
    pub fn get(&self, variable: &str) -> Option<&str> {
        self.0.get(variable).map(String::as_str)
    }

    /// The value of a setting that is required or has a default.
    ///
    /// # Errors
    /// If it is neither, and not set.
    pub fn require(&self, variable: &str) -> Result<String, String> {
        self.get(variable).map(str::to_owned).ok_or_else(|| format!("{variable} is not set"))
    }
}

impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl fmt::Debug for ProviderKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderKind").field("name", &self.name).finish_non_exhaustive()
    }
}
