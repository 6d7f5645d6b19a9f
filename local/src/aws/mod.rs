//! AWS, in this process. The SDK is the real one; what is swapped is the HTTP client beneath it.

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
pub use sqs::Messages;

use aws_sdk_dynamodb::config::{Region, StalledStreamProtectionConfig};
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
use store::{Bus, Jobs, Mailboxes, Push, Store};

// All clients go without what only a network needs. Measured in this process, a call to a socket falls from 78 to 36
// microseconds, of which signing is the most; a table call by about 40.
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

/// The table's name in this process.
pub const TABLE: &str = "sunaba";
/// How the addresses of mailboxes start in this process.
pub const MAILBOXES_URL: &str = "http://sqs.local/sunaba-local-mail-";

/// AWS in this process.
#[derive(Debug)]
pub struct Aws {
    /// The table.
    pub store: Store,
    /// The way to sockets.
    pub push: Push,
    /// The sockets.
    pub hub: Arc<Hub>,
    /// What goes wrong on purpose.
    pub faults: Faults,
    /// What calls cost; off until a test starts it.
    pub meter: Meter,
    /// The queue of jobs.
    pub jobs: Jobs,
    /// The queue of work.
    pub work: Jobs,
    /// The sandboxes' mailboxes.
    pub mailboxes: Mailboxes,
    /// The event bus.
    pub bus: Bus,
    connector: Connector,
    dynamodb: Arc<DynamoDb>,
}

/// What comes out of AWS by itself.
#[derive(Debug)]
pub struct Feeds {
    /// What is written to the table, in order.
    pub records: Records,
    /// Jobs whose time has come.
    pub jobs: Messages,
}

impl Aws {
    /// Opens the data in a folder.
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
        let aws = Self {
            store,
            push: Push::new(client!(aws_sdk_apigatewaymanagement, connector.clone())),
            jobs: Jobs::new(client!(aws_sdk_sqs, connector.clone()), "http://sqs.local/jobs"),
            work: Jobs::new(client!(aws_sdk_sqs, connector.clone()), "http://sqs.local/work"),
            mailboxes: Mailboxes::new(client!(aws_sdk_sqs, connector.clone()), MAILBOXES_URL),
            bus: Bus::new(client!(aws_sdk_eventbridge, connector.clone()), "sunaba"),
            hub,
            faults,
            meter,
            connector,
            dynamodb,
        };
        Ok((aws, Feeds { records, jobs }))
    }

    /// All that a plane may be wired to.
    pub fn bindings(&self) -> Bindings {
        Bindings {
            push: Some(self.push.clone()),
            mailboxes: Some(self.mailboxes.clone()),
            jobs: Some(self.jobs.clone()),
            work: Some(self.work.clone()),
            providers: None,
            bus: Some(self.bus.clone()),
        }
    }

    /// Makes a secret known to Secrets Manager.
    pub fn keep_secret(&self, name: &str, value: &str) {
        self.connector.services().secrets.keep(name, value);
    }

    /// A client for the queues.
    pub fn sqs_client(&self) -> aws_sdk_sqs::Client {
        client!(aws_sdk_sqs, self.connector.clone())
    }

    /// Answers everybody who waits for a message, at once and from now on: the process is about to stop, and their
    /// requests must not hold it up.
    pub fn stop_waiting(&self) {
        self.connector.services().sqs.close();
    }

    /// The latest of what was published to the bus, as it came.
    pub fn published(&self) -> Vec<serde_json::Value> {
        self.connector.services().bus.published()
    }

    /// What an SDK asked over the wire. An error is a wire that broke.
    pub async fn call(
        &self,
        target: Option<&str>,
        method: &str,
        uri: &str,
        body: &[u8],
    ) -> Result<Reply, Box<dyn std::error::Error + Send + Sync>> {
        Ok(self.connector.call(target, method, uri, body).await?)
    }

    /// What removes expired items. On AWS the table does so by itself.
    pub fn sweeper(&self) -> Sweeper {
        Sweeper(self.dynamodb.clone())
    }
}

/// Removes expired items.
#[derive(Debug, Clone)]
pub struct Sweeper(Arc<DynamoDb>);

impl Sweeper {
    /// Looks at every item once; how many were removed. Takes as long as the table is large, on a thread of its own.
    pub async fn sweep(&self) -> anyhow::Result<usize> {
        let dynamodb = self.0.clone();
        tokio::task::spawn_blocking(move || dynamodb.sweep_expired()).await?
    }
}
