//! The DynamoDB table, the push to sockets, the mailboxes, the job queues and the bus for lifecycle events.
//!
//! One method per access pattern of `infra/TABLE.md`; `keys.rs` is the only file that spells a key. Deliberately
//! absent: rules (they are in `domain`), retries beyond the SDK's own (the caller knows whether a retry is
//! idempotent), and the location of the table (the host configures the client).

mod bodies;
pub mod branches;
pub mod bus;
pub mod commit;
mod compression;
pub mod connections;
pub mod error;
mod items;
pub mod job_queue;
mod kept;
pub mod keys;
pub mod ledger;
pub mod limits;
pub mod log;
pub mod log_hash;
pub mod mailboxes;
pub mod page;
mod pull_requests;
pub mod push;
pub mod quotas;
pub mod record;
pub mod sandboxes;
pub mod segments;
pub mod sessions;
pub mod table;
pub mod task_queue;
pub mod tasks;
mod uptime;

pub use bus::Bus;
pub use error::Error;
pub use job_queue::JobQueue;
pub use mailboxes::Mailboxes;
pub use push::Push;

#[derive(Debug, Clone)]
pub struct Store {
    client: aws_sdk_dynamodb::Client,
    table: String,
}

impl Store {
    pub fn new(client: aws_sdk_dynamodb::Client, table: impl Into<String>) -> Self {
        Self { client, table: table.into() }
    }
}
