//! AWS, in this process. The SDK is the real one; what is swapped is the HTTP client beneath it.

mod connections;
mod connector;
mod dynamodb;
mod faults;
mod meter;

pub use connections::{Hub, Inbox};
pub use dynamodb::{Durability, Records, StreamRecord};
pub use faults::{Fault, Faults};
pub use meter::{Call, Meter};

use aws_sdk_dynamodb::config::{Region, StalledStreamProtectionConfig};
use aws_smithy_types::retry::RetryConfig;
use aws_smithy_types::timeout::TimeoutConfig;
use connector::Connector;
use dynamodb::DynamoDb;
use std::path::Path;
use std::sync::Arc;
use store::{Push, Store};

/// The table's name in this process.
const TABLE: &str = "sunaba";

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
    dynamodb: Arc<DynamoDb>,
}

impl Aws {
    /// Opens the data in a folder. What is written there comes out of `Records`, in order.
    pub async fn open(data: &Path, durability: Durability) -> anyhow::Result<(Self, Records)> {
        let (dynamodb, records) = DynamoDb::open(&data.join("table.sqlite"), durability)?;
        let (dynamodb, hub) = (Arc::new(dynamodb), Arc::new(Hub::default()));
        let (faults, meter) = (Faults::default(), Meter::default());
        let connector = Connector::new(dynamodb.clone(), hub.clone(), faults.clone(), meter.clone());
        let store = Store::new(dynamodb_client(connector.clone()), TABLE);
        store.ensure_table().await?;
        let push = Push::new(management_client(connector));
        Ok((Self { store, push, hub, faults, meter, dynamodb }, records))
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

// Both clients go without what only a network needs. Measured in this process, a call to a socket falls from 78
// to 36 microseconds, of which signing is the most; a table call by about 40.

fn dynamodb_client(connector: Connector) -> aws_sdk_dynamodb::Client {
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version_latest()
        .region(Region::from_static("local"))
        .endpoint_url("http://dynamodb.local")
        .http_client(connector)
        .allow_no_auth()
        .retry_config(RetryConfig::disabled())
        .timeout_config(TimeoutConfig::disabled())
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled());
    aws_sdk_dynamodb::Client::from_conf(config.build())
}

fn management_client(connector: Connector) -> aws_sdk_apigatewaymanagement::Client {
    let config = aws_sdk_apigatewaymanagement::Config::builder()
        .behavior_version_latest()
        .region(Region::from_static("local"))
        .endpoint_url("http://connections.local")
        .http_client(connector)
        .allow_no_auth()
        .retry_config(RetryConfig::disabled())
        .timeout_config(TimeoutConfig::disabled())
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled());
    aws_sdk_apigatewaymanagement::Client::from_conf(config.build())
}
