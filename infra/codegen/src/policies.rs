//! Policies of functions: what each permission of the registry allows on AWS.

use crate::template;
use edge::registry::{Function, Permission, Records, Trigger};

/// What a statement is about. Statements stand in this order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Resource {
    Table,
    Indexes,
    Keys,
    Mailboxes,
    Jobs,
    Work,
    Bus,
    Sockets,
    ProviderSecrets,
}

const RESOURCES: [Resource; 9] = [
    Resource::Table,
    Resource::Indexes,
    Resource::Keys,
    Resource::Mailboxes,
    Resource::Jobs,
    Resource::Work,
    Resource::Bus,
    Resource::Sockets,
    Resource::ProviderSecrets,
];

/// The action that a permission allows, and on what.
fn grant(permission: Permission) -> Option<(&'static str, Resource)> {
    Some(match permission {
        Permission::Keys => ("secretsmanager:GetSecretValue", Resource::Keys),
        Permission::GetItem => ("dynamodb:GetItem", Resource::Table),
        Permission::BatchGetItem => ("dynamodb:BatchGetItem", Resource::Table),
        Permission::Query => ("dynamodb:Query", Resource::Table),
        Permission::QueryIndexes => ("dynamodb:Query", Resource::Indexes),
        Permission::PutItem => ("dynamodb:PutItem", Resource::Table),
        Permission::UpdateItem => ("dynamodb:UpdateItem", Resource::Table),
        Permission::DeleteItem => ("dynamodb:DeleteItem", Resource::Table),
        Permission::Sockets => ("execute-api:ManageConnections", Resource::Sockets),
        Permission::NotifyMailboxes => ("sqs:SendMessage", Resource::Mailboxes),
        Permission::WaitAtMailboxes => ("sqs:ReceiveMessage", Resource::Mailboxes),
        Permission::MakeMailboxes => ("sqs:CreateQueue", Resource::Mailboxes),
        Permission::RemoveMailboxes => ("sqs:DeleteQueue", Resource::Mailboxes),
        Permission::Jobs => ("sqs:SendMessage", Resource::Jobs),
        Permission::Work => ("sqs:SendMessage", Resource::Work),
        Permission::Bus => ("events:PutEvents", Resource::Bus),
        Permission::Providers => ("secretsmanager:GetSecretValue", Resource::ProviderSecrets),
        Permission::Thresholds => return None,
    })
}

/// The lines below `Statement:`; none where nothing is allowed.
pub fn lines(function: &Function) -> Vec<String> {
    let mut lines = feed(&function.trigger);
    for resource in RESOURCES {
        let grants = function.permissions.iter().filter_map(|permission| grant(*permission));
        let actions: Vec<&str> = grants.filter(|(_, of)| *of == resource).map(|(action, _)| action).collect();
        if !actions.is_empty() {
            lines.extend(statement(resource, &actions));
        }
    }
    lines
}

/// How names of things in this account and region begin.
const ACCOUNT: &str = "${AWS::Region}:${AWS::AccountId}:";

fn statement(resource: Resource, actions: &[&str]) -> Vec<String> {
    match resource {
        Resource::Table => allow(actions, "!GetAtt Table.Arn"),
        Resource::Indexes => {
            allow(actions, "[!Sub \"${Table.Arn}/index/ByOrg\", !Sub \"${Table.Arn}/index/ByAge\"]")
        }
        Resource::Keys => {
            let own = ["- !GetAtt WorkerSecret.Id", "- !GetAtt OperatorToken.Id"].map(String::from);
            let users = named_secret("HasJwtSecret", "JwtSecretName");
            allow_any_of(actions, own.into_iter().chain(users))
        }
        Resource::Mailboxes => allow_wide(
            actions,
            "Any mailbox: one is made when a sandbox's worker first waits at it.",
            &format!("sqs:{ACCOUNT}sunaba-${{Stage}}-mail-*"),
        ),
        Resource::Jobs => allow(actions, "!GetAtt JobsQueue.Arn"),
        Resource::Work => allow(actions, "!GetAtt WorkQueue.Arn"),
        Resource::Bus => allow(actions, "!GetAtt Bus.Arn"),
        Resource::Sockets => allow_wide(
            actions,
            "Any socket: they have no names before they open.",
            &format!("execute-api:{ACCOUNT}${{SocketApi}}/${{SocketStage}}/*/@connections/*"),
        ),
        Resource::ProviderSecrets => {
            let daytona = named_secret("HasDaytonaKey", "DaytonaKeyName");
            let workers = named_secret("HasWorkerVariables", "WorkerVariablesName");
            let allowed = allow_any_of(actions, daytona.into_iter().chain(workers));
            let mut lines = vec![
                "# Without either secret there is nothing to allow, and IAM refuses a statement without a resource.".into(),
                "- !If".into(),
                "  - HasProviderSecrets".into(),
            ];
            lines.extend(allowed.iter().map(|line| format!("  {line}")));
            lines.push("  - !Ref AWS::NoValue".into());
            lines
        }
    }
}

fn allow(actions: &[&str], resource: &str) -> Vec<String> {
    vec![
        "- Effect: Allow".into(),
        format!("  Action: [{}]", actions.join(", ")),
        format!("  Resource: {resource}"),
    ]
}

/// On everything whose name matches; the reason stands before it.
fn allow_wide(actions: &[&str], reason: &str, name: &str) -> Vec<String> {
    let mut lines = allow(actions, &format!("!Sub arn:${{AWS::Partition}}:{name}"));
    lines.insert(2, format!("  # {reason}"));
    lines
}

fn allow_any_of(actions: &[&str], resources: impl Iterator<Item = String>) -> Vec<String> {
    let mut lines =
        vec!["- Effect: Allow".into(), format!("  Action: [{}]", actions.join(", ")), "  Resource:".into()];
    lines.extend(resources.map(|line| format!("    {line}")));
    lines
}

/// A secret that the account has made, where a parameter names one.
fn named_secret(condition: &str, parameter: &str) -> Vec<String> {
    vec![
        "- !If".into(),
        format!("  - {condition}"),
        "  # Secrets Manager adds six characters of its own to the name.".into(),
        format!("  - !Sub arn:${{AWS::Partition}}:secretsmanager:{ACCOUNT}secret:${{{parameter}}}-??????"),
        "  - !Ref AWS::NoValue".into(),
    ]
}

/// Lambda reads the source with the function's own role. Left to SAM, a function could read every queue or stream of
/// the account.
fn feed(trigger: &Trigger) -> Vec<String> {
    match trigger {
        Trigger::TableStream(records) => {
            let read = ["DescribeStream", "GetRecords", "GetShardIterator", "ListStreams"];
            let read = read.map(|action| format!("dynamodb:{action}"));
            let read: Vec<&str> = read.iter().map(String::as_str).collect();
            let mut lines =
                vec!["# The stream that feeds it, and the queue for records that it gives up.".into()];
            lines.extend(allow(&read, "!GetAtt Table.StreamArn"));
            lines.extend(allow(&["sqs:SendMessage"], &format!("!GetAtt {}.Arn", failed_queue(*records))));
            lines
        }
        Trigger::Jobs(queue) => {
            let read = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"];
            let mut lines = vec!["# The queue that feeds it.".into()];
            lines.extend(allow(&read, &format!("!GetAtt {}.Arn", template::queue(*queue))));
            lines
        }
        _ => Vec::new(),
    }
}

/// Where records of the stream end up that a function gives up.
pub fn failed_queue(records: Records) -> &'static str {
    match records {
        Records::Broadcast => "BroadcastFailedQueue",
        Records::Lifecycle => "PublishFailedQueue",
    }
}
