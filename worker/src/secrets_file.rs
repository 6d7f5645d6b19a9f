//! Variables that the worker gets from a file instead of its environment, which other programs of the machine can read for
//! as long as the worker runs.

use crate::agents::AgentKind;
use crate::config::variables::is_known;
use anyhow::{Context, bail};
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;

/// Maximum size of the file. Larger than what an environment can hold.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

const STANDARD_INPUT: &str = "/dev/stdin";

/// Adds the variables of `SECRETS_FILE`, which replace existing ones, and deletes the file. A restarted worker gets a new
/// file, or reads the end of standard input. Variables that the worker does not know are for the agent.
///
/// # Errors
/// If the file cannot be read or deleted, or is not a JSON object of strings.
pub fn read_into(
    environment: &mut BTreeMap<String, String>,
    agents: &[&'static AgentKind],
) -> anyhow::Result<()> {
    let Some(path) = environment.get("SECRETS_FILE").filter(|path| !path.is_empty()).cloned() else {
        return Ok(());
    };
    let text = if path == STANDARD_INPUT {
        read(std::io::stdin().lock())
    } else {
        read_and_delete(Path::new(&path))
    };
    let text = text.with_context(|| format!("SECRETS_FILE: cannot read {path}"))?;
    let variables: BTreeMap<String, String> = serde_json::from_str(&text)
        .ok()
        .with_context(|| format!("SECRETS_FILE: {path} must contain a JSON object of strings"))?;
    let mut declared = environment.remove("AGENT_VARIABLES").unwrap_or_default();
    for name in variables.keys().filter(|name| !is_known(name, agents)) {
        declared.push(',');
        declared.push_str(name);
    }
    environment.extend(variables);
    environment.insert("AGENT_VARIABLES".to_owned(), declared);
    Ok(())
}

fn read_and_delete(path: &Path) -> anyhow::Result<String> {
    let file = fs::File::open(path)?;
    let is_regular = file.metadata()?.is_file();
    // Before its content is used: a failure must not leave it.
    if is_regular {
        fs::remove_file(path).context("it cannot be deleted")?;
    }
    read(file)
}

fn read(file: impl Read) -> anyhow::Result<String> {
    let mut text = String::new();
    file.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        bail!("it is larger than {MAX_BYTES} bytes");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::AGENTS;

    #[test]
    fn variables_of_the_file_replace_others_and_the_file_is_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secrets");
        fs::write(&path, r#"{"SANDBOX_TOKEN": "new", "DATABASE_URL": "x"}"#).unwrap();
        let variables =
            [("SECRETS_FILE", path.to_str().unwrap()), ("SANDBOX_TOKEN", "old"), ("AGENT_VARIABLES", "A")];
        let mut environment: BTreeMap<String, String> =
            variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        read_into(&mut environment, AGENTS).unwrap();
        assert_eq!(environment["SANDBOX_TOKEN"], "new");
        assert_eq!(environment["AGENT_VARIABLES"], "A,DATABASE_URL");
        assert!(!path.exists());
        let error = read_into(&mut environment, AGENTS).unwrap_err();
        assert!(error.to_string().contains("SECRETS_FILE"), "{error}");
        fs::write(&path, "planted-secret").unwrap();
        let error = read_into(&mut environment, AGENTS).unwrap_err();
        assert!(!format!("{error:#}").contains("planted") && !path.exists(), "{error:#}");
    }
}
