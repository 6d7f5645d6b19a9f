//! Records the cost and the required permissions of AWS calls. Off, at no cost, unless a test starts it.
//!
//! The engine reports the consumed capacity by DynamoDB's rules: its authors compared it with real tables, and a manual
//! calculation below agrees. Only for a rejected write, for which the engine reports nothing, the units are computed here.
//!
//! Deliberately absent: costs without a call, such as reading the table's stream, API Gateway and Lambda. `infra/cost` adds
//! those.

use super::connector::Reply;
use super::sqs::queue_name;
use dynoxide::actions::transact_write_items::TransactWriteItemsRequest;
use dynoxide::types::{Item, TRANSACTIONAL_CAPACITY_FACTOR, item_size, table_write_capacity_units};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// A call that was executed. Calls with an injected fault are not recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// `TransactWriteItems`, `PostToConnection`.
    pub operation: String,
    /// `table/sunaba`, `table/sunaba/index/ByAge`, `queue/socket-jobs`, `@connections`.
    pub resource: String,
    /// IAM actions: `dynamodb:PutItem`, `execute-api:ManageConnections`. A transaction needs those of its parts and none of its
    /// own.
    pub actions: Vec<String>,
    pub status: u16,
    /// Write request units: one per KB of an item, doubled in a transaction.
    pub write_units: f64,
    /// Read request units: one per 4 KB of a consistent read.
    pub read_units: f64,
    pub request_bytes: usize,
    /// Without the fields that the meter requests.
    pub response_bytes: usize,
}

/// Records calls while it is on.
#[derive(Debug, Clone, Default)]
pub struct Meter(Arc<Counter>);

#[derive(Debug, Default)]
struct Counter {
    on: AtomicBool,
    calls: Mutex<Vec<Call>>,
}

impl Meter {
    /// Clears the record and starts.
    pub fn start(&self) {
        self.take();
        self.0.on.store(true, Ordering::Relaxed);
    }

    /// Stops. The recorded calls can still be taken.
    pub fn stop(&self) {
        self.0.on.store(false, Ordering::Relaxed);
    }

    /// Removes and returns the recorded calls, in the order of their replies.
    pub fn take(&self) -> Vec<Call> {
        std::mem::take(&mut self.0.calls.lock().expect("no code panics while it holds the calls"))
    }

    /// Number of recorded calls.
    pub fn recorded(&self) -> usize {
        self.0.calls.lock().expect("no code panics while it holds the calls").len()
    }

    /// Called before a call is executed; `None` while the meter is off.
    pub(super) fn begin(&self, service: &str, operation: &str, body: &[u8]) -> Option<MeteredCall> {
        let on = self.0.on.load(Ordering::Relaxed);
        on.then(|| MeteredCall::new(service, operation, body))
    }

    pub(super) fn record(&self, metered: MeteredCall, reply: &Reply) {
        let call = metered.finish(reply);
        self.0.calls.lock().expect("no code panics while it holds the calls").push(call);
    }
}

/// A call in progress.
pub(super) struct MeteredCall {
    service: String,
    operation: String,
    request: Value,
    request_bytes: usize,
    body: Vec<u8>,
}

impl MeteredCall {
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

    /// The request, extended by `ReturnConsumedCapacity`.
    pub(super) fn body(&self) -> &[u8] {
        &self.body
    }

    fn finish(self, reply: &Reply) -> Call {
        let mut response: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        let consumed = response.as_object_mut().and_then(|response| response.remove("ConsumedCapacity"));
        let units = match reply.status {
            200 => consumed.as_ref().map_or(0.0, units),
            _ => rejected_units(&self.operation, &self.body, &response),
        };
        let writes = WRITES.contains(&self.operation.as_str());
        Call {
            resource: resource(&self.service, &self.request),
            actions: actions(&self.service, &self.operation, &self.request),
            status: reply.status,
            write_units: if writes { units } else { 0.0 },
            read_units: if writes { 0.0 } else { units },
            request_bytes: self.request_bytes,
            response_bytes: consumed.map_or(reply.body.len(), |_| response.to_string().len()),
            operation: self.operation,
        }
    }
}

/// The management API has no operation header.
pub(super) const POST: &str = "PostToConnection";
pub(super) const DELETE: &str = "DeleteConnection";

const UNIT_OPERATIONS: [&str; 7] =
    ["GetItem", "BatchGetItem", "Query", "PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems"];
const WRITES: [&str; 4] = ["PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems"];

/// Accepts the capacity of one table, or a list with one entry per table.
fn units(consumed: &Value) -> f64 {
    let of_table = |table: &Value| table["CapacityUnits"].as_f64().unwrap_or(0.0);
    consumed.as_array().map_or_else(|| of_table(consumed), |tables| tables.iter().map(of_table).sum())
}

/// DynamoDB bills a write whose condition fails
/// (<https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/WorkingWithItems.html>). It does not
/// document how much of a cancelled transaction it bills; this counts all of it, so that no estimate is too low.
fn rejected_units(operation: &str, body: &[u8], response: &Value) -> f64 {
    let kind = response["__type"].as_str().unwrap_or_default();
    if kind.ends_with("ConditionalCheckFailedException") {
        return table_write_capacity_units(None, None);
    }
    if operation != "TransactWriteItems" || !kind.ends_with("TransactionCanceledException") {
        return 0.0;
    }
    let Ok(request) = serde_json::from_slice::<TransactWriteItemsRequest>(body) else { return 0.0 };
    let parts = request.transact_items.iter().enumerate().map(|(index, part)| {
        let found = response["CancellationReasons"][index].get("Item").cloned();
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
        "AmazonSQS" => {
            let mut actions = vec![format!("sqs:{operation}")];
            if request["tags"].is_object() {
                actions.push("sqs:TagQueue".into());
            }
            return actions;
        }
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
    use store::page::ListScope;
    use store::push::Pushed;
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

    async fn call(aws: &Aws, operation: &str, request: Value) -> Call {
        let body = request.to_string().into_bytes();
        let metered = aws.meter.begin("DynamoDB_20120810", operation, &body).unwrap();
        let reply = aws.dynamodb.call(operation, metered.body()).await;
        aws.meter.record(metered, &reply);
        only(aws)
    }

    /// An item of exactly this size, which includes attribute names.
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
    async fn units_match_a_manual_calculation() {
        let (aws, _data) = metered().await;
        // Two items, 1 KB and a byte more: 1 + 2 units, twice because of the transaction.
        let two = json!({"TransactItems": [put(item("a", 1024)), put(item("b", 1025))]});
        let written = call(&aws, "TransactWriteItems", two).await;
        assert_eq!((written.write_units, written.read_units), (6.0, 0.0));
        // A smaller item replaces a larger one: the larger counts.
        let over = json!({"TransactItems": [put(item("b", 100))]});
        assert_eq!(call(&aws, "TransactWriteItems", over).await.write_units, 4.0);
        let large = json!({"TransactItems": [put(item("c", 4097))]});
        assert_eq!(call(&aws, "TransactWriteItems", large).await.write_units, 10.0);
        // 4 KB and a byte: 2 units; half for an eventually consistent read.
        for (consistent, units) in [(true, 2.0), (false, 1.0)] {
            let get = json!({"TableName": "sunaba", "Key": key("c"), "ConsistentRead": consistent});
            let read = call(&aws, "GetItem", get).await;
            assert_eq!((read.read_units, read.write_units), (units, 0.0));
        }
        // Each item of a batch is rounded separately, and a missing item counts too.
        let keys = json!([key("a"), key("c"), key("missing")]);
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
    async fn rejected_write_is_billed() {
        let (aws, _data) = metered().await;
        let sandbox = Sandbox::new(
            SandboxId::parse("s-1").unwrap(),
            OrgId::parse("acme").unwrap(),
            None,
            Timestamp::from_secs(0),
        );
        // A sandbox and its listing in a transaction, and the listing's entry in each of two indexes, which a transaction does
        // not double.
        assert!(aws.store.create_sandbox(&sandbox).await.unwrap());
        assert_eq!(only(&aws).write_units, 2.0 * 2.0 + 2.0);
        assert!(!aws.store.create_sandbox(&sandbox).await.unwrap());
        let rejected = only(&aws);
        assert_eq!((rejected.status, rejected.write_units), (400, 4.0));
    }

    #[tokio::test]
    async fn call_records_its_actions_and_resource() {
        let (aws, _data) = metered().await;
        let check = json!({"ConditionCheck": {"TableName": "sunaba", "Key": key("z"),
                                              "ConditionExpression": "attribute_not_exists(PK)"}});
        let delete = json!({"Delete": {"TableName": "sunaba", "Key": key("y")}});
        let all = json!({"TransactItems": [put(item("a", 99)), put(item("b", 99)), check, delete]});
        let call = call(&aws, "TransactWriteItems", all).await;
        let needed = ["dynamodb:ConditionCheckItem", "dynamodb:DeleteItem", "dynamodb:PutItem"];
        assert_eq!((call.actions, call.resource), (needed.map(String::from).to_vec(), "table/sunaba".into()));

        aws.store.sandboxes_of(&ListScope::All, None, 10).await.unwrap();
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
    async fn stopped_meter_records_nothing() {
        let (aws, _data) = metered().await;
        aws.meter.stop();
        aws.store.subscription_versions(&["acme"]).await.unwrap();
        assert_eq!(aws.meter.recorded(), 0);
        aws.meter.start();
        aws.store.subscription_versions(&["acme"]).await.unwrap();
        let call = only(&aws);
        assert_eq!((&*call.operation, call.read_units), ("BatchGetItem", 1.0));
        let response = r#"{"Responses":{"sunaba":[]},"UnprocessedKeys":{}}"#;
        assert_eq!(call.response_bytes, response.len(), "excludes the fields that the meter requests");
    }
}
