//! IAM policies of functions: what each permission of the registry allows on AWS.

use crate::template;
use ::providers::PROVIDERS;
use edge::registry::{Function, Permission, Records, Trigger};

/// The subject of a policy statement. Statements are written in this order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Resource {
    Table,
    Indexes,
    Keys,
    WorkerKey,
    Mailboxes,
    AllQueues,
    SocketJobs,
    OrchestrationJobs,
    Bus,
    Sockets,
    ProviderSecrets,
}

const RESOURCES: [Resource; 11] = [
    Resource::Table,
    Resource::Indexes,
    Resource::Keys,
    Resource::WorkerKey,
    Resource::Mailboxes,
    Resource::AllQueues,
    Resource::SocketJobs,
    Resource::OrchestrationJobs,
    Resource::Bus,
    Resource::Sockets,
    Resource::ProviderSecrets,
];

/// The actions that a permission allows, and their resources.
fn grants(permission: Permission) -> &'static [(&'static str, Resource)] {
    match permission {
        Permission::Keys => &[("secretsmanager:GetSecretValue", Resource::Keys)],
        Permission::IssueTokens => &[("secretsmanager:GetSecretValue", Resource::WorkerKey)],
        Permission::GetItem => &[("dynamodb:GetItem", Resource::Table)],
        Permission::BatchGetItem => &[("dynamodb:BatchGetItem", Resource::Table)],
        Permission::Query => &[("dynamodb:Query", Resource::Table)],
        Permission::QueryIndexes => &[("dynamodb:Query", Resource::Indexes)],
        Permission::PutItem => &[("dynamodb:PutItem", Resource::Table)],
        Permission::UpdateItem => &[("dynamodb:UpdateItem", Resource::Table)],
        Permission::DeleteItem => &[("dynamodb:DeleteItem", Resource::Table)],
        Permission::Sockets => &[("execute-api:ManageConnections", Resource::Sockets)],
        Permission::SendToMailboxes => &[("sqs:SendMessage", Resource::Mailboxes)],
        Permission::ReceiveFromMailboxes => &[
            ("sqs:ReceiveMessage", Resource::Mailboxes),
            ("sqs:ChangeMessageVisibility", Resource::Mailboxes),
        ],
        Permission::DeleteFromMailboxes => &[("sqs:DeleteMessage", Resource::Mailboxes)],
        Permission::CreateMailboxes => {
            &[("sqs:CreateQueue", Resource::Mailboxes), ("sqs:TagQueue", Resource::Mailboxes)]
        }
        Permission::DeleteMailboxes => &[("sqs:DeleteQueue", Resource::Mailboxes)],
        Permission::ListMailboxes => {
            &[("sqs:ListQueueTags", Resource::Mailboxes), ("sqs:ListQueues", Resource::AllQueues)]
        }
        Permission::SocketJobs => &[("sqs:SendMessage", Resource::SocketJobs)],
        Permission::OrchestrationJobs => &[("sqs:SendMessage", Resource::OrchestrationJobs)],
        Permission::Bus => &[("events:PutEvents", Resource::Bus)],
        Permission::Providers => &[("secretsmanager:GetSecretValue", Resource::ProviderSecrets)],
        Permission::Thresholds => &[],
    }
}

/// The lines below `Statement:`; empty if the function needs no permission.
pub fn lines(function: &Function) -> Vec<String> {
    let mut lines = event_source(&function.trigger);
    for resource in RESOURCES {
        let grants = function.permissions.iter().flat_map(|permission| grants(*permission));
        let actions: Vec<&str> =
            grants.filter(|(_, of)| *of == resource).map(|(action, _)| *action).collect();
        if !actions.is_empty() {
            lines.extend(statement(resource, &actions));
        }
    }
    lines
}

/// The account-specific part of an ARN.
const ACCOUNT: &str = "${AWS::Region}:${AWS::AccountId}:";

fn statement(resource: Resource, actions: &[&str]) -> Vec<String> {
    match resource {
        Resource::Table => allow(actions, "!GetAtt Table.Arn"),
        Resource::Indexes => {
            allow(actions, "[!Sub \"${Table.Arn}/index/ByOrg\", !Sub \"${Table.Arn}/index/ByAge\"]")
        }
        Resource::Keys => {
            let operators = [SECRET_NAME_COMMENT.to_owned(), format!("- {}", secret_arn("OperatorsName"))];
            let users = named_secret("HasJwtSecret", "JwtSecretName");
            allow_any_of(actions, operators.into_iter().chain(users))
        }
        Resource::WorkerKey => {
            let mut lines = allow(actions, &secret_arn("WorkerKeyName"));
            lines.insert(2, format!("  {SECRET_NAME_COMMENT}"));
            lines
        }
        Resource::Mailboxes => allow_wide(
            actions,
            "Any mailbox: its queues are created with its sandbox.",
            &format!("sqs:{ACCOUNT}sunaba-${{Stage}}-mail-*"),
        ),
        Resource::AllQueues => {
            let mut lines = allow(actions, "\"*\"");
            lines.insert(2, "  # SQS can restrict this action to an account only.".into());
            lines
        }
        Resource::SocketJobs => allow(actions, "!GetAtt SocketJobsQueue.Arn"),
        Resource::OrchestrationJobs => allow(actions, "!GetAtt OrchestrationJobsQueue.Arn"),
        Resource::Bus => allow(actions, "!GetAtt Bus.Arn"),
        Resource::Sockets => allow_wide(
            actions,
            "Any connection: ids are assigned when a socket opens.",
            &format!("execute-api:{ACCOUNT}${{SocketApi}}/${{SocketStage}}/*/@connections/*"),
        ),
        Resource::ProviderSecrets => {
            let secrets =
                PROVIDERS.iter().flat_map(|kind| kind.settings).filter_map(|setting| setting.secret);
            let of_providers = secrets.flat_map(|secret| named_secret(secret.condition, secret.parameter));
            let workers = named_secret("HasWorkerVariables", "WorkerVariablesName");
            let allowed = allow_any_of(actions, of_providers.chain(workers));
            let mut lines = vec![
                "# IAM rejects a statement without resources, so it is left out if no secret is configured."
                    .into(),
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

/// A statement with a wildcard, preceded by a comment with the reason.
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

const SECRET_NAME_COMMENT: &str = "# Secrets Manager appends six random characters to the name.";

/// The secret whose name is in this parameter.
fn secret_arn(parameter: &str) -> String {
    format!("!Sub arn:${{AWS::Partition}}:secretsmanager:{ACCOUNT}secret:${{{parameter}}}-??????")
}

/// A secret that the operator created, if the parameter names one.
fn named_secret(condition: &str, parameter: &str) -> Vec<String> {
    vec![
        "- !If".into(),
        format!("  - {condition}"),
        format!("  {SECRET_NAME_COMMENT}"),
        format!("  - {}", secret_arn(parameter)),
        "  - !Ref AWS::NoValue".into(),
    ]
}

/// Permissions to read the event source. Lambda reads it with the function's own role, and SAM's default policy would
/// allow every queue or stream of the account.
fn event_source(trigger: &Trigger) -> Vec<String> {
    match trigger {
        Trigger::TableStream(records) => {
            let read = ["DescribeStream", "GetRecords", "GetShardIterator", "ListStreams"];
            let read = read.map(|action| format!("dynamodb:{action}"));
            let read: Vec<&str> = read.iter().map(String::as_str).collect();
            let mut lines =
                vec!["# The event source, and the queue for records that failed all retries.".into()];
            lines.extend(allow(&read, "!GetAtt Table.StreamArn"));
            lines.extend(allow(&["sqs:SendMessage"], &format!("!GetAtt {}.Arn", failed_queue(*records))));
            lines
        }
        Trigger::Jobs(queue) => {
            let read = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"];
            let mut lines = vec!["# The event source.".into()];
            lines.extend(allow(&read, &format!("!GetAtt {}.Arn", template::queue(*queue))));
            lines
        }
        _ => Vec::new(),
    }
}

/// The queue for stream records that failed all retries.
pub fn failed_queue(records: Records) -> &'static str {
    match records {
        Records::Broadcast => "BroadcastFailedQueue",
        Records::Lifecycle => "PublishFailedQueue",
    }
}
