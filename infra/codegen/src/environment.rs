//! Environment variables of functions, and the values that the template gives them.

use ::providers::{PROVIDERS, SecretNames};
use edge::registry::Function;
use lambda_host::config::{COMMON, variables};

/// The lines below `Variables:` of a function, without the variables that all functions share.
pub fn lines(function: &Function) -> Result<Vec<String>, String> {
    let mut names: Vec<&str> = Vec::new();
    for name in function.permissions.iter().flat_map(|permission| variables(*permission)) {
        if !names.contains(name) {
            names.push(name);
        }
    }
    let mut lines = vec![format!("SUNABA_FUNCTION: {}", function.name)];
    for name in names {
        lines.extend(value(name)?.lines().map(str::to_owned));
    }
    Ok(lines)
}

/// `NAME: value`; a condition takes several lines.
fn value(name: &str) -> Result<String, String> {
    if let Some(secret) = provider_secret(name) {
        return Ok(format!("{name}: !Ref {}", secret.parameter));
    }
    match fixed(name) {
        Some((value, _)) => Ok(format!("{name}: {value}")),
        // All other variables are parameters of the same name.
        None => parameter(name).map(|parameter| format!("{name}: !Ref {parameter}")),
    }
}

/// The value of a variable in the template, and its description unless it is that of the parameter.
pub fn source(name: &str, template: &str) -> Result<(String, Option<&'static str>), String> {
    let common = match name {
        "SUNABA_FUNCTION" => {
            return Ok((String::new(), Some("Selects the function that the process serves")));
        }
        "SUNABA_TABLE" => Some("Name of the DynamoDB table"),
        _ => None,
    };
    if COMMON.contains(&name) {
        // Below `Globals`, which is written by hand.
        let label = format!("{name}: ");
        let mut lines = template.lines().map(str::trim_start);
        let value = lines.find_map(|line| line.strip_prefix(&label));
        let value = value.ok_or_else(|| format!("template.yaml does not set {name}"))?;
        return Ok((value.to_owned(), common));
    }
    if let Some(secret) = provider_secret(name) {
        return Ok((format!("!Ref {}", secret.parameter), None));
    }
    match fixed(name) {
        Some((value, description)) => Ok((value.to_owned(), description)),
        None => parameter(name).map(|parameter| (format!("!Ref {parameter}"), None)),
    }
}

/// Names of the parameters and resources in a value, without AWS's own (`AWS::Region`).
pub fn references(value: &str) -> Vec<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == ':';
    let mut names = Vec::new();
    for marker in ["!Ref ", "!GetAtt ", "${"] {
        for rest in value.split(marker).skip(1) {
            let name = rest.split(|c| !is_part(c)).next().unwrap_or_default();
            if !name.starts_with("AWS::") && !names.iter().any(|found| found == name) {
                names.push(name.to_owned());
            }
        }
    }
    names
}

/// Variables that are not parameters of the same name: value and description. Without a description, that of the
/// parameter applies.
fn fixed(name: &str) -> Option<(&'static str, Option<&'static str>)> {
    let (value, description) = match name {
        // Names of secrets, never their values: permission to view a function includes its environment.
        "SUNABA_SOCKETS_URL" => (
            "!If
  - HasWsEndpoint
  - !Sub ${WsEndpoint}/${SocketApi}/${SocketStage}
  - !Sub https://${SocketApi}.execute-api.${AWS::Region}.${AWS::URLSuffix}/${SocketStage}",
            "URL of the management API of the WebSocket API",
        ),
        "SUNABA_MAILBOXES_URL" => (
            "!Sub https://sqs.${AWS::Region}.${AWS::URLSuffix}/${AWS::AccountId}/sunaba-${Stage}-mail-",
            "Prefix of the URLs of mailbox queues",
        ),
        "SUNABA_DEAD_LETTERS_ARN" => {
            ("!GetAtt MessageDeadLetters.Arn", "ARN of the queue for messages that were received too often")
        }
        "SUNABA_SOCKET_JOBS_URL" => ("!Ref SocketJobsQueue", "URL of the queue of socket jobs"),
        "SUNABA_ORCHESTRATION_JOBS_URL" => {
            ("!Ref OrchestrationJobsQueue", "URL of the queue of orchestration jobs")
        }
        "SUNABA_BUS" => ("!Ref Bus", "Name of the event bus"),
        "SUNABA_PLANE" => (
            "!Sub ${AWS::AccountId}-${AWS::Region}-${Stage}",
            "Name of this plane in the labels of sandboxes: account, region and stage",
        ),
        "SUNABA_CALLBACK_URL" => (
            "!If
  - HasWsEndpoint
  - !Sub ${WsEndpoint}/${HttpApi}/$default
  - !Sub https://${HttpApi}.execute-api.${AWS::Region}.${AWS::URLSuffix}",
            "URL at which workers reach this plane",
        ),
        "SUNABA_WORKERS_SOCKET_URL" => (
            "!If
  - HasWsEndpoint
  - \"\"
  - !Sub wss://${SocketApi}.execute-api.${AWS::Region}.${AWS::URLSuffix}/${SocketStage}",
            "WebSocket URL at which workers reach this plane",
        ),
        "SUNABA_WORKER_KEY_ID" => return Some(("!Ref WorkerKeyName", None)),
        "SUNABA_OPERATORS_ID" => return Some(("!Ref OperatorsName", None)),
        "SUNABA_JWT_SECRET_ID" => return Some(("!Ref JwtSecretName", None)),
        "SUNABA_JWKS_URL" => return Some(("!Ref JwksUrl", None)),
        "SUNABA_JWT_ISSUER" => return Some(("!Ref JwtIssuer", None)),
        "SUNABA_JWT_AUDIENCE" => return Some(("!Ref JwtAudience", None)),
        "SUNABA_WORKER_VARIABLES_ID" => return Some(("!Ref WorkerVariablesName", None)),
        _ => return None,
    };
    Some((value, Some(description)))
}

/// The secret of a provider whose name this variable has.
fn provider_secret(name: &str) -> Option<SecretNames> {
    let mut secrets = PROVIDERS.iter().flat_map(|kind| kind.settings).filter_map(|setting| setting.secret);
    secrets.find(|secret| secret.variable == name)
}

/// `SANDBOX_MEMORY_GB` becomes the parameter `SandboxMemoryGb`; a prefix `SUNABA_` is dropped.
pub fn parameter(name: &str) -> Result<String, String> {
    let words = name.strip_prefix("SUNABA_").unwrap_or(name).split('_');
    let camel: Option<String> = words
        .map(|word| {
            let (first, rest) = word.split_at_checked(1)?;
            Some(format!("{first}{}", rest.to_lowercase()))
        })
        .collect();
    camel.ok_or_else(|| format!("{name:?} is not a valid variable name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameter_name_is_variable_in_camel_case() {
        assert_eq!(parameter("MAX_CONCURRENT_TASKS_PER_ORG").unwrap(), "MaxConcurrentTasksPerOrg");
        assert_eq!(parameter("SUNABA_WORKER_SOURCE").unwrap(), "WorkerSource");
        assert!(parameter("A__B").is_err());
    }

    #[test]
    fn references_are_parameters_and_resources() {
        assert_eq!(references("!Join [\",\", !Ref Origins]"), ["Origins"]);
        assert_eq!(references("!GetAtt MessageDeadLetters.Arn"), ["MessageDeadLetters"]);
        assert_eq!(references("!Sub ${AWS::Region}-${Stage}/${Api}-${Stage}"), ["Stage", "Api"]);
    }
}
