use super::variables::DefaultValue;
use super::*;
use crate::agents::AGENTS;
use confine::Setting;
use std::collections::BTreeSet;
use std::path::Path;

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
fn isolated_agent_gets_its_own_directories_and_declared_variables() {
    let with = |variables: &[(&str, &str)]| {
        let all =
            [&[("SANDBOX_ID", "s"), ("HOME", "/h"), ("STATE_DIR", "/s"), ("CWD", "/w")], variables].concat();
        read(&all)
    };
    for bad in ["files", "files,network", "network", "true"] {
        let (config, problems) = with(&[("ISOLATION", bad)]);
        assert!(config.is_none(), "{bad}: invalid isolation must not be ignored");
        let problem = problems.iter().find(|problem| problem.variable == "ISOLATION").unwrap();
        assert!(problem.message.contains(Setting::VALUES), "{problem}");
    }
    let writable = |variables: &[(&str, &str)]| {
        let policy = with(variables).0.unwrap().confinement.policy;
        assert_eq!(policy.hidden[0], Path::new("/s"), "the worker's state");
        policy.writable
    };
    let private = ["/s/home", "/s/tmp", "/w", "/s/home/.claude"].map(PathBuf::from);
    assert_eq!(writable(&[("TMPDIR", "/tmp")]), private, "not those of the user");
    let prepared = ["/a", "/t", "/w", "/a/.claude"].map(PathBuf::from);
    assert_eq!(writable(&[("AGENT_HOME", "/a"), ("TMPDIR", "/t")]), prepared);
    let adapter = [("AGENT", "acp:claude-code-acp"), ("CLAUDE_CONFIG_DIR", "/c")];
    assert!(writable(&adapter).contains(&"/c".into()), "an adapter of Claude Code writes there");
    let unconfined = with(&[("ISOLATION", "none")]).0.unwrap().confinement;
    assert_eq!((unconfined.home, unconfined.temporary), ("/h".into(), None));

    let variables = with(&[
        ("PATH", "/bin"),
        ("LC_ALL", "C"),
        ("SANDBOX_TOKEN", "secret"),
        ("GITHUB_TOKEN", "secret"),
        ("AWS_SECRET_ACCESS_KEY", "of the user"),
        ("TEST_COMMAND", "make"),
        ("ANTHROPIC_API_KEY", "secret"),
        ("ANTHROPIC_LOG", "debug"),
        ("DATABASE_URL", "of the task"),
        ("AGENT_VARIABLES", "DATABASE_URL,GITHUB_TOKEN,ANTHROPIC_API_KEY"),
    ]);
    let confinement = variables.0.unwrap().confinement;
    let names = |variables: &BTreeMap<String, String>| variables.keys().cloned().collect::<Vec<_>>();
    assert_eq!(
        names(&confinement.environment),
        ["DATABASE_URL", "HOME", "LC_ALL", "PATH", "SANDBOX_ID", "TMPDIR"]
    );
    assert_eq!(confinement.environment["HOME"], "/s/home");
    assert_eq!(names(&confinement.agent_environment), ["ANTHROPIC_LOG"]);
}

/// Selects the branches of the reader that read further variables.
const ALL_BRANCHES: [(&str, &str); 5] = [
    ("SANDBOX_ID", "s"),
    ("SANDBOX_TOKEN", "t"),
    ("CONTINUOUS_MODE", "true"),
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
    let switches = ALL_BRANCHES.to_vec();
    let mut with_defaults: Vec<_> = variables::all()
        .filter_map(|variable| match variable.default {
            DefaultValue::Fixed(value) => Some((variable.name, value)),
            DefaultValue::Required | DefaultValue::Unset | DefaultValue::Described(_) => None,
        })
        .collect();
    assert!(with_defaults.len() > 20);
    with_defaults.extend(&switches);
    let (expected, mut actual) = (read(&switches), read(&with_defaults));
    // It lists the variables that are set.
    actual.0.as_mut().unwrap().confinement.agent_environment.clear();
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
