//! Every event type that the plane and its worker emit, with the type of its data.
//!
//! This is the only list: an event is constructed from its payload, which brings the name. Other workers may send other
//! types. The console must render each type in this list: it does not compile while one is missing
//! (`web/src/api/contract.ts` has a copy of the list and of the payloads).

use super::payloads;
use crate::JsonObject;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// The data of one event type.
pub trait Payload: Clone + PartialEq + Serialize + DeserializeOwned {
    const EVENT_TYPE: &'static str;
}

/// The fields of a payload as JSON.
pub fn fields_of(payload: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(payload) {
        Ok(Value::Object(fields)) => fields,
        // Payloads are structs with named fields.
        other => unreachable!("a payload serializes to an object, not {other:?}"),
    }
}

/// Reads the data of an event as one of our payloads.
///
/// The data comes from workers of any version and vendor. A field with a value of another type is ignored; `null` counts
/// as absent; of two names for one field, the payload's own counts. `None` if a field is missing that has no default.
pub fn read<P: Payload>(data: &JsonObject) -> Option<P> {
    serde_json::from_str(data.text()).ok().or_else(|| read_fitting(data))
}

/// Reads the fields that fit. Each is parsed alone, and those that fit are parsed together once.
fn read_fitting<P: Payload>(data: &JsonObject) -> Option<P> {
    let parse = |fields: Map<String, Value>| serde_json::from_value::<P>(Value::Object(fields)).ok();
    let empty = parse(Map::new())?;
    let defaults = fields_of(&empty);
    // By the payload's own names, so that an alias never replaces them, in whatever order they were sent.
    let mut fitting = Map::new();
    for (name, raw) in data.fields() {
        let Ok(value) = serde_json::from_str::<Value>(raw.get()) else { continue };
        let field = |name: &str| Map::from_iter([(name.to_owned(), value.clone())]);
        let Some(alone) = parse(field(&name)).filter(|_| !value.is_null()) else { continue };
        if defaults.contains_key(&name) {
            fitting.insert(name, value);
            continue;
        }
        // Fields that the payload does not have end here: there may be very many.
        if alone == empty {
            continue;
        }
        let set = fields_of(&alone);
        if set.contains_key(&name) {
            fitting.insert(name, value);
        } else if let Some(own) = set.keys().find(|own| parse(field(own)).as_ref() == Some(&alone)) {
            fitting.entry(own.clone()).or_insert(value);
        }
    }
    parse(fitting)
}

/// Whether the worker adds [`payloads::WorkerContext`] to the data of this type: it does to all events of its log.
pub fn has_worker_context(event_type: &str) -> bool {
    let ephemeral = [payloads::AgentHeartbeat::EVENT_TYPE, payloads::AgentPartial::EVENT_TYPE];
    EMITTED_BY_THE_WORKER.contains(&event_type) && !ephemeral.contains(&event_type)
}

/// The names of fields of payloads. A name that is not a field does not compile.
macro_rules! field_names {
    ($($payload:ty: $($field:ident),+;)+) => {{
        $(const _: fn(&$payload) = |payload| {
            $(let _ = &payload.$field;)+
        };)+
        [$($(stringify!($field)),+),+]
    }};
}
pub(crate) use field_names;

macro_rules! catalogue {
    ($($(#[$doc:meta])* $list:ident { $($name:literal => $module:ident::$payload:ident,)* })*) => {
        $($(#[$doc])* pub const $list: &[&str] = &[$($name),*];)*

        /// Every event type with the path of its payload below `domain::event::payloads`.
        pub const PAYLOAD_TYPES: &[(&str, &str)] =
            &[$($(($name, concat!(stringify!($module), "::", stringify!($payload))),)*)*];

        $($(
            impl Payload for payloads::$module::$payload {
                const EVENT_TYPE: &'static str = $name;
            }
        )*)*

        /// The JSON Schema of the data of each event type, in the order of the catalogue.
        pub fn schemas(generator: &mut SchemaGenerator) -> Vec<(&'static str, Schema)> {
            let all = vec![$($(($name, generator.subschema_for::<payloads::$module::$payload>()),)*)*];
            let context = generator.subschema_for::<payloads::WorkerContext>();
            let with_context = |(name, payload): (&'static str, Schema)| match has_worker_context(name) {
                true => (name, json_schema!({ "allOf": [payload, context] })),
                false => (name, payload),
            };
            all.into_iter().map(with_context).collect()
        }

        /// Whether the data can be read as the payload of this event type.
        #[cfg(test)]
        fn is_readable(event_type: &str, data: &JsonObject) -> bool {
            match event_type {
                $($($name => read::<payloads::$module::$payload>(data).is_some(),)*)*
                _ => false,
            }
        }
    };
}

catalogue! {
    /// Event types that the plane appends to the logs of sandboxes, tasks and tickets.
    EMITTED_BY_THE_PLANE {
        "sandbox.pending" => sandbox::SandboxPending,
        "sandbox.preparing" => sandbox::SandboxPreparing,
        "sandbox.creating" => sandbox::SandboxCreating,
        "sandbox.uploading" => sandbox::SandboxUploading,
        "sandbox.starting" => sandbox::SandboxStarting,
        "sandbox.spawned" => sandbox::SandboxSpawned,
        "sandbox.running" => sandbox::SandboxRunning,
        "sandbox.retrying" => sandbox::SandboxRetrying,
        "sandbox.token_rotated" => sandbox::SandboxTokenRotated,
        "sandbox.completing" => sandbox::SandboxCompleting,
        "sandbox.completed" => sandbox::SandboxCompleted,
        "sandbox.failed" => sandbox::SandboxFailed,
        "sandbox.terminated" => sandbox::SandboxTerminated,
        "sandbox.terminated_idle" => sandbox::SandboxTerminatedIdle,
        "sandbox.released" => sandbox::SandboxReleased,
        "task.created" => task::TaskCreated,
        "task.ready" => task::TaskReady,
        "task.claimed" => task::TaskClaimed,
        "task.assigned" => task::TaskAssigned,
        "task.started" => task::TaskStarted,
        "task.branch_created" => task::TaskBranchCreated,
        "task.completing" => task::TaskCompleting,
        "task.pull_request_opened" => task::TaskPullRequestOpened,
        "task.merged" => task::TaskMerged,
        "task.pull_request_closed" => feedback::TaskPullRequestClosed,
        "task.feedback_received" => feedback::TaskFeedbackReceived,
        "task.feedback_answered" => feedback::TaskFeedbackAnswered,
        "task.feedback_left" => feedback::TaskFeedbackLeft,
        "task.feedback_requested" => feedback::TaskFeedbackRequested,
        "task.merge_conflict" => merge::TaskMergeConflict,
        "task.completed" => task::TaskCompleted,
        "task.failed" => task::TaskFailed,
        "task.retrying" => task::TaskRetrying,
        "task.cancelled" => task::TaskCancelled,
        "task.validating" => task::TaskValidating,
        "task.needs_revision" => task::TaskNeedsRevision,
        "task.updated" => task::TaskUpdated,
        "task.dependencies_changed" => task::TaskDependenciesChanged,
        "ticket.created" => ticket::TicketCreated,
        "ticket.transitioned" => ticket::TicketTransitioned,
        "ticket.approved" => ticket::TicketApproved,
        "ticket.rejected" => ticket::TicketRejected,
        "ticket.timed_out" => ticket::TicketTimedOut,
        "ticket.blocked" => ticket::TicketBlocked,
        "ticket.unblocked" => ticket::TicketUnblocked,
        "ticket.merge_started" => merge::TicketMergeStarted,
        "ticket.merge_ordered" => merge::TicketMergeOrdered,
        "ticket.merge_progress" => merge::TicketMergeProgress,
        "ticket.merge_conflict" => merge::TicketMergeConflict,
        "ticket.merge_ended" => merge::TicketMergeEnded,
        "message.queued" => message::MessageQueued,
        "message.fetched" => message::MessageFetched,
        "message.undeliverable" => message::MessageUndeliverable,
        "message.delivered" => message::MessageDelivered,
        "message.started" => message::MessageStarted,
        "message.completed" => message::MessageCompleted,
        "message.cancelled" => message::MessageCancelled,
    }

    /// Event types that a worker sends. `docs/worker.md` describes when.
    EMITTED_BY_THE_WORKER {
        "workspace.cloning" => workspace::WorkspaceCloning,
        "workspace.ready" => workspace::WorkspaceReady,
        "workspace.failed" => workspace::WorkspaceFailed,
        "workspace.pushed" => workspace::WorkspacePushed,
        "workspace.push_rejected" => workspace::WorkspacePushRejected,
        "workspace.push_failed" => workspace::WorkspacePushFailed,
        "workspace.kept" => workspace::WorkspaceKept,
        "workspace.keep_failed" => workspace::WorkspaceKeepFailed,
        "workspace.changes_left_out" => workspace::WorkspaceChangesLeftOut,
        "workspace.snapshots_off" => workspace::WorkspaceSnapshotsOff,
        "network.denied" => workspace::NetworkDenied,
        "agent.started" => agent::AgentStarted,
        "agent.system_message" => agent::AgentSystemMessage,
        "agent.user_message" => agent::AgentUserMessage,
        "agent.message" => agent::AgentMessage,
        "agent.thinking" => agent::AgentThinking,
        "agent.assistant_message" => agent::AgentAssistantMessage,
        "agent.tool_use" => calls::AgentToolUse,
        "agent.tool_completed" => calls::AgentToolCompleted,
        "agent.tool_result" => calls::AgentToolResult,
        "agent.user_tool_result" => calls::AgentUserToolResult,
        "agent.subagent_invoked" => calls::AgentSubagentInvoked,
        "agent.subagent_completed" => calls::AgentSubagentCompleted,
        "agent.skill_invoked" => calls::AgentSkillInvoked,
        "agent.skill_completed" => calls::AgentSkillCompleted,
        "agent.file_edited" => calls::AgentFileEdited,
        "agent.permission_decided" => calls::AgentPermissionDecided,
        "agent.plan" => agent::AgentPlan,
        "agent.turn_completed" => agent::AgentTurnCompleted,
        "agent.message_injected" => agent::AgentMessageInjected,
        "agent.interrupted" => agent::AgentInterrupted,
        "agent.completed" => agent::AgentCompleted,
        "agent.failed" => agent::AgentFailed,
        "agent.waiting" => agent::AgentWaiting,
        "agent.stream_error" => agent::AgentStreamError,
        "agent.error" => agent::AgentError,
        "agent.unparsed" => agent::AgentUnparsed,
        "agent.shutdown" => agent::AgentShutdown,
        "agent.heartbeat" => agent::AgentHeartbeat,
        "agent.partial" => agent::AgentPartial,
        "continuous.started" => iteration::ContinuousStarted,
        "continuous.completed" => iteration::ContinuousCompleted,
        "iteration.started" => iteration::IterationStarted,
        "iteration.completed" => iteration::IterationCompleted,
        "iteration.failed" => iteration::IterationFailed,
        "iteration.completion_signal" => iteration::IterationCompletionSignal,
        "iteration.validation" => iteration::IterationValidation,
        "preview.starting" => preview::PreviewStarting,
        "preview.ready" => preview::PreviewReady,
        "preview.failed" => preview::PreviewFailed,
        "preview.stopped" => preview::PreviewStopped,
        "worker.isolation" => worker::WorkerIsolation,
        "worker.outbox_full" => worker::WorkerOutboxFull,
        "worker.event_refused" => worker::WorkerEventRefused,
        "worker.receipt_refused" => worker::WorkerReceiptRefused,
        "worker.transcript_refused" => worker::WorkerTranscriptRefused,
        "worker.transcript_behind" => worker::WorkerTranscriptBehind,
        "worker.spool_damaged" => worker::WorkerSpoolDamaged,
        "worker.transcript_lost" => worker::WorkerTranscriptLost,
    }
}

#[cfg(test)]
mod tests;
