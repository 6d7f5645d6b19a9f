//! What is put on the queue of jobs.

use domain::{ConnectionId, OrgId, SandboxId, TaskId, TicketId};
use serde::{Deserialize, Serialize};

/// Something to do later. On the wire: `{"job":"expire_socket","connection_id":…}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "job", rename_all = "snake_case")]
pub enum Job {
    /// Close a socket if nobody has said by then who they are.
    ExpireSocket {
        /// Which.
        connection_id: ConnectionId,
    },
    /// Give free slots of an org to the tasks that are ready.
    Dispatch {
        /// Whose.
        org: OrgId,
    },
    /// Do what is due for a sandbox.
    ReconcileSandbox {
        /// Which.
        sandbox_id: SandboxId,
    },
    /// Do what is due for a task that has no sandbox at work.
    ReconcileTask {
        /// Which.
        task_id: TaskId,
    },
    /// Do what is due for a ticket.
    ReconcileTicket {
        /// Which.
        ticket_id: TicketId,
    },
}

impl Job {
    /// As a message.
    pub fn encode(&self) -> String {
        serde_json::to_string(self).expect("a job of ours serialises")
    }

    /// From a message.
    pub fn decode(message: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_told_by_its_name() {
        let job = Job::ExpireSocket { connection_id: ConnectionId::parse("L0SM9cOFvHcCIhw=").unwrap() };
        assert_eq!(job.encode(), r#"{"job":"expire_socket","connection_id":"L0SM9cOFvHcCIhw="}"#);
        assert_eq!(Job::decode(&job.encode()).unwrap(), job);
        assert!(Job::decode(r#"{"job":"something_else"}"#).is_err());
    }
}
