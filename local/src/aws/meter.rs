//! What calls to AWS cost, and which permissions they need. Off, and then free, unless a test turns it on.
//!
//! The engine says how many units a call is billed, by DynamoDB's own rules: its authors say that they compared it with
//! real tables, and a calculation by hand below agrees. Only for a refused write, of which the engine says nothing, the
//! units are counted here.
//!
//! Deliberately absent: what makes no call. A function that reads the table's stream needs permission for that, and an
//! API Gateway or a Lambda is billed by the request; `infra/cost` adds those.

use super::connector::Reply;
use super::sqs::queue_name;
use dynoxide::actions::transact_write_items::TransactWriteItemsRequest;
use dynoxide::types::{Item, TRANSACTIONAL_CAPACITY_FACTOR, item_size, table_write_capacity_units};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// One call that was answered. (One that met a fault was not, and is not here.)
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// `TransactWriteItems`, `PostToConnection`.
    pub operation: String,
    /// What it was about: `table/sunaba`, `table/sunaba/index/ByAge`, `queue/jobs`, `@connections`.
    pub resource: String,
    /// What a policy must allow for it: `dynamodb:PutItem`, `execute-api:ManageConnections`. A transaction needs
    /// permission for each kind of its parts and none of its own.
    pub actions: Vec<String>,
    /// 200, or how it was refused.
    pub status: u16,
    /// Write request units: one for each KB of an item, twice in a transaction.
    pub write_units: f64,
    /// Read request units: one for each 4 KB, if the read is consistent.
    pub read_units: f64,
    /// The request's body.
    pub request_bytes: usize,
    /// The answer's body, as it is without a meter.
    pub response_bytes: usize,
}

/// Counts calls while it is on.
#[derive(Debug, Clone, Default)]
pub struct Meter(Arc<Counter>);

#[derive(Debug, Default)]
struct Counter {
    on: AtomicBool,
    calls: Mutex<Vec<Call>>,
}

impl Meter {
    /// Counts from now on, from nothing.
    pub fn start(&self) {
        self.take();
        self.0.on.store(true, Ordering::Relaxed);
    }

    /// Counts no more. What was counted can still be taken.
    pub fn stop(&self) {
        self.0.on.store(false, Ordering::Relaxed);
    }

    /// What was counted since the start or the last taking, in the order of the answers.
    pub fn take(&self) -> Vec<Call> {
        std::mem::take(&mut self.0.calls.lock().expect("no code panics while it holds the calls"))
    }

    /// How many calls could be taken.
    pub fn waiting(&self) -> usize {
        self.0.calls.lock().expect("no code panics while it holds the calls").len()
    }

    /// A call is about to be made; `None` while nobody counts.
    pub(super) fn watch(&self, service: &str, operation: &str, body: &[u8]) -> Option<Watched> {
        let on = self.0.on.load(Ordering::Relaxed);
        on.then(|| Watched::new(service, operation, body))
    }

    /// It was answered.
    pub(super) fn record(&self, watched: Watched, reply: &Reply) {
        let call = watched.finish(reply);
        self.0.calls.lock().expect("no code panics while it holds the calls").push(call);
    }
}

/// A call on its way.
pub(super) struct Watched {
    service: String,
    operation: String,
    request: Value,
    request_bytes: usize,
    body: Vec<u8>,
}

impl Watched {
    fn new(service: &str, operation: &str, body: &[u8]) -> Self {
        let request_bytes = body.len();
        let mut request: Value = match operation {
            POST | DELETE => Value::Null,
            _ => serde_json::from_slice(body).unwrap_or_default(),
        };
        let mut body = body.to_vec();
        if request.is_object() && UNIT_OPERATIONS.contains(&operation) {
            request["ReturnConsumedCapacity"] = json!("TOTAL");
            body = request.to_string().into_bytes();
        }
        Self { service: service.to_owned(), operation: operation.to_owned(), request, request_bytes, body }
    }

    /// The request, which also asks what it costs.
    pub(super) fn body(&self) -> &[u8] {
        &self.body
    }

    fn finish(self, reply: &Reply) -> Call {
        let mut answer: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        let consumed = answer.as_object_mut().and_then(|answer| answer.remove("ConsumedCapacity"));
        let units = match reply.status {
            200 => consumed.as_ref().map_or(0.0, units),
            _ => refused_units(&self.operation, &self.body, &answer),
        };
        let writes = WRITES.contains(&self.operation.as_str());
        Call {
            resource: resource(&self.service, &self.request),
            actions: actions(&self.service, &self.operation, &self.request),
            status: reply.status,
            write_units: if writes { units } else { 0.0 },
            read_units: if writes { 0.0 } else { units },
            request_bytes: self.request_bytes,
            response_bytes: consumed.map_or(reply.body.len(), |_| answer.to_string().len()),
            operation: self.operation,
        }
    }
}

/// The management API has no operation in its header: method and path are it.
pub(super) const POST: &str = "PostToConnection";
pub(super) const DELETE: &str = "DeleteConnection";

const UNIT_OPERATIONS: [&str; 7] =
    ["GetItem", "BatchGetItem", "Query", "PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems"];
const WRITES: [&str; 4] = ["PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems"];

/// One table's, or a list with one for each table.
fn units(consumed: &Value) -> f64 {
    let one = |table: &Value| table["CapacityUnits"].as_f64().unwrap_or(0.0);
    consumed.as_array().map_or_else(|| one(consumed), |tables| tables.iter().map(one).sum())
}

/// DynamoDB bills a write whose condition fails
/// (<https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/WorkingWithItems.html>). How much of a cancelled
/// transaction it bills is not written there; counted here is all of it, so that no estimate is too low.
fn refused_units(operation: &str, body: &[u8], answer: &Value) -> f64 {
    let kind = answer["__type"].as_str().unwrap_or_default();
    if kind.ends_with("ConditionalCheckFailedException") {
        return table_write_capacity_units(None, None);
    }
    if operation != "TransactWriteItems" || !kind.ends_with("TransactionCanceledException") {
        return 0.0;
    }
    let Ok(request) = serde_json::from_slice::<TransactWriteItemsRequest>(body) else { return 0.0 };
    let parts = request.transact_items.iter().enumerate().map(|(index, part)| {
        let found = answer["CancellationReasons"][index].get("Item").cloned();
        let old = found.and_then(|item| serde_json::from_value::<Item>(item).ok());
        let new = part.put.as_ref().map(|put| item_size(&put.item));
        table_write_capacity_units(old.as_ref().map(item_size), new)
    });
    parts.sum::<f64>() * TRANSACTIONAL_CAPACITY_FACTOR
}

fn resource(service: &str, request: &Value) -> String {
    match service {
        "execute-api" => return "@connections".into(),
        "AmazonSQS" => {
            let name = request["QueueUrl"].as_str().map(queue_name).or(request["QueueName"].as_str());
            return format!("queue/{}", name.unwrap_or_default());
        }
        "AWSEvents" => return "bus".into(),
        "secretsmanager" => return "secret".into(),
        _ => {}
    }
    let first_part = request["TransactItems"][0].as_object().and_then(|part| part.values().next());
    let in_batch = request["RequestItems"].as_object().and_then(|tables| tables.keys().next());
    let named = first_part.unwrap_or(request)["TableName"].as_str();
    match (named.or(in_batch.map(String::as_str)), request["IndexName"].as_str()) {
        (Some(table), Some(index)) => format!("table/{table}/index/{index}"),
        (Some(table), None) => format!("table/{table}"),
        (None, _) => "table".into(),
    }
}

/// <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis-iam.html>
fn actions(service: &str, operation: &str, request: &Value) -> Vec<String> {
    match service {
        "AmazonSQS" => return vec![format!("sqs:{operation}")],
        "AWSEvents" => return vec![format!("events:{operation}")],
        "secretsmanager" => return vec![format!("secretsmanager:{operation}")],
        _ => {}
    }
    let parts: BTreeSet<&str> = match operation {
        POST | DELETE => return vec!["execute-api:ManageConnections".into()],
        "TransactWriteItems" => {
            let parts = request["TransactItems"].as_array().into_iter().flatten();
            parts.filter_map(|part| part.as_object()?.keys().next()).map(String::as_str).collect()
        }
        other => return vec![format!("dynamodb:{other}")],
    };
    parts.into_iter().map(|part| format!("dynamodb:{part}Item")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Aws, Durability};
    use super::*;
    use domain::{ConnectionId, OrgId, Sandbox, SandboxId, Timestamp};
    use store::push::Pushed;
    use store::sandboxes::Whose;
    use tempfile::TempDir;

    async fn metered() -> (Aws, TempDir) {
        let data = TempDir::new().unwrap();
        let (aws, _records) = Aws::open(data.path(), Durability::Process).await.unwrap();
        aws.meter.start();
        (aws, data)
    }

    fn only(aws: &Aws) -> Call {
        let mut calls = aws.meter.take();
        assert_eq!(calls.len(), 1, "{calls:?}");
        calls.remove(0)
    }

    /// Makes a call as the SDK would.
    async fn call(aws: &Aws, operation: &str, request: Value) -> Call {
        let body = request.to_string().into_bytes();
        let watched = aws.meter.watch("DynamoDB_20120810", operation, &body).unwrap();
        let reply = aws.dynamodb.call(operation, watched.body()).await;
        aws.meter.record(watched, &reply);
        only(aws)
    }

    /// An item of exactly this size: names count as well as values.
    fn item(sk: &str, size: usize) -> Value {
        let keys = "PK".len() + "p".len() + "SK".len() + sk.len();
        let filler = "x".repeat(size - keys - "f".len());
        json!({"PK": {"S": "p"}, "SK": {"S": sk}, "f": {"S": filler}})
    }

    fn put(item: Value) -> Value {
        json!({"Put": {"TableName": "sunaba", "Item": item}})
    }

    fn key(sk: &str) -> Value {
        json!({"PK": {"S": "p"}, "SK": {"S": sk}})
    }

    #[tokio::test]
    async fn units_are_what_a_calculation_by_hand_says() {
        let (aws, _data) = metered().await;
        // Two items, 1 KB and a byte more: 1 + 2 units, twice because of the transaction.
        let two = json!({"TransactItems": [put(item("a", 1024)), put(item("b", 1025))]});
        let written = call(&aws, "TransactWriteItems", two).await;
        assert_eq!((written.write_units, written.read_units), (6.0, 0.0));
        // A smaller item over a larger one: the larger counts.
        let over = json!({"TransactItems": [put(item("b", 100))]});
        assert_eq!(call(&aws, "TransactWriteItems", over).await.write_units, 4.0);
        let large = json!({"TransactItems": [put(item("c", 4097))]});
        assert_eq!(call(&aws, "TransactWriteItems", large).await.write_units, 10.0);
        // 4 KB and a byte: 2 units; half if it may be old.
        for (consistent, units) in [(true, 2.0), (false, 1.0)] {
            let get = json!({"TableName": "sunaba", "Key": key("c"), "ConsistentRead": consistent});
            let read = call(&aws, "GetItem", get).await;
            assert_eq!((read.read_units, read.write_units), (units, 0.0));
        }
        // Each item of a batch is rounded by itself, and one that is not there counts too.
        let keys = json!([key("a"), key("c"), key("nobody")]);
        let batch = json!({"RequestItems": {"sunaba": {"Keys": keys, "ConsistentRead": true}}});
        assert_eq!(call(&aws, "BatchGetItem", batch).await.read_units, 4.0);
        // A query is rounded as a whole: 1024 + 100 + 4097 bytes are 2 units.
        let query = json!({"TableName": "sunaba", "KeyConditionExpression": "PK = :pk", "ConsistentRead": true,
                           "ExpressionAttributeValues": {":pk": {"S": "p"}}});
        assert_eq!(call(&aws, "Query", query).await.read_units, 2.0);
        let delete = json!({"TableName": "sunaba", "Key": key("a")});
        assert_eq!(call(&aws, "DeleteItem", delete).await.write_units, 1.0);
    }

    #[tokio::test]
    async fn a_refused_write_is_billed_as_well() {
        let (aws, _data) = metered().await;
        let head = Sandbox::new(
            SandboxId::parse("s-1").unwrap(),
            OrgId::parse("acme").unwrap(),
            None,
            Timestamp::from_secs(0),
        );
        // A head and a listing in a transaction, and the listing's entry in each index, which a transaction does not
        // double.
        assert!(aws.store.create_sandbox(&head).await.unwrap());
        assert_eq!(only(&aws).write_units, 2.0 * 2.0 + 2.0);
        assert!(!aws.store.create_sandbox(&head).await.unwrap());
        let refused = only(&aws);
        assert_eq!((refused.status, refused.write_units), (400, 4.0));
    }

    #[tokio::test]
    async fn a_call_says_which_permissions_it_needs_and_for_what() {
        let (aws, _data) = metered().await;
        let check = json!({"ConditionCheck": {"TableName": "sunaba", "Key": key("z"),
                                              "ConditionExpression": "attribute_not_exists(PK)"}});
        let delete = json!({"Delete": {"TableName": "sunaba", "Key": key("y")}});
        let all = json!({"TransactItems": [put(item("a", 99)), put(item("b", 99)), check, delete]});
        let call = call(&aws, "TransactWriteItems", all).await;
        let needed = ["dynamodb:ConditionCheckItem", "dynamodb:DeleteItem", "dynamodb:PutItem"];
        assert_eq!((call.actions, call.resource), (needed.map(String::from).to_vec(), "table/sunaba".into()));

        aws.store.sandboxes_of(&Whose::All, None, 10).await.unwrap();
        let listed = only(&aws);
        assert_eq!((&*listed.actions[0], &*listed.resource), ("dynamodb:Query", "table/sunaba/index/ByAge"));

        let socket = ConnectionId::parse("c-1").unwrap();
        let _inbox = aws.hub.register(&socket);
        assert_eq!(aws.push.send(&socket, "{}").await, Pushed::Sent);
        let pushed = only(&aws);
        assert_eq!((&*pushed.operation, &*pushed.resource, pushed.request_bytes), (POST, "@connections", 2));
        assert_eq!(pushed.actions, ["execute-api:ManageConnections"]);
        aws.push.close(&socket).await;
        assert_eq!(only(&aws).operation, DELETE);
    }

    #[tokio::test]
    async fn a_meter_that_is_off_counts_nothing() {
        let (aws, _data) = metered().await;
        aws.meter.stop();
        aws.store.subscription_versions(&["acme"]).await.unwrap();
        assert_eq!(aws.meter.waiting(), 0);
        aws.meter.start();
        aws.store.subscription_versions(&["acme"]).await.unwrap();
        let call = only(&aws);
        assert_eq!((&*call.operation, call.read_units), ("BatchGetItem", 1.0));
        let answer = r#"{"Responses":{"sunaba":[]},"UnprocessedKeys":{}}"#;
        assert_eq!(call.response_bytes, answer.len(), "without what the meter asked for");
    }
}
