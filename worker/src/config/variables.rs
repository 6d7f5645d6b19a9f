//! The table of the worker's environment variables. The help text and `docs/environment.md` are generated from it.

use self::DefaultValue::{Described, Fixed, Required, Unset};
use crate::agents::{AGENTS, AgentKind};
use std::borrow::Cow;

#[derive(Debug, Clone, Copy)]
pub struct Variable {
    pub name: &'static str,
    pub default: DefaultValue,
    pub description: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultValue {
    Required,
    Unset,
    Fixed(&'static str),
    /// Depends on other variables or on the system.
    Described(&'static str),
}

#[derive(Debug, Clone)]
pub struct Group {
    pub title: Cow<'static, str>,
    pub variables: &'static [Variable],
}

const fn group(title: &'static str, variables: &'static [Variable]) -> Group {
    Group { title: Cow::Borrowed(title), variables }
}

pub const fn variable(name: &'static str, default: DefaultValue, description: &'static str) -> Variable {
    Variable { name, default, description }
}

/// The variables of every worker.
const GROUPS: [Group; 13] = [
    group(
        "Control plane",
        &[
            variable("SANDBOX_ID", Required, "Id of the sandbox"),
            variable(
                "SANDBOX_TOKEN",
                Unset,
                "Token of the sandbox; not needed if the plane runs without authentication",
            ),
            variable("CALLBACK_URL", Fixed("http://127.0.0.1:18000"), "URL of the control plane"),
            variable(
                "SOCKET_URL",
                Described("from CALLBACK_URL"),
                "WebSocket URL of the control plane, if it differs (on AWS)",
            ),
            variable(
                "SECRETS_FILE",
                Unset,
                "File with further variables as a JSON object; the worker deletes it. /dev/stdin is possible",
            ),
            variable("HEARTBEAT_INTERVAL", Fixed("30"), "Seconds between heartbeats"),
        ],
    ),
    group(
        AGENT_GROUP,
        &[
            variable("AGENT", Fixed("claude"), "Agent that the worker drives: one of the names below"),
            variable("MODEL", Described("the agent's default"), "Model of the agent"),
            variable("ANTHROPIC_MODEL", Unset, "Used if MODEL is not set"),
            variable("MAX_TURNS", Fixed("50"), "Maximum number of model responses per prompt"),
            variable("MAX_BUDGET_USD", Fixed("10"), "Maximum cost per prompt"),
            variable("SYSTEM_PROMPT", Unset, "Replaces the system prompt of the agent"),
            variable("SYSTEM_PROMPT_APPEND", Unset, "Appended to the system prompt of the agent"),
            variable("PARTIAL_MESSAGES", Fixed("true"), "Stream text while the model is writing it"),
            variable(
                "BACKGROUND_WAIT_SECONDS",
                Fixed("120"),
                "How long background tasks of the agent keep its turn open",
            ),
            variable("PREVIEW_ENABLED", Fixed("true"), "Detect dev servers that the agent starts"),
        ],
    ),
    group(
        "Task",
        &[
            variable(
                "TASK_DESCRIPTION",
                Unset,
                "Description of the task; without any text in this group the agent waits for messages",
            ),
            variable("INITIAL_PROMPT", Unset, "First prompt of the agent"),
            variable("TICKET_TITLE", Unset, "Title of the ticket"),
            variable("TICKET_DESCRIPTION", Unset, "Description of the ticket"),
            variable("CONVERSATION_CONTEXT", Unset, "Earlier conversation"),
            variable(
                "TASK_DATA_BASE64",
                Unset,
                "The task as JSON in Base64; the variables of this group override its fields",
            ),
            variable("TASK_ID", Unset, "Id of the task, added to every event"),
            variable("AGENT_ID", Unset, "Id of the agent, added to every event"),
            variable("SPEC_ID", Unset, "Id of the specification, added to every event"),
            variable("TICKET_ID", Unset, "Id of the ticket"),
            variable("AGENT_TYPE", Unset, "Type of the agent, added to the outcome"),
        ],
    ),
    group(
        "Repository",
        &[
            variable(
                "CWD",
                Described("current directory"),
                "Working directory; the repository is cloned into it",
            ),
            variable("WORKSPACE_PATH", Unset, "Used if CWD is not set"),
            variable("REPOSITORY_URL", Unset, "Repository to work on, as a URL without credentials"),
            variable(
                "GITHUB_REPO",
                Unset,
                "Repository to work on, as owner/name; used if REPOSITORY_URL is not set",
            ),
            variable("GITHUB_REPO_OWNER", Unset, "With GITHUB_REPO_NAME, used if GITHUB_REPO is not set"),
            variable("GITHUB_REPO_NAME", Unset, "With GITHUB_REPO_OWNER, used if GITHUB_REPO is not set"),
            variable(
                "BRANCH_NAME",
                Described("sunaba/<sandbox>"),
                "Branch of the task; created if it does not exist. The agent can push no other",
            ),
            variable(
                "BASE_BRANCH",
                Described("the repository's default branch"),
                "Branch with which that of the task begins, if the repository does not have it",
            ),
            variable(
                "GIT_ACCESS",
                Unset,
                "plane: the worker asks the plane for short-lived access to the repository, and uses no token",
            ),
            variable(
                "REQUESTED_BY",
                Unset,
                "Who asked for the task, as Name <email>: co-author of the worker's commits",
            ),
            variable(
                "PUSH_TIMEOUT_SECONDS",
                Fixed("120"),
                "How long the outcome of the task waits until its branch has reached the repository",
            ),
            variable("GITHUB_TOKEN", Unset, "Token for the git server; the agent does not receive it"),
            variable("GH_TOKEN", Unset, "Used if GITHUB_TOKEN is not set"),
            variable(
                "GITHUB_HOST",
                Fixed("github.com"),
                "Host that the token belongs to, with a port unless it is the default one; no other host receives it",
            ),
            variable(
                "GITHUB_REPOSITORIES",
                Unset,
                "Repositories for which the token is, as owner/name or owner/*, separated by commas; all of the host if not set",
            ),
        ],
    ),
    group(
        "Permissions",
        &[
            variable(
                "PERMISSION_MODE",
                Fixed("acceptEdits"),
                "Permission mode of the Claude Code CLI: default, acceptEdits, plan, bypassPermissions, dontAsk or auto",
            ),
            variable("ALLOWED_TOOLS", Unset, "Tools that need no permission request, separated by commas"),
            variable("DISALLOWED_TOOLS", Unset, "Tools that are denied, separated by commas"),
            variable("ENABLE_ASK_USER_QUESTION", Fixed("false"), "Allow the tool AskUserQuestion"),
        ],
    ),
    group(
        "Session",
        &[
            variable("RESUME_SESSION_ID", Unset, "Session to resume"),
            variable(
                "FORK_SESSION",
                Fixed("false"),
                "Resume a copy of the session and leave the original unchanged",
            ),
        ],
    ),
    group(
        "Continuous mode",
        &[
            variable(
                "CONTINUOUS_MODE",
                Fixed("false"),
                "Iterate until the task is done, within the limits of this group",
            ),
            variable("MAX_ITERATIONS", Fixed("10"), "Maximum number of successful iterations"),
            variable("MAX_TOTAL_COST_USD", Fixed("20"), "Maximum cost of all iterations"),
            variable("MAX_DURATION_SECONDS", Fixed("3600"), "Maximum duration of all iterations"),
            variable("MAX_CONSECUTIVE_ERRORS", Fixed("3"), "Maximum number of failed iterations in a row"),
            variable(
                "COMPLETION_SIGNAL",
                Fixed("TASK_COMPLETE"),
                "Text with which the agent signals that the task is done",
            ),
            variable(
                "COMPLETION_THRESHOLD",
                Fixed("1"),
                "Number of consecutive iterations that must contain the signal",
            ),
        ],
    ),
    group(
        "Conditions for a task to count as done",
        &[
            variable("REQUIRE_CLEAN_GIT", WITH_REPOSITORY, "All changes are committed"),
            variable("REQUIRE_CODE_PUSHED", WITH_REPOSITORY, "All commits are pushed"),
            variable(
                "REQUIRE_PR_CREATED",
                WITH_REPOSITORY,
                "A pull request exists; false by default with GIT_ACCESS, because the plane opens it afterwards",
            ),
            variable("TEST_COMMAND", Unset, "Test command that must succeed"),
            variable("REQUIRE_TESTS", Fixed("false"), "Report an error if TEST_COMMAND is not set"),
        ],
    ),
    group(
        "Isolation of the agent",
        &[
            variable(
                "ISOLATION",
                Fixed("auto"),
                "namespaces: own view of files, processes, users and the network, with bubblewrap. landlock: restrictions by the kernel only. sandbox-exec: a profile of macOS. auto: the strongest of them that works. none: no isolation",
            ),
            variable(
                "ISOLATION_READABLE",
                Unset,
                "Further readable files and directories, separated by colons",
            ),
            variable(
                "ISOLATION_HIDDEN",
                Unset,
                "Files and directories that the agent must not see, within readable ones, separated by colons",
            ),
            variable(
                "AGENT_HOME",
                Described("home in STATE_DIR; without isolation, HOME"),
                "Home directory of the agent",
            ),
            variable(
                "AGENT_VARIABLES",
                Unset,
                "Further variables that the agent gets, separated by commas; those of SECRETS_FILE that the worker does not know are added",
            ),
        ],
    ),
    group(
        "Policy",
        &[variable(
            "POLICY",
            Unset,
            "What the agent may reach, as JSON: network, filesystem, repository and limits (docs/policy.md). The plane sets it from the operator's file. Not together with NETWORK, if it has network rules",
        )],
    ),
    group(
        "Network of the agent",
        &[variable(
            "NETWORK",
            Fixed("public"),
            "What the agent may reach through the worker's proxy. public: hosts with public addresses. none: no host. Otherwise a list of hosts, such as github.com,*.npmjs.org,localhost:4873; ports are 80 and 443 unless one is given. In the tiers landlock and none, programs that ignore HTTP_PROXY are not restricted",
        )],
    ),
    group(
        "Process",
        &[
            variable(
                "STATE_DIR",
                Described("~/.local/state/sunaba/<sandbox>"),
                "State that must survive a restart of the worker",
            ),
            variable("SPOOL_MAX_MB", Fixed("256"), "Disk quota for events that are not sent yet"),
            variable(
                "KEEP_MAX_MB",
                Fixed("50"),
                "Limit of the files of a workspace that are kept if they are not in a repository, before compression",
            ),
            variable(
                "EXIT_WHEN_DONE",
                Fixed("false"),
                "Exit when the task is done instead of waiting for messages",
            ),
            variable("LOG", Fixed("info"), "Log filter, such as info or worker=debug"),
        ],
    ),
    group(
        "Set by the system",
        &[
            variable("HOME", Fixed("/"), "Parent of the default directories"),
            variable("TMPDIR", Unset, "Temporary files; with AGENT_HOME also those of the agent"),
            variable("HTTPS_PROXY", Unset, PROXY),
            variable("HTTP_PROXY", Unset, PROXY),
            variable("https_proxy", Unset, PROXY),
            variable("http_proxy", Unset, PROXY),
            variable("OMOIOS_API_KEY", Unset, "Redacted from events; the agent does not receive it"),
        ],
    ),
];

const AGENT_GROUP: &str = "Agent";
const PROXY: &str = "Proxy of the worker; without NETWORK also that of the agent";
const WITH_REPOSITORY: DefaultValue = Described("true in continuous mode with a repository, else false");

/// Variables of older workers that are ignored, and the reason.
pub const OBSOLETE: [(&str, &str); 4] = [
    ("POLL_INTERVAL", "messages are pushed"),
    ("NOTES_FILE", "the agent's session keeps its context; nothing is written to the repository"),
    ("PREVIEW_PORT", "dev server ports are detected automatically"),
    ("SESSION_TRANSCRIPT_B64", "set RESUME_SESSION_ID; the plane stores the transcript"),
];

/// All groups. Those of the agents follow the group of all agents.
pub fn groups() -> Vec<Group> {
    let mut groups = GROUPS.to_vec();
    let after = groups.iter().position(|group| group.title == AGENT_GROUP).map_or(0, |index| index + 1);
    groups.splice(after..after, AGENTS.iter().map(|kind| group_of(kind)));
    groups
}

fn group_of(kind: &AgentKind) -> Group {
    let argument = kind.argument.map(|argument| format!(":{argument}")).unwrap_or_default();
    Group {
        title: format!("AGENT={}{argument} ({})", kind.name, kind.title).into(),
        variables: kind.variables,
    }
}

pub fn all() -> impl Iterator<Item = &'static Variable> {
    groups().into_iter().flat_map(|group| group.variables)
}

pub(crate) fn is_known(name: &str, agents: &[&'static AgentKind]) -> bool {
    let is_of_agent = agents.iter().flat_map(|agent| agent.variables).any(|variable| variable.name == name);
    is_of_agent
        || all().any(|variable| variable.name == name)
        || OBSOLETE.iter().any(|(obsolete, _)| *obsolete == name)
}

/// Width of the column of names in the help text.
const NAME_WIDTH: usize = 26;
const LINE_WIDTH: usize = 110;

/// The end of the help text of `sunaba worker`.
pub fn help() -> String {
    let mut text = String::from("Environment variables (run `check` to see the resolved configuration):\n");
    for group in groups() {
        text += &format!("\n{}:\n", group.title);
        for variable in group.variables {
            let description = match variable.default {
                Required => format!("{} [required]", variable.description),
                Unset => variable.description.to_owned(),
                Fixed(default) | Described(default) => {
                    format!("{} [default: {default}]", variable.description)
                }
            };
            let lines = wrap(&description, LINE_WIDTH - NAME_WIDTH - 2);
            for (index, line) in lines.iter().enumerate() {
                let name = if index == 0 { variable.name } else { "" };
                text += &format!("  {name:<NAME_WIDTH$}{line}\n");
            }
        }
    }
    text + "\nThe agent gets PATH, the locale, proxies, certificates, variables of agents (such as ANTHROPIC_*), and\nthose in AGENT_VARIABLES."
}

/// Breaks a text between words.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
