//! Messages on the two job queues: [`Job::ExpireSocket`] is a socket job, all others are orchestration jobs.

use domain::{ConnectionId, MessageId, OrgId, SandboxId, TaskId, TicketId, Timestamp};
use serde::{Deserialize, Serialize};

/// On the wire: `{"job":"expire_socket","connection_id":…}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "job", rename_all = "snake_case")]
pub enum Job {
    /// Close a socket that has not authenticated in time.
    ExpireSocket {
        connection_id: ConnectionId,
    },
    /// Assign free slots of an org to queued tasks.
    Dispatch {
        org: OrgId,
    },
    ReconcileSandbox {
        sandbox_id: SandboxId,
    },
    /// Reconcile a task that has no active sandbox.
    ReconcileTask {
        task_id: TaskId,
    },
    ReconcileTicket {
        ticket_id: TicketId,
    },
    /// Read the feedback on the pull request of a task, because that is due.
    ReadFeedback {
        task_id: TaskId,
    },
    /// Read the feedback on a pull request, because a webhook says that it has changed.
    PullRequestChanged {
        /// As `repository::key` returns it.
        repository: String,
        number: u64,
        /// The org whose secret has signed the webhook; `None` if it is that of every org.
        #[serde(default)]
        org: Option<OrgId>,
        /// When the webhook arrived.
        at: Timestamp,
    },
    /// Put a stored message onto its queue, because that failed when it was sent.
    EnqueueMessage {
        sandbox_id: SandboxId,
        message_id: MessageId,
        /// How often the job has failed.
        #[serde(default)]
        failures: usize,
    },
}

impl Job {
    pub fn encode(&self) -> String {
        serde_json::to_string(self).expect("our own structs serialize to JSON")
    }

    pub fn decode(message: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_round_trip_as_tagged_json() {
        let job = Job::ExpireSocket { connection_id: ConnectionId::parse("L0SM9cOFvHcCIhw=").unwrap() };
        assert_eq!(job.encode(), r#"{"job":"expire_socket","connection_id":"L0SM9cOFvHcCIhw="}"#);
        assert_eq!(Job::decode(&job.encode()).unwrap(), job);
        assert!(Job::decode(r#"{"job":"something_else"}"#).is_err());
    }
}
