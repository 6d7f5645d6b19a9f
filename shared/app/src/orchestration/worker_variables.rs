//! Additional environment variables of workers, such as API keys of models and tokens of code hosts. The operator sets
//! them by name for every org, for one org, or for one project of it.

use domain::{OrgId, ProjectId};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;

type Variables = BTreeMap<String, String>;

/// Written as JSON:
///
/// ```json
/// {
///   "NODE_EXTRA_CA_CERTS": "/etc/ssl/ca.pem",
///   "orgs": {
///     "acme": {
///       "ANTHROPIC_API_KEY": "…",
///       "projects": { "web": { "GITHUB_TOKEN": "…" } }
///     }
///   }
/// }
/// ```
///
/// **Invariant:** a worker receives no variable of another org or of another project.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
pub struct WorkerVariables {
    #[serde(flatten)]
    every_org: Variables,
    #[serde(default)]
    orgs: BTreeMap<OrgId, OrgVariables>,
}

#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
struct OrgVariables {
    #[serde(flatten)]
    every_project: Variables,
    #[serde(default)]
    projects: BTreeMap<ProjectId, Variables>,
}

impl WorkerVariables {
    /// The same variables for every org.
    pub fn shared(variables: Variables) -> Self {
        Self { every_org: variables, orgs: BTreeMap::new() }
    }

    /// # Errors
    /// The message omits the text, because it contains secrets.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        serde_json::from_str(text).map_err(|_| {
            "worker variables must be a JSON object of strings; \"orgs\" maps the id of an org to such an object, and \
             \"projects\" in it the id of a project"
        })
    }

    /// The variables of a task's worker. The narrower definition of a name wins.
    pub fn of(&self, org: &OrgId, project: Option<&ProjectId>) -> Variables {
        let org = self.orgs.get(org);
        let project = org.and_then(|org| org.projects.get(project?));
        let layers = [Some(&self.every_org), org.map(|org| &org.every_project), project];
        layers.into_iter().flatten().flatten().map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// The variables of every org.
    pub fn of_every_org(&self) -> &Variables {
        &self.every_org
    }

    /// Adds variables for every org. Names that are set already keep their values.
    #[must_use]
    pub fn with_defaults(mut self, defaults: Variables) -> Self {
        for (name, value) in defaults {
            self.every_org.entry(name).or_insert(value);
        }
        self
    }

    /// All names and values, to be redacted from logs.
    pub fn all(&self) -> impl Iterator<Item = (&String, &String)> {
        let of_orgs = self
            .orgs
            .values()
            .flat_map(|org| org.every_project.iter().chain(org.projects.values().flatten()));
        self.every_org.iter().chain(of_orgs)
    }
}

impl fmt::Debug for WorkerVariables {
    /// Omits the values: debug output ends up in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.all().map(|(name, _)| name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{
        "CA": "every", "KEY": "plane",
        "orgs": {
            "acme": {"KEY": "acme", "projects": {"web": {"KEY": "web", "GITHUB_TOKEN": "web"}}},
            "other": {"OTHER": "planted"}
        }
    }"#;

    fn of(org: &str, project: Option<&str>) -> Vec<(String, String)> {
        let project = project.map(|project| ProjectId::parse(project).unwrap());
        let variables = WorkerVariables::parse(TEXT).unwrap();
        variables.of(&OrgId::parse(org).unwrap(), project.as_ref()).into_iter().collect()
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn worker_receives_no_variable_of_another_org_or_project() {
        let own = pairs(&[("CA", "every"), ("GITHUB_TOKEN", "web"), ("KEY", "web")]);
        assert_eq!(of("acme", Some("web")), own);
        assert_eq!(of("acme", Some("app")), pairs(&[("CA", "every"), ("KEY", "acme")]));
        assert_eq!(of("acme", None), pairs(&[("CA", "every"), ("KEY", "acme")]));
        assert_eq!(
            of("other", Some("web")),
            pairs(&[("CA", "every"), ("KEY", "plane"), ("OTHER", "planted")])
        );
        assert_eq!(of("new", None), pairs(&[("CA", "every"), ("KEY", "plane")]));
    }

    #[test]
    fn flat_object_applies_to_every_org() {
        let variables = WorkerVariables::parse(r#"{"ANTHROPIC_API_KEY": "k"}"#).unwrap();
        let expected = WorkerVariables::shared([("ANTHROPIC_API_KEY".to_owned(), "k".to_owned())].into());
        assert_eq!(variables, expected);
    }

    #[test]
    fn invalid_text_and_values_stay_out_of_messages() {
        for invalid in [
            r#"{"KEY": 7, "OTHER": "sesame"}"#,
            r#"["sesame"]"#,
            "sesame",
            r#"{"orgs": {"acme": "sesame"}}"#,
            r#"{"orgs": {"acme": {"projects": {"web": ["sesame"]}}}}"#,
        ] {
            let error = WorkerVariables::parse(invalid).unwrap_err();
            assert!(!error.contains("sesame"), "{error}");
        }
        let debug = format!("{:?}", WorkerVariables::parse(TEXT).unwrap());
        assert!(debug.contains("OTHER") && !debug.contains("planted"), "{debug}");
    }
}
