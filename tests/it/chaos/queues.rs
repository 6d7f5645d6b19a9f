//! Damages the SQS queues of a plane while it runs, through the AWS endpoint that it serves.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::watch;

/// Another consumer of all mailboxes. It knows nothing of the ledger.
pub struct Saboteur {
    data: PathBuf,
    random: StdRng,
    http: reqwest::Client,
    pub damage: watch::Sender<Damage>,
}

/// What was done to the queues.
#[derive(Debug, Clone, Copy, Default)]
pub struct Damage {
    /// Messages that were deleted before a pull received them.
    lost: u64,
    /// Messages that were put onto their queue a second time.
    repeated: u64,
    /// Messages that were hidden for longer than a pull hides them.
    hidden: u64,
    /// Queues that were deleted.
    deleted: u64,
}

impl Damage {
    pub fn is_complete(&self) -> bool {
        [self.lost, self.repeated, self.hidden].iter().all(|count| *count >= 3) && self.deleted > 0
    }
}

/// Short enough that most runs of a queue are damaged, and long enough that most messages pass.
pub const INTERVAL: Duration = Duration::from_millis(100);
/// Much longer than the visibility timeout of the test's workers.
const HIDDEN_SECS: u64 = 8;

impl Saboteur {
    /// `data` is the data directory of the plane.
    pub fn new(data: PathBuf, seed: u64) -> Self {
        let random = StdRng::seed_from_u64(seed);
        Self { data, random, http: reqwest::Client::new(), damage: watch::Sender::default() }
    }

    pub async fn run(mut self) {
        loop {
            tokio::time::sleep(INTERVAL).await;
            // The plane is down at times.
            let _ = self.strike().await;
        }
    }

    async fn strike(&mut self) -> Option<()> {
        let queues = self.call("ListQueues", json!({"QueueNamePrefix": "sunaba-local-mail-"})).await?;
        let urls = queues["QueueUrls"].as_array().filter(|urls| !urls.is_empty())?;
        let url = urls[self.random.random_range(0..urls.len())].clone();
        if self.random.random_range(0..25) == 0 {
            self.call("DeleteQueue", json!({"QueueUrl": url})).await?;
            self.damage.send_modify(|damage| damage.deleted += 1);
            return Some(());
        }
        let receive = json!({"QueueUrl": url, "MaxNumberOfMessages": 1, "VisibilityTimeout": HIDDEN_SECS});
        let received = self.call("ReceiveMessage", receive).await?;
        let message = received["Messages"].get(0)?;
        let handle = json!({"QueueUrl": url, "ReceiptHandle": message["ReceiptHandle"]});
        // In turn, so that a few messages are enough for all kinds.
        let Damage { lost, repeated, hidden, .. } = *self.damage.borrow();
        match (lost + repeated + hidden) % 3 {
            0 => {
                self.call("DeleteMessage", handle).await?;
                self.damage.send_modify(|damage| damage.lost += 1);
            }
            1 => {
                let tags = self.call("ListQueueTags", json!({"QueueUrl": url})).await?;
                let repeat = json!({
                    "QueueUrl": url, "MessageBody": message["Body"],
                    "MessageGroupId": tags["Tags"]["sunaba:sandbox"],
                    "MessageDeduplicationId": format!("repeated-{}", self.random.random::<u64>()),
                });
                self.call("SendMessage", repeat).await?;
                let mut visible = handle;
                visible["VisibilityTimeout"] = json!(0);
                self.call("ChangeMessageVisibility", visible).await?;
                self.damage.send_modify(|damage| damage.repeated += 1);
            }
            _ => self.damage.send_modify(|damage| damage.hidden += 1),
        }
        Some(())
    }

    /// Endpoint and access key change when the plane is restarted.
    async fn call(&self, operation: &str, body: Value) -> Option<Value> {
        let variables = std::fs::read_to_string(self.data.join("plane/lambda.env")).ok()?;
        let variable = |name: &str| {
            let value = variables.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
            Some(value?.trim_matches('"').to_owned())
        };
        let credential = format!("{}/20261118/local/sqs/aws4_request", variable("AWS_ACCESS_KEY_ID")?);
        let request = self
            .http
            .post(variable("AWS_ENDPOINT_URL")?)
            .timeout(Duration::from_secs(1))
            .header("x-amz-target", format!("AmazonSQS.{operation}"))
            .header("authorization", format!("AWS4-HMAC-SHA256 Credential={credential}"))
            .body(body.to_string());
        let response = request.send().await.ok()?.error_for_status().ok()?;
        response.json().await.ok()
    }
}
