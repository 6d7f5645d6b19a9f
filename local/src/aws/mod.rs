//! In-process AWS. The SDK is the real one; only its HTTP client is replaced.

mod connections;
mod connector;
mod dynamodb;
mod eventbridge;
mod faults;
mod meter;
mod secrets;
mod sqs;

pub use connections::{Hub, Inbox};
pub use connector::Reply;
pub use dynamodb::{Durability, Records, StreamRecord};
pub use faults::{Fault, Faults};
pub use meter::{Call, Meter};
pub use sqs::{JobMessage, JobMessages};

use aws_sdk_dynamodb::config::{Region, StalledStreamProtectionConfig};
use aws_sdk_sqs::types::QueueAttributeName;
use aws_smithy_types::retry::RetryConfig;
use aws_smithy_types::timeout::TimeoutConfig;
use connector::{Connector, Services};
use dynamodb::DynamoDb;
use edge::Bindings;
use eventbridge::EventBridge;
use secrets::Secrets;
use sqs::Sqs;
use std::path::Path;
use std::sync::Arc;
use store::{Bus, JobQueue, Mailboxes, Push, Store};

// Disables what only a network needs. Measured: a push to a socket takes 36 instead of 78 microseconds, mostly because it is
// not signed; a table call takes about 40 less.
macro_rules! client {
    ($sdk:ident, $connector:expr) => {{
        let config = $sdk::Config::builder()
            .behavior_version_latest()
            .region(Region::from_static("local"))
            .endpoint_url("http://aws.local")
            .http_client($connector)
            .allow_no_auth()
            .retry_config(RetryConfig::disabled())
            .timeout_config(TimeoutConfig::disabled())
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled());
        $sdk::Client::from_conf(config.build())
    }};
}

pub const TABLE: &str = "sunaba";
/// ARN of the queue for messages that were received too often.
pub const DEAD_LETTERS_ARN: &str = "arn:aws:sqs:local:000000000000:sunaba-local-dead-letters.fifo";
/// URL prefix of mailboxes.
pub const MAILBOXES_URL: &str = "http://sqs.local/sunaba-local-mail-";

/// The clients and engines of the in-process AWS.
#[derive(Debug)]
pub struct Aws {
    pub store: Store,
    pub push: Push,
    pub hub: Arc<Hub>,
    /// Fault injection for tests.
    pub faults: Faults,
    /// Records calls and their cost; off until a test starts it.
    pub meter: Meter,
    pub socket_jobs: JobQueue,
    pub orchestration_jobs: JobQueue,
    pub mailboxes: Mailboxes,
    pub bus: Bus,
    connector: Connector,
    dynamodb: Arc<DynamoDb>,
}

/// What AWS would deliver to functions.
#[derive(Debug)]
pub struct Feeds {
    /// The table's stream, in order.
    pub records: Records,
    /// Messages of both job queues, after their delay.
    pub jobs: JobMessages,
}

impl Aws {
    /// Opens the database in a data directory.
    pub async fn open(data: &Path, durability: Durability) -> anyhow::Result<(Self, Feeds)> {
        let (dynamodb, records) = DynamoDb::open(&data.join("table.sqlite"), durability)?;
        let (sqs, jobs) = Sqs::new();
        let (dynamodb, hub) = (Arc::new(dynamodb), Arc::new(Hub::default()));
        let (faults, meter) = (Faults::default(), Meter::default());
        let services = Services {
            dynamodb: dynamodb.clone(),
            sqs,
            bus: EventBridge::default(),
            secrets: Secrets::default(),
            hub: hub.clone(),
        };
        let connector = Connector::new(services, faults.clone(), meter.clone());
        let store = Store::new(client!(aws_sdk_dynamodb, connector.clone()), TABLE);
        store.ensure_table().await?;
        create_dead_letters(&client!(aws_sdk_sqs, connector.clone())).await?;
        let aws = Self {
            store,
            push: Push::new(client!(aws_sdk_apigatewaymanagement, connector.clone())),
            socket_jobs: JobQueue::new(
                client!(aws_sdk_sqs, connector.clone()),
                "http://sqs.local/socket-jobs",
            ),
            orchestration_jobs: JobQueue::new(
                client!(aws_sdk_sqs, connector.clone()),
                "http://sqs.local/orchestration-jobs",
            ),
            mailboxes: Mailboxes::new(client!(aws_sdk_sqs, connector.clone()), MAILBOXES_URL)
                .with_dead_letters(DEAD_LETTERS_ARN),
            bus: Bus::new(client!(aws_sdk_eventbridge, connector.clone()), "sunaba"),
            hub,
            faults,
            meter,
            connector,
            dynamodb,
        };
        Ok((aws, Feeds { records, jobs }))
    }

    pub fn bindings(&self) -> Bindings {
        Bindings {
            push: Some(self.push.clone()),
            mailboxes: Some(self.mailboxes.clone()),
            socket_jobs: Some(self.socket_jobs.clone()),
            orchestration_jobs: Some(self.orchestration_jobs.clone()),
            providers: None,
            code_hosts: None,
            bus: Some(self.bus.clone()),
        }
    }

    /// Adds a secret to Secrets Manager.
    pub fn put_secret(&self, name: &str, value: &str) {
        self.connector.services().secrets.put(name, value);
    }

    pub fn sqs_client(&self) -> aws_sdk_sqs::Client {
        client!(aws_sdk_sqs, self.connector.clone())
    }

    /// Ends all long polls, now and from now on, so that they do not delay shutdown.
    pub fn end_long_polls(&self) {
        self.connector.services().sqs.close();
    }

    /// The latest events on the bus.
    pub fn published(&self) -> Vec<serde_json::Value> {
        self.connector.services().bus.published()
    }

    /// Handles an SDK request that arrived over HTTP. An error is an injected connection failure.
    pub async fn call(
        &self,
        target: Option<&str>,
        method: &str,
        uri: &str,
        body: &[u8],
    ) -> Result<Reply, Box<dyn std::error::Error + Send + Sync>> {
        Ok(self.connector.call(target, method, uri, body).await?)
    }

    /// Deletes expired items. On AWS the table does so by itself.
    pub fn sweeper(&self) -> Sweeper {
        Sweeper(self.dynamodb.clone())
    }
}

/// On AWS this queue is in the template.
async fn create_dead_letters(sqs: &aws_sdk_sqs::Client) -> anyhow::Result<()> {
    let name = DEAD_LETTERS_ARN.rsplit(':').next().unwrap_or_default();
    let create = sqs.create_queue().queue_name(name).attributes(QueueAttributeName::FifoQueue, "true");
    create.send().await?;
    Ok(())
}

#[derive(Debug, Clone)]
pub struct Sweeper(Arc<DynamoDb>);

impl Sweeper {
    /// Scans the whole table on a blocking thread; returns how many items it deleted.
    pub async fn sweep(&self) -> anyhow::Result<usize> {
        let dynamodb = self.0.clone();
        tokio::task::spawn_blocking(move || dynamodb.delete_expired()).await?
    }
}
