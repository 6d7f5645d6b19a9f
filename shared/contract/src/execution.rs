//! Decodes the execution settings of a request: agent, model, repository, and resources of the sandbox.
//!
//! Values that would fail later in a worker are rejected here, where the client sees the error.

use crate::bad_input::BadInput;
use crate::fields::Fields;
use crate::repository;
use domain::resources::{ResourceRequest, resolve};
use domain::task::{BranchType, Execution};

/// Maximum length of the name of an agent, a model, a snapshot or a branch.
pub(crate) const MAX_NAME_CHARS: usize = 200;
pub(crate) const MAX_REPOSITORY_CHARS: usize = 500;

/// Decodes `agent`, `model`, the branches, the repository in either form, and the resources.
pub fn decode(fields: &Fields) -> Result<Execution, BadInput> {
    let amount = |field: &str| -> Result<Option<u32>, BadInput> {
        let amount = fields.integer(field, 1..=u64::from(u32::MAX))?;
        Ok(amount.map(|amount| u32::try_from(amount).unwrap_or(u32::MAX)))
    };
    let execution = Execution {
        // Whether the plane has this agent is for the use case to check.
        agent: fields.line("agent", MAX_NAME_CHARS)?,
        model: fields.line("model", MAX_NAME_CHARS)?,
        repository: repository(fields)?,
        branch: branch(fields, "branch")?,
        base_branch: branch(fields, "base_branch")?,
        branch_type: fields.one_of("branch_type", &BranchType::ALL.map(|known| (known.as_str(), known)))?,
        memory_gb: amount("memory_gb")?,
        cpu: amount("cpu")?,
        disk_gb: amount("disk_gb")?,
        snapshot: fields.line("snapshot", MAX_NAME_CHARS)?,
        ..Execution::default()
    };
    resolve(&[ResourceRequest::from(&execution)])?;
    Ok(execution)
}

/// `github_owner` and `github_repo`, as in OmoiOS, or `repository`.
fn repository(fields: &Fields) -> Result<Option<String>, BadInput> {
    let part = |field: &str| -> Result<Option<String>, BadInput> {
        match fields.line(field, MAX_NAME_CHARS)? {
            Some(name) if !repository::is_name(&name) => {
                let rule =
                    "may contain letters, digits, '.', '_' and '-', and must not start with '.' or '-'";
                Err(BadInput::invalid(field, rule))
            }
            other => Ok(other),
        }
    };
    let (owner, name) = (part("github_owner")?, part("github_repo")?);
    let address = fields.line("repository", MAX_REPOSITORY_CHARS)?;
    match (owner, name, address) {
        (None, None, None) => Ok(None),
        (None, None, Some(address)) => check_address(address).map(Some),
        (Some(owner), Some(name), None) => Ok(Some(format!("{owner}/{name}"))),
        (Some(_), None, _) => Err(BadInput::invalid("github_repo", "is required with github_owner")),
        (None, Some(_), _) => Err(BadInput::invalid("github_owner", "is required with github_repo")),
        (Some(_), Some(_), Some(_)) => Err(BadInput::invalid(
            "repository",
            "must not be used together with github_owner and github_repo",
        )),
    }
}

/// Accepts what workers support, without white space. The address stays as it was sent.
fn check_address(address: String) -> Result<String, BadInput> {
    if address.contains(char::is_whitespace) {
        return Err(BadInput::invalid("repository", "must not contain white space"));
    }
    match repository::parse(&address) {
        Ok(_) => Ok(address),
        Err(invalid) => Err(BadInput::invalid("repository", invalid.to_string())),
    }
}

/// The rules of `git check-ref-format --branch` that workers apply.
fn branch(fields: &Fields, field: &str) -> Result<Option<String>, BadInput> {
    let Some(name) = fields.line(field, MAX_NAME_CHARS)? else { return Ok(None) };
    let bad = name.starts_with(['-', '/', '.'])
        || name.ends_with(['/', '.'])
        || name.contains("..")
        || name.contains(|character: char| " ~^:?*[\\".contains(character));
    if bad { Err(BadInput::invalid(field, "is not a valid branch name")) } else { Ok(Some(name)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Result<Execution, BadInput> {
        decode(&Fields::decode(body.as_bytes())?)
    }

    #[test]
    fn both_forms_of_a_repository_are_accepted() {
        let in_two_parts = read(r#"{"github_owner":"acme","github_repo":"shop.js"}"#).unwrap();
        assert_eq!(in_two_parts.repository.as_deref(), Some("acme/shop.js"));
        for good in
            ["acme/shop", "https://Example.com/a.git", "git@example.com:a/b", "/srv/a", "file:///srv/a"]
        {
            let read = read(&format!(r#"{{"repository":"{good}"}}"#)).unwrap();
            assert_eq!(read.repository.as_deref(), Some(good));
        }
    }

    #[test]
    fn the_invalid_field_is_named() {
        for (body, field) in [
            (r#"{"github_owner":"acme"}"#, "github_repo"),
            (r#"{"github_repo":"shop"}"#, "github_owner"),
            (r#"{"github_owner":"-a","github_repo":"shop"}"#, "github_owner"),
            (r#"{"github_owner":"a","github_repo":"shop","repository":"a/shop"}"#, "repository"),
            (r#"{"repository":"--upload-pack=x"}"#, "repository"),
            (r#"{"repository":"ext::sh"}"#, "repository"),
            (r#"{"repository":"ext://x"}"#, "repository"),
            (r#"{"repository":"a b/c"}"#, "repository"),
            (r#"{"repository":"https://token@example.com/a"}"#, "repository"),
            (r#"{"repository":"https://:token@example.com/a"}"#, "repository"),
            (r#"{"repository":"https://tok#en@example.com/a"}"#, "repository"),
            (r#"{"repository":"https://user:1?x@example.com/a"}"#, "repository"),
            (r#"{"repository":"HTTPS://example.com/a"}"#, "repository"),
            (r#"{"repository":"https://"}"#, "repository"),
            (r#"{"branch":"-x"}"#, "branch"),
            (r#"{"branch":"a..b"}"#, "branch"),
            (r#"{"base_branch":"a b"}"#, "base_branch"),
            (r#"{"branch_type":"epic"}"#, "branch_type"),
            (r#"{"agent":"two\nlines"}"#, "agent"),
            (r#"{"model":""}"#, "model"),
            (r#"{"memory_gb":9}"#, "memory_gb"),
            (r#"{"memory_gb":0}"#, "memory_gb"),
            (r#"{"memory_gb":4294967296}"#, "memory_gb"),
            (r#"{"cpu":"2"}"#, "cpu"),
            (r#"{"cpu":5}"#, "cpu"),
            (r#"{"disk_gb":11}"#, "disk_gb"),
            (r#"{"disk_gb":1.5}"#, "disk_gb"),
            (r#"{"snapshot":"a b"}"#, "snapshot"),
        ] {
            match read(body) {
                Err(BadInput::Invalid(wrong)) => assert_eq!(wrong.field, field, "{body}"),
                other => panic!("{body}: {other:?}"),
            }
        }
    }
}
