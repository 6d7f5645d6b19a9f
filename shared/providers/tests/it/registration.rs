//! Providers as hosts use them: by their registration.

use crate::support::{check_contract, worker};
use crate::throw_away::THROW_AWAY;
use kit::daytona;
use providers::{Environment, PROVIDERS, ProviderKind, Setting, WorkerSource};
use std::collections::BTreeSet;
use std::time::Duration;

/// The providers of the product, and one that is added like every other: in one line.
fn kinds() -> Vec<&'static ProviderKind> {
    [PROVIDERS, &[&THROW_AWAY]].concat()
}

#[tokio::test]
async fn every_provider_is_constructed_from_its_settings_and_fulfils_the_contract() {
    let delay = Duration::from_millis(50);
    let options = daytona::Options { start_delay: delay, delete_delay: delay, ..daytona::Options::default() };
    let fake = daytona::Daytona::start(options).await;
    for kind in kinds() {
        let folder = tempfile::tempdir().unwrap();
        let environment = Environment {
            plane: "here".to_owned(),
            worker: WorkerSource::File(worker(folder.path(), "")),
            timeout: Duration::from_secs(5),
        };
        let value = |setting: &Setting| match setting.variable {
            "DAYTONA_API_URL" => Some(fake.url().to_owned()),
            "DAYTONA_API_KEY" => Some(fake.key().to_owned()),
            "THROWAWAY_FOLDER" => Some(folder.path().join("sandboxes").display().to_string()),
            _ => None,
        };
        let values = kind.read(value);
        assert!(kind.missing(&values).is_none(), "{}", kind.name);
        let provider = (kind.create)(&values, environment).unwrap();
        assert_eq!(provider.name(), kind.name);
        check_contract(provider.as_ref(), &format!("{}-registered", kind.name)).await;
    }
}

#[test]
fn provider_without_its_required_settings_is_not_set_up() {
    for kind in kinds() {
        let values = kind.read(|_| Some(String::new()));
        let missing = kind.missing(&values).unwrap_or_else(|| panic!("{} needs no setting", kind.name));
        assert!(missing.required && missing.default.is_none(), "{}", missing.variable);
    }
}

#[test]
fn settings_have_unique_names_with_the_name_of_their_provider() {
    let mut names = BTreeSet::new();
    for (kind, setting) in
        kinds().into_iter().flat_map(|kind| kind.settings.iter().map(move |setting| (kind, setting)))
    {
        assert!(setting.variable.starts_with(&kind.name.to_uppercase()), "{}", setting.variable);
        assert_eq!(setting.flag, setting.variable.to_lowercase().replace('_', "-"));
        assert!(names.insert(setting.variable), "{} exists twice", setting.variable);
        if let Some(secret) = setting.secret {
            assert!(names.insert(secret.variable), "{} exists twice", secret.variable);
        }
    }
}

#[test]
fn debug_output_omits_the_values_of_settings() {
    let values = PROVIDERS[0].read(|_| Some("a-planted-key".to_owned()));
    assert!(!format!("{values:?}").contains("planted"), "{values:?}");
}
