//! Environment variables of functions, and what the template sets them to.

use edge::registry::Function;
use lambda_host::config::variables;

/// The lines below `Variables:` of a function, without those that every function has.
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
    let value = match name {
        // Names of secrets, never their values: everyone who may look at a function sees its environment.
        "SUNABA_WORKER_SECRET_ID" => "!GetAtt WorkerSecret.Id",
        "SUNABA_OPERATOR_TOKEN_ID" => "!GetAtt OperatorToken.Id",
        "SUNABA_JWT_SECRET_ID" => "!Ref JwtSecretName",
        "SUNABA_JWKS_URL" => "!Ref JwksUrl",
        "SUNABA_JWT_ISSUER" => "!Ref JwtIssuer",
        "SUNABA_JWT_AUDIENCE" => "!Ref JwtAudience",
        "SUNABA_SOCKETS_URL" => {
            "!If
  - HasWsEndpoint
  - !Sub ${WsEndpoint}/${SocketApi}/${SocketStage}
  - !Sub https://${SocketApi}.execute-api.${AWS::Region}.${AWS::URLSuffix}/${SocketStage}"
        }
        "SUNABA_MAILBOXES_URL" => {
            "!Sub https://sqs.${AWS::Region}.${AWS::URLSuffix}/${AWS::AccountId}/sunaba-${Stage}-mail-"
        }
        "SUNABA_JOBS_URL" => "!Ref JobsQueue",
        "SUNABA_WORK_URL" => "!Ref WorkQueue",
        "SUNABA_BUS" => "!Ref Bus",
        "SUNABA_PLANE" => "!Sub ${AWS::AccountId}-${AWS::Region}-${Stage}",
        "SUNABA_CALLBACK_URL" => {
            "!If
  - HasWsEndpoint
  - !Sub ${WsEndpoint}/${HttpApi}/$default
  - !Sub https://${HttpApi}.execute-api.${AWS::Region}.${AWS::URLSuffix}"
        }
        "SUNABA_WORKERS_SOCKET_URL" => {
            "!If
  - HasWsEndpoint
  - \"\"
  - !Sub wss://${SocketApi}.execute-api.${AWS::Region}.${AWS::URLSuffix}/${SocketStage}"
        }
        "SUNABA_DAYTONA_KEY_ID" => "!Ref DaytonaKeyName",
        "SUNABA_WORKER_VARIABLES_ID" => "!Ref WorkerVariablesName",
        // Everything else is a parameter of the same name.
        _ => return parameter(name).map(|parameter| format!("{name}: !Ref {parameter}")),
    };
    Ok(format!("{name}: {value}"))
}

/// `SANDBOX_MEMORY_GB` is the parameter `SandboxMemoryGb`; a prefix `SUNABA_` is left out.
fn parameter(name: &str) -> Result<String, String> {
    let words = name.strip_prefix("SUNABA_").unwrap_or(name).split('_');
    let camel: Option<String> = words
        .map(|word| {
            let (first, rest) = word.split_at_checked(1)?;
            Some(format!("{first}{}", rest.to_lowercase()))
        })
        .collect();
    camel.ok_or_else(|| format!("the variable {name:?} is no name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_its_variable_in_camel_case() {
        assert_eq!(parameter("MAX_CONCURRENT_TASKS_PER_ORG").unwrap(), "MaxConcurrentTasksPerOrg");
        assert_eq!(parameter("SUNABA_WORKER_SOURCE").unwrap(), "WorkerSource");
        assert!(parameter("A__B").is_err());
    }
}
