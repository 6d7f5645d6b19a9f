//! `sunaba keys`: makes what a plane on AWS authenticates with. Nothing is stored or sent.

use crate::config::commands::Keys;
use edge::auth::{Operators, SigningKey};
use serde_json::{Value, json};

pub fn run(keys: &Keys) -> anyhow::Result<()> {
    terminal::print(&format!("{}\n", new_keys(keys)?));
    Ok(())
}

fn new_keys(keys: &Keys) -> anyhow::Result<Value> {
    let secret = app::ids::secret();
    Ok(match &keys.operator {
        None => {
            let public = SigningKey::of_secret(&secret).public().to_string();
            json!({"private_key": secret, "public_key": public})
        }
        Some(name) => {
            let stored = Operators::one(name, &secret).to_json();
            // The rules for names are those of the plane that reads it.
            Operators::parse(&stored).map_err(anyhow::Error::msg)?;
            json!({"token": secret, "operators": serde_json::from_str::<Value>(&stored)?})
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_keys_are_accepted_by_a_plane() {
        let of = |name: &str| new_keys(&Keys { operator: Some(name.to_owned()) });
        let worker = new_keys(&Keys { operator: None }).unwrap();
        let key = SigningKey::of_secret(worker["private_key"].as_str().unwrap());
        assert_eq!(worker["public_key"], key.public().to_string());
        let operator = of("alice").unwrap();
        let stored = Operators::parse(&operator["operators"].to_string()).unwrap();
        assert_eq!(stored, Operators::one("alice", operator["token"].as_str().unwrap()));
        assert!(of("al ice").is_err());
    }
}
