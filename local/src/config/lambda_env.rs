//! Variables with which functions in other processes use the in-process AWS.

use super::secret_files::{JWT_SECRET, LAMBDA_ENV, OPERATORS, WORKER_SECRET, plane_directory, private_file};
use crate::aws::{DEAD_LETTERS_ARN, MAILBOXES_URL, TABLE};
use app::orchestration::Orchestration;
use edge::auth::Keys;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Writes the variables with which functions use the in-process AWS, as a file for `cargo lambda watch --env-file`. It
/// contains the access key, so only its owner can read it.
pub fn write_lambda_env(
    data: &Path,
    aws: SocketAddr,
    access_key: &str,
    keys: &Keys,
    orchestration: &Orchestration,
) -> anyhow::Result<PathBuf> {
    let mut variables = vec![
        ("AWS_ENDPOINT_URL", format!("http://{aws}")),
        ("AWS_REGION", "us-east-1".to_owned()),
        ("AWS_ACCESS_KEY_ID", access_key.to_owned()),
        ("AWS_SECRET_ACCESS_KEY", access_key.to_owned()),
        ("SUNABA_FUNCTION", "every-route".to_owned()),
        ("SUNABA_STAGE", "local".to_owned()),
        // Routes that use providers need these too, although none creates a sandbox.
        ("SUNABA_PLANE", "local".to_owned()),
        ("SUNABA_CALLBACK_URL", orchestration.callback_url.clone()),
        ("SUNABA_TABLE", TABLE.to_owned()),
        ("SUNABA_SOCKETS_URL", format!("http://{aws}")),
        ("SUNABA_MAILBOXES_URL", MAILBOXES_URL.to_owned()),
        ("SUNABA_DEAD_LETTERS_ARN", DEAD_LETTERS_ARN.to_owned()),
        ("SUNABA_SOCKET_JOBS_URL", format!("http://{aws}/socket-jobs")),
        ("SUNABA_ORCHESTRATION_JOBS_URL", format!("http://{aws}/orchestration-jobs")),
        ("SUNABA_BUS", "local".to_owned()),
        ("SUNABA_AGENTS", orchestration.agents.to_string()),
        ("AGENT", orchestration.default_agent.clone()),
        ("SUNABA_WORKER_KEY_ID", WORKER_SECRET.to_owned()),
        ("SUNABA_OPERATORS_ID", OPERATORS.to_owned()),
    ];
    let optional = [
        ("SUNABA_WORKER_PUBLIC_KEY", keys.worker_public_key.map(|key| key.to_string())),
        ("SUNABA_JWT_SECRET_ID", keys.user_secret.as_ref().map(|_| JWT_SECRET.to_owned())),
        ("SUNABA_JWKS_URL", keys.jwks_url.clone()),
        ("SUNABA_JWT_ISSUER", keys.issuer.clone()),
        ("SUNABA_JWT_AUDIENCE", keys.audience.clone()),
    ];
    variables.extend(optional.into_iter().filter_map(|(name, value)| Some((name, value?))));
    let path = plane_directory(data).join(LAMBDA_ENV);
    let mut file = private_file(&path)?;
    file.set_len(0)?;
    for (name, value) in variables {
        // Quoted, because cargo-lambda does not read a bare value with every character.
        writeln!(file, "{name}=\"{value}\"")?;
    }
    Ok(path)
}
