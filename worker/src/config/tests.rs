use super::variables::DefaultValue;
use super::*;
use crate::agents::AGENTS;
use std::collections::BTreeSet;

fn read(variables: &[(&str, &str)]) -> (Option<Config>, Vec<Problem>) {
    let environment = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Config::read(&environment.collect(), AGENTS)
}

#[test]
fn sandbox_id_and_token_are_sufficient() {
    let (config, problems) = read(&[("SANDBOX_ID", "demo"), ("SANDBOX_TOKEN", "secret-token")]);
    assert_eq!(problems, []);
    let config = config.unwrap();
    assert_eq!(config.plane, "http://127.0.0.1:18000");
    assert_eq!(config.agent.name(), "claude");
    assert_eq!(config.disallowed_tools, ["AskUserQuestion"]);
    assert!(!format!("{config:?}").contains("secret-token"), "debug output must not contain secrets");
    let shown = format!("{:?}", config.describe());
    assert!(!shown.contains("secret-token"), "{shown}");
}

#[test]
fn all_problems_are_reported() {
    let (config, problems) = read(&[
        ("SANDBOX_ID", "id with spaces"),
        ("CALLBACK_URL", "localhost:8000"),
        ("AGENT", "gpt"),
        ("PERMISSION_MODE", "yolo"),
        ("MAX_TURNS", "many"),
        ("CONTINUOUS_MODE", "maybe"),
        ("RESUME_SESSION_ID", "not-a-uuid"),
        ("TASK_DATA_BASE64", "%%%"),
        ("REPOSITORY_URL", "https://x:token@github.com/a/b"),
        ("POLL_INTERVAL", "0.5"),
    ]);
    assert!(config.is_none());
    let fatal: Vec<&str> = problems
        .iter()
        .filter(|problem| !problem.is_warning)
        .map(|problem| problem.variable.as_str())
        .collect();
    for variable in [
        "SANDBOX_ID",
        "CALLBACK_URL",
        "AGENT",
        "PERMISSION_MODE",
        "CONTINUOUS_MODE",
        "RESUME_SESSION_ID",
        "TASK_DATA_BASE64",
        "REPOSITORY_URL",
    ] {
        assert!(fatal.contains(&variable), "{variable} is missing in {fatal:?}");
    }
    assert!(problems.iter().any(|problem| problem.variable == "POLL_INTERVAL" && problem.is_warning));
}

#[test]
fn problem_of_a_repository_names_its_variable() {
    for (settings, variable) in [
        ([("REPOSITORY_URL", "https://user@host/a"), ("GITHUB_REPO", "a/b")], "REPOSITORY_URL"),
        ([("GITHUB_REPO", "https://user@host/a"), ("BRANCH_NAME", "main")], "GITHUB_REPO"),
        ([("GITHUB_REPO_OWNER", "user@host"), ("GITHUB_REPO_NAME", "a")], "GITHUB_REPO_OWNER"),
        ([("GITHUB_REPO", "a/b"), ("BRANCH_NAME", "--force")], "BRANCH_NAME"),
    ] {
        let problems = read(&[&[("SANDBOX_ID", "s"), ("SANDBOX_TOKEN", "t")][..], &settings].concat()).1;
        let named: Vec<&str> = problems.iter().map(|problem| problem.variable.as_str()).collect();
        assert_eq!(named, [variable]);
    }
}

#[test]
fn problem_of_a_repository_contains_no_secret() {
    for location in [
        "https://user:secret@host/a",
        "https://user:1#secret@host/a",
        "https:/secret@host/a",
        "user:secret@host/a",
    ] {
        let (config, problems) =
            read(&[("SANDBOX_ID", "s"), ("SANDBOX_TOKEN", "t"), ("GITHUB_REPO", location)]);
        assert!(config.is_none(), "{location}");
        assert!(!format!("{problems:?}").contains("secret"), "{problems:?}");
    }
}

#[test]
fn agent_variable_selects_the_agent() {
    let agent = |text| {
        let config = read(&[("SANDBOX_ID", "s"), ("AGENT", text)]).0;
        config.map(|config| (config.agent.name(), config.agent.describe()))
    };
    assert_eq!(agent("claude"), Some(("claude", "Claude Code (claude)".to_owned())));
    assert_eq!(agent("openhands"), Some(("acp", "ACP: openhands acp".to_owned())));
    assert_eq!(agent("acp:gemini --acp"), Some(("acp", "ACP: gemini --acp".to_owned())));
    for bad in ["acp", "acp:", "acp: ", "claude:x", "claude:", "Claude"] {
        assert_eq!(agent(bad), None, "{bad:?}");
    }
    let problems = read(&[("SANDBOX_ID", "s"), ("AGENT", "gpt")]).1;
    let named = problems.iter().find(|problem| problem.variable == "AGENT").unwrap();
    assert!(named.message.contains("claude, openhands"), "{named}");
}

#[test]
fn isolation_variable_selects_directories_and_ports() {
    let with = |variables: &[(&str, &str)]| {
        let all =
            [&[("SANDBOX_ID", "s"), ("HOME", "/h"), ("PATH", "/a:/b:relative"), ("CWD", "/w")], variables]
                .concat();
        read(&all)
    };
    assert_eq!(with(&[]).0.unwrap().isolation, None);
    assert_eq!(with(&[("ISOLATION", "none")]).0.unwrap().isolation, None);
    for bad in ["network", "file", "files,net", "true"] {
        let (config, problems) = with(&[("ISOLATION", bad)]);
        assert!(config.is_none(), "{bad}: invalid isolation must not be ignored");
        assert!(problems.iter().any(|problem| problem.variable == "ISOLATION"));
    }
    let files = with(&[("ISOLATION", "files"), ("STATE_DIR", "/s"), ("ISOLATION_READABLE", "/r")]);
    let files = files.0.unwrap().isolation.unwrap();
    assert_eq!(files.ports, None);
    assert_eq!(files.writable, ["/h", "/w", "/s", "/h/.claude"].map(PathBuf::from));
    assert_eq!(files.readable, ["/a", "/b", "/r"].map(PathBuf::from));
    let adapter = [("ISOLATION", "files"), ("AGENT", "acp:claude-code-acp"), ("CLAUDE_CONFIG_DIR", "/c")];
    let adapter = with(&adapter).0.unwrap().isolation.unwrap();
    assert_eq!(
        adapter.writable,
        ["/h", "/w", "/c"].map(PathBuf::from),
        "an adapter of Claude Code writes there"
    );
    let network = with(&[
        ("ISOLATION", "files, network"),
        ("CALLBACK_URL", "http://[::1]:8000/plane"),
        ("SOCKET_URL", "wss://sockets.example"),
        ("ANTHROPIC_BASE_URL", "http://127.0.0.1:4000"),
        ("HTTP_PROXY", "http://user:password@proxy"),
    ]);
    assert_eq!(network.0.unwrap().isolation.unwrap().ports, Some(vec![80, 443, 4000, 8000]));
}

/// Selects the branches of the reader that read further variables.
const ALL_BRANCHES: [(&str, &str); 6] = [
    ("SANDBOX_ID", "s"),
    ("SANDBOX_TOKEN", "t"),
    ("CONTINUOUS_MODE", "true"),
    ("ISOLATION", "files,network"),
    ("GITHUB_REPO_OWNER", "owner"),
    ("GITHUB_REPO_NAME", "name"),
];

#[test]
fn table_lists_exactly_the_variables_that_are_read() {
    let environment = ALL_BRANCHES.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let mut reader = Reader::new(&environment, AGENTS);
    assert!(reader.config().is_some());
    let read = reader.names.take();
    let obsolete = variables::OBSOLETE.iter().map(|(name, _)| *name);
    let listed: BTreeSet<String> =
        variables::all().map(|variable| variable.name).chain(obsolete).map(str::to_owned).collect();
    assert_eq!(read, listed);
    assert_eq!(
        variables::all().count() + variables::OBSOLETE.len(),
        listed.len(),
        "a variable is listed twice"
    );
}

#[test]
fn defaults_in_the_table_are_those_of_the_reader() {
    // Not isolated, because ports are computed from variables that are set.
    let switches: Vec<_> = ALL_BRANCHES.into_iter().filter(|(name, _)| *name != "ISOLATION").collect();
    let mut with_defaults: Vec<_> = variables::all()
        .filter_map(|variable| match variable.default {
            DefaultValue::Fixed(value) => Some((variable.name, value)),
            DefaultValue::Required | DefaultValue::Unset | DefaultValue::Described(_) => None,
        })
        .collect();
    assert!(with_defaults.len() > 20);
    with_defaults.extend(&switches);
    let (expected, actual) = (read(&switches), read(&with_defaults));
    assert!(expected.0.is_some());
    assert_eq!(format!("{expected:?}"), format!("{actual:?}"));
}

#[test]
fn help_lists_every_variable_in_short_lines() {
    let help = variables::help();
    for variable in variables::all() {
        assert!(
            help.contains(&format!("\n  {} ", variable.name)),
            "{} is missing in:\n{help}",
            variable.name
        );
    }
    for line in help.lines() {
        assert!(line.chars().count() <= 110, "too long: {line}");
    }
}
