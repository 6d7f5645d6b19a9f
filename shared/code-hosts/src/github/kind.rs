//! GitHub's registration: variables and construction.

use super::catalogue::Repositories;
use super::credential::Credential;
use super::http::Http;
use super::{Address, GitHub};
use crate::{Catalogued, CodeHostKind, Environment, Failure, Opened, Values, Variable};
use std::sync::Arc;

pub const GITHUB: CodeHostKind = CodeHostKind {
    name: "github",
    title: "GitHub",
    variables: &[TOKEN, HOST, API_URL, APP_ID, APP_PRIVATE_KEY, FEEDBACK_BOTS, WEBHOOK_SECRET],
    open,
    catalogue,
    is_of_this_machine: false,
};

const TOKEN: Variable = Variable {
    name: "GITHUB_TOKEN",
    description: "Token that may write contents, pull requests and commit statuses of the repository",
    secret: true,
};

const HOST: Variable = Variable {
    name: "GITHUB_HOST",
    description: "Host of the repositories, if it is not github.com",
    secret: false,
};

const API_URL: Variable = Variable {
    name: "GITHUB_API_URL",
    description: "URL of the REST API, if it is not the usual one of the host",
    secret: false,
};

const APP_ID: Variable = Variable {
    name: "GITHUB_APP_ID",
    description: "Id of a GitHub App that is installed for the repository; used instead of the token",
    secret: false,
};

const APP_PRIVATE_KEY: Variable = Variable {
    name: "GITHUB_APP_PRIVATE_KEY",
    description: "Private key of the App, as GitHub provides it: PEM, line breaks may be written as \\n",
    secret: true,
};

const FEEDBACK_BOTS: Variable = Variable {
    name: "GITHUB_FEEDBACK_BOTS",
    description: "Logins of programs whose reviews and comments go to the agent, separated by commas; those of Apps end with [bot]",
    secret: false,
};

/// Read by the plane when a webhook arrives (`app::webhooks`).
const WEBHOOK_SECRET: Variable = Variable {
    name: "GITHUB_WEBHOOK_SECRET",
    description: "Secret with which GitHub signs webhooks; without one they are refused",
    secret: true,
};

fn open(address: &str, value: &Values<'_>, environment: &Environment) -> Opened {
    let (host, api_url) = (set(value, HOST), set(value, API_URL));
    let Some(address) = Address::parse(address, host.as_deref(), api_url.as_deref())? else {
        return Ok(None);
    };
    let Some(credential) = credential(value)? else { return Ok(None) };
    let http = Http::new(&address, credential, environment);
    let bots = set(value, FEEDBACK_BOTS).unwrap_or_default();
    let bots = bots.split(',').map(|bot| bot.trim().to_lowercase()).filter(|bot| !bot.is_empty()).collect();
    Ok(Some(Arc::new(GitHub { address, http, poll_delay: environment.poll_delay, bots })))
}

fn catalogue(value: &Values<'_>, environment: &Environment) -> Catalogued {
    let Some(credential) = credential(value)? else { return Ok(None) };
    let repositories = Repositories::new(set(value, HOST), set(value, API_URL), credential, environment)?;
    Ok(Some(Arc::new(repositories)))
}

/// The App if there is one, or else the token.
fn credential(value: &Values<'_>) -> Result<Option<Credential>, Failure> {
    match (set(value, APP_ID), set(value, APP_PRIVATE_KEY), set(value, TOKEN)) {
        (Some(id), Some(key), _) => Credential::app(&id, &key).map(Some),
        (_, _, Some(token)) => Credential::token(&token).map(Some),
        _ => Ok(None),
    }
}

/// The value of a variable that is not empty.
fn set(value: &Values<'_>, variable: Variable) -> Option<String> {
    value(variable.name).filter(|value| !value.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reason;

    fn opened(variables: &[(&str, &str)]) -> Opened {
        let value = |name: &str| {
            variables.iter().find(|(found, _)| *found == name).map(|(_, value)| (*value).to_owned())
        };
        open("https://github.com/acme/shop.git", &value, &Environment::new(Arc::new(|| 0)))
    }

    #[test]
    fn repository_without_a_credential_is_not_served() {
        for variables in [
            &[][..],
            &[("GITHUB_TOKEN", " ")],
            &[("GITHUB_APP_ID", "1")],
            &[("GITHUB_APP_PRIVATE_KEY", "x")],
            &[("GITHUB_TOKEN", "ghp_x"), ("GITHUB_HOST", "git.example")],
        ] {
            assert!(opened(variables).unwrap().is_none(), "{variables:?}");
        }
        assert!(opened(&[("GITHUB_TOKEN", "ghp_x")]).unwrap().is_some());
    }

    #[test]
    fn unusable_variables_are_named_without_their_values() {
        for (variables, named) in [
            (&[("GITHUB_TOKEN", "planted\nline")][..], "GITHUB_TOKEN"),
            (&[("GITHUB_APP_ID", "1"), ("GITHUB_APP_PRIVATE_KEY", "planted")], "GITHUB_APP_PRIVATE_KEY"),
            (&[("GITHUB_TOKEN", "planted"), ("GITHUB_API_URL", "planted")], "GITHUB_API_URL"),
        ] {
            let failure = opened(variables).unwrap_err();
            assert!(matches!(failure.reason, Reason::Unauthorized | Reason::Invalid), "{failure:?}");
            assert!(failure.message.contains(named), "{failure}");
            assert!(!format!("{failure:?}").contains("planted"), "{failure:?}");
        }
    }
}
