//! The plane's own directory, and the files in it that only its owner may read.

use anyhow::{Context, bail};
use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The plane's own files: its keys and its table. Local sandboxes are in a directory beside it, so that none of their
/// parent directories contains a secret.
pub fn plane_directory(data: &Path) -> PathBuf {
    data.join("plane")
}

/// Names of the plane's secrets: of their files, and in the in-process Secrets Manager.
pub const WORKER_SECRET: &str = "worker-secret";
pub const OPERATOR_TOKEN: &str = "operator-token";
/// In the in-process Secrets Manager only: the hash of the operator's token.
pub const OPERATORS: &str = "operators";
pub const JWT_SECRET: &str = "jwt-secret";
/// Part of the key of the tokens of operators' browsers.
pub(super) const SIGN_IN_SECRET: &str = "sign-in-secret";
pub(super) const PLANE_NAME: &str = "plane-name";
pub(super) const LAMBDA_ENV: &str = "lambda.env";
/// Files of the plane that only its owner may read. `sunaba.yaml` may contain the API key of a provider.
pub const SECRET_FILES: [&str; 6] =
    [OPERATOR_TOKEN, WORKER_SECRET, SIGN_IN_SECRET, PLANE_NAME, LAMBDA_ENV, super::file::NAME];

/// Opens a file that only its owner can read.
pub fn private_file(path: &Path) -> anyhow::Result<fs::File> {
    let file = fs::OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path);
    file.with_context(|| format!("cannot write {}", path.display()))
}

/// Reads a secret from a private file, and generates it at the first start.
pub(super) fn load_or_create_secret(path: &Path) -> anyhow::Result<String> {
    match fs::read_to_string(path) {
        Ok(secret) if secret.trim().len() >= 16 => Ok(secret.trim().to_owned()),
        Ok(_) => bail!("{} is damaged; delete it to generate a new one", path.display()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let secret = app::ids::secret();
            // Atomic, because a truncated secret would fail the next start.
            let unfinished = path.with_extension("new");
            let mut file = private_file(&unfinished)?;
            file.write_all(secret.as_bytes())?;
            file.sync_all()?;
            fs::rename(&unfinished, path).with_context(|| format!("cannot write {}", path.display()))?;
            Ok(secret)
        }
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}
