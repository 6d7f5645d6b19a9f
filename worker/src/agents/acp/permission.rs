//! Selects the option of a permission request that matches the policy.

use crate::agents::policy::{Decision, Policy};
use agent_client_protocol_schema::v1::ToolCall;
use serde_json::{Value, json};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    pub decision: Decision,
    /// `None` if the agent offers no matching option.
    pub option_id: Option<String>,
}

/// Chooses an option. A denial never selects an option that allows. If no option allows, the call is denied.
pub fn choose(policy: &Policy, tool: &str, call: &ToolCall, options: &[Value]) -> Choice {
    let option = |kinds: [&str; 2]| {
        let of_kind = |kind| options.iter().find(move |option| option["kind"] == kind);
        kinds.into_iter().find_map(of_kind)?["optionId"].as_str().map(str::to_owned)
    };
    let mut decision = policy.decide(tool, call.raw_input.as_ref().unwrap_or(&Value::Null));
    for location in &call.locations {
        if decision == Decision::Allow {
            decision = policy.decide(tool, &json!({ "path": location.path }));
        }
    }
    if decision == Decision::Allow {
        match option(["allow_once", "allow_always"]) {
            Some(option_id) => return Choice { decision, option_id: Some(option_id) },
            None => decision = Decision::Deny("The agent offers no option to allow it.".into()),
        }
    }
    Choice { decision, option_id: option(["reject_once", "reject_always"]) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::policy::Mode;

    fn options(kinds: &[&str]) -> Vec<Value> {
        let option = |kind: &&str| json!({ "optionId": format!("o-{kind}"), "name": "x", "kind": kind });
        kinds.iter().map(option).collect()
    }

    fn chosen(mode: Mode, path: &str, kinds: &[&str]) -> Option<String> {
        let policy = Policy { mode, denied: vec!["Fetch".into()], root: "/workspace".into() };
        let mut call = ToolCall::new("c1", "something");
        call.raw_input = Some(json!({ "path": path }));
        choose(&policy, "Edit", &call, &options(kinds)).option_id
    }

    #[test]
    fn chosen_option_matches_the_policy() {
        let all = ["sometimes", "allow_always", "allow_once", "reject_once"];
        let cases = [
            (Mode::AcceptEdits, "a.txt", &all[..], Some("o-allow_once")),
            (Mode::AcceptEdits, "/etc/passwd", &all[..], Some("o-reject_once")),
            (Mode::Plan, "a.txt", &all[..], Some("o-reject_once")),
            (Mode::AcceptEdits, "a.txt", &["allow_always", "reject_once"][..], Some("o-allow_always")),
            (Mode::AcceptEdits, "a.txt", &["perhaps", "reject_always"][..], Some("o-reject_always")),
            (Mode::Plan, "a.txt", &["allow_once"][..], None),
        ];
        for (mode, path, kinds, expected) in cases {
            assert_eq!(chosen(mode, path, kinds).as_deref(), expected, "{mode:?} {path} {kinds:?}");
        }
    }
}
