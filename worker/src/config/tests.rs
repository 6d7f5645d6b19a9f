use super::*;

fn read(variables: &[(&str, &str)]) -> (Option<Config>, Vec<Problem>) {
    let environment = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Config::read(&environment.collect())
}

#[test]
fn two_variables_are_enough() {
    let (config, problems) = read(&[("SANDBOX_ID", "demo"), ("SANDBOX_TOKEN", "secret-token")]);
    assert_eq!(problems, []);
    let config = config.unwrap();
    assert_eq!(config.plane, "http://127.0.0.1:18000");
    assert_eq!(config.agent, Agent::Claude);
    assert_eq!(config.disallowed_tools, ["AskUserQuestion"]);
    assert!(!format!("{config:?}").contains("secret-token"), "a secret is never shown");
    let shown = format!("{:?}", config.describe());
    assert!(!shown.contains("secret-token"), "{shown}");
}

#[test]
fn every_problem_is_reported_at_once() {
    let (config, problems) = read(&[
        ("SANDBOX_ID", "no spaces please"),
        ("CALLBACK_URL", "localhost:8000"),
        ("AGENT", "gpt"),
        ("PERMISSION_MODE", "yolo"),
        ("MAX_TURNS", "many"),
        ("CONTINUOUS_MODE", "perhaps"),
        ("RESUME_SESSION_ID", "the last one"),
        ("TASK_DATA_BASE64", "%%%"),
        ("REPOSITORY_URL", "https://x:token@github.com/a/b"),
        ("POLL_INTERVAL", "0.5"),
    ]);
    assert!(config.is_none());
    let fatal: Vec<&str> = problems
        .iter()
        .filter(|problem| !problem.harmless)
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
    assert!(problems.iter().any(|problem| problem.variable == "POLL_INTERVAL" && problem.harmless));
}

#[test]
fn agents_are_named_in_one_word() {
    let agent = |text| read(&[("SANDBOX_ID", "s"), ("AGENT", text)]).0.map(|config| config.agent);
    assert_eq!(agent("claude"), Some(Agent::Claude));
    assert_eq!(agent("openhands"), Some(Agent::Acp(vec!["openhands".into(), "acp".into()])));
    assert_eq!(agent("acp:gemini --acp"), Some(Agent::Acp(vec!["gemini".into(), "--acp".into()])));
    assert_eq!(agent("scripted:hello"), Some(Agent::Scripted("hello".into())));
    assert_eq!(agent("acp:"), None);
}

#[test]
fn isolation_is_asked_for_in_words_and_knows_its_folders_and_ports() {
    let walls = |variables: &[(&str, &str)]| {
        let all =
            [&[("SANDBOX_ID", "s"), ("HOME", "/h"), ("PATH", "/a:/b:relative"), ("CWD", "/w")], variables]
                .concat();
        read(&all)
    };
    assert_eq!(walls(&[]).0.unwrap().walls, None);
    assert_eq!(walls(&[("ISOLATION", "none")]).0.unwrap().walls, None);
    for bad in ["network", "file", "files,net", "true"] {
        let (config, problems) = walls(&[("ISOLATION", bad)]);
        assert!(config.is_none(), "{bad}: what was asked for is not left out");
        assert!(problems.iter().any(|problem| problem.variable == "ISOLATION"));
    }
    let files = walls(&[("ISOLATION", "files"), ("STATE_DIR", "/s"), ("ISOLATION_READABLE", "/r")]);
    let files = files.0.unwrap().walls.unwrap();
    assert_eq!(files.ports, None);
    assert_eq!(files.own, ["/h", "/w", "/s", "/h/.claude"].map(PathBuf::from));
    assert_eq!(files.readable, ["/a", "/b", "/r"].map(PathBuf::from));
    let network = walls(&[
        ("ISOLATION", "files, network"),
        ("CALLBACK_URL", "http://[::1]:8000/plane"),
        ("SOCKET_URL", "wss://sockets.example"),
        ("ANTHROPIC_BASE_URL", "http://127.0.0.1:4000"),
        ("HTTP_PROXY", "http://user:word@proxy"),
    ]);
    assert_eq!(network.0.unwrap().walls.unwrap().ports, Some(vec![80, 443, 4000, 8000]));
}
