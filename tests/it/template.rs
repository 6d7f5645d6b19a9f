//! Promises about `template.yaml` and `infra/*.yaml` that follow from no single row of the registry. That the function
//! blocks match the registry is `infra/codegen`'s own test.

use domain::attempt::Stage;
use domain::pace::JOB_SECS;
use edge::registry::{self, FUNCTIONS, Function, Queue, Trigger};
use kit::template::parse;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use store::keys;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn text() -> String {
    fs::read_to_string(root().join("template.yaml")).unwrap()
}

fn template() -> Value {
    parse(&text()).unwrap()
}

/// `events-ingest` is `EventsIngestFunction`.
fn resource_name(function: &str) -> String {
    let words = function.split('-').map(|word| word[..1].to_uppercase() + &word[1..]);
    words.collect::<String>() + "Function"
}

fn resources_of<'a>(template: &'a Value, kind: &str) -> BTreeMap<&'a str, &'a Value> {
    let resources = template["Resources"].as_object().unwrap().iter();
    resources
        .filter(|(_, resource)| resource["Type"] == kind)
        .map(|(name, found)| (name.as_str(), found))
        .collect()
}

/// Every row with its resource.
fn functions(template: &Value) -> Vec<(&'static Function, &Value)> {
    let deployed = resources_of(template, "AWS::Serverless::Function");
    let resource = |function: &Function| {
        let name = resource_name(function.name);
        let found = deployed.get(name.as_str()).copied();
        found.unwrap_or_else(|| panic!("template.yaml has no {name}: run `cargo xtask gen`"))
    };
    FUNCTIONS.iter().map(|function| (function, resource(function))).collect()
}

#[test]
fn no_secret_stands_in_an_environment() {
    // Names of secrets and not their values: a value could be read by whoever may look at a function.
    assert!(!text().contains("{{resolve:"), "a secret's value is put into the template");
    for (function, resource) in functions(&template()) {
        let variables = resource["Properties"]["Environment"]["Variables"].as_object().into_iter().flatten();
        let secret = ["SECRET", "TOKEN", "KEY", "WORKER_VARIABLES"];
        for (name, value) in variables.filter(|(name, _)| secret.iter().any(|word| name.contains(word))) {
            let named = value["Ref"].as_str().is_some_and(|parameter| parameter.ends_with("Name"));
            let by_name = name.ends_with("_ID") && (value["Fn::GetAtt"][1] == "Id" || named);
            assert!(by_name, "{}: {name} is {value}", function.name);
        }
    }
}

/// Where SAM feeds a function, it lets the function read every queue or stream of the account.
#[test]
fn no_source_is_left_to_sam() {
    for (function, resource) in functions(&template()) {
        let events = resource["Properties"]["Events"].as_object().into_iter().flatten();
        for (name, event) in events {
            let kind = event["Type"].as_str().unwrap();
            assert_eq!(kind, "ScheduleV2", "{}: {name}", function.name);
        }
    }
}

#[test]
fn whatever_is_allowed_for_everything_says_why() {
    let text = text();
    let lines: Vec<&str> = text.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        let wide = line.contains("arn:") && (line.contains('*') || line.contains('?'));
        let wide = wide || line.contains("Resource: \"*\"") || line.contains("Resource: '*'");
        assert!(
            !wide || lines[index - 1].trim_start().starts_with('#'),
            "line {} of template.yaml allows more than one thing; the line before must say why: {line}",
            index + 1
        );
    }
}

/// The only source that feeds a function.
fn source<'a>(template: &'a Value, function: &Function) -> &'a Value {
    let mappings = resources_of(template, "AWS::Lambda::EventSourceMapping");
    let name = resource_name(function.name);
    let own: Vec<&Value> = mappings
        .values()
        .filter(|mapping| mapping["Properties"]["FunctionName"]["Ref"] == name.as_str())
        .copied()
        .collect();
    assert_eq!(own.len(), 1, "{name} has {} sources", own.len());
    &own[0]["Properties"]
}

#[test]
fn whatever_nobody_waits_for_has_somewhere_to_go_when_it_fails() {
    let template = template();
    let queue = |value: &Value| {
        let name =
            value["Fn::GetAtt"][0].as_str().unwrap_or_else(|| panic!("{value} is no queue")).to_owned();
        let found = &template["Resources"][&name];
        assert_eq!(found["Type"], "AWS::SQS::Queue", "{name}");
        found["Properties"].clone()
    };
    for (function, resource) in functions(&template) {
        match function.trigger {
            Trigger::TableStream(_) => {
                let stream = source(&template, function);
                let failed = queue(&stream["DestinationConfig"]["OnFailure"]["Destination"]);
                assert_eq!(failed["MessageRetentionPeriod"], 14 * 24 * 3600);
                assert!(stream["MaximumRecordAgeInSeconds"].as_i64().unwrap() > 0, "retried for a day");
                assert!(stream["MaximumRetryAttempts"].as_i64().unwrap() > 0);
            }
            Trigger::Jobs(_) => {
                let waiting = queue(&source(&template, function)["EventSourceArn"]);
                queue(&waiting["RedrivePolicy"]["deadLetterTargetArn"]);
                let hidden = waiting["VisibilityTimeout"].as_u64().unwrap();
                let least = 6 * u64::from(function.timeout_secs);
                assert!(hidden >= least, "a job of {} may come again while it is being done", function.name);
            }
            Trigger::Schedule(_) => {
                let events = resource["Properties"]["Events"].as_object().unwrap();
                for event in events.values() {
                    queue(&event["Properties"]["DeadLetterConfig"]["Arn"]);
                }
                // The scheduler does not wait for the function; what fails in it goes another way.
                let failed = &resource["Properties"]["EventInvokeConfig"];
                queue(&failed["DestinationConfig"]["OnFailure"]["Destination"]);
            }
            // The caller waits for the answer.
            Trigger::Http(_) | Trigger::SocketConnect | Trigger::SocketFrame | Trigger::SocketDisconnect => {}
        }
    }
}

/// The limits of a function.
fn row(name: &str) -> &'static Function {
    registry::find(name).unwrap_or_else(|| panic!("no function {name} in the registry"))
}

/// A provider that takes as long as it may must be done before Lambda ends the function: else it would never be.
#[test]
fn a_job_outlives_the_longest_call_to_a_provider() {
    let timeout_secs = i64::from(row("sandboxes-dispatch").timeout_secs);
    // Finding the sandbox, and sending the worker's program to it.
    let longest = i64::try_from((lambda_host::providers::DEADLINE * (1 + 5)).as_secs()).unwrap();
    assert!(longest < Stage::Uploading.most_secs(), "a stage ends before its call does");
    assert!(
        timeout_secs >= JOB_SECS + 30,
        "Lambda ends a job after {timeout_secs} s that may take {JOB_SECS} s"
    );
}

/// A worker's program goes through the function's memory, and so do those of all jobs that it does side by side.
#[test]
fn a_function_that_sends_workers_has_room_for_all_of_them() {
    // What `cargo xtask worker` makes has some 11 MB. While one comes, it is there in parts and as a whole.
    const EACH_MB: u32 = 2 * 16;
    const ITSELF_MB: u32 = 64;
    let (at_once, memory_mb) = (Queue::Work.batch_size(), row("sandboxes-dispatch").memory_mb);
    assert!(ITSELF_MB + at_once * EACH_MB < memory_mb, "{at_once} workers do not fit into {memory_mb} MB");
}

/// Until then a broadcast takes "gone" for "not there yet".
#[test]
fn a_socket_is_open_before_it_can_be_taken_for_gone() {
    assert!(i64::from(row("realtime-connect").timeout_secs) <= app::broadcast::OPENING_SECS);
}

/// Else a worker that waits for messages would hear of a failure each time that there were none.
#[test]
fn a_pull_that_waits_is_answered_before_anybody_ends_it() {
    let timeout_secs = i64::from(row("messages-pull").timeout_secs);
    let wait_secs = i64::try_from(contract::messages::MAX_WAIT_SECS).unwrap();
    let calls_secs = 5;
    assert!(timeout_secs >= wait_secs + calls_secs, "Lambda ends it after {timeout_secs} s");
    assert!(timeout_secs < 30, "API Gateway ends it after 30 s");
}

#[test]
fn pages_elsewhere_may_use_every_method_that_there_is() {
    let template = template();
    let cors = &template["Resources"]["HttpApi"]["Properties"]["CorsConfiguration"]["Fn::If"][1];
    let allowed: BTreeSet<&str> =
        cors["AllowMethods"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let used = FUNCTIONS.iter().filter_map(|function| match &function.trigger {
        Trigger::Http(route) => Some(route.method.as_str()),
        _ => None,
    });
    assert_eq!(allowed, used.collect());
}

#[test]
fn the_table_is_the_one_that_the_store_makes() {
    let template = template();
    let table = &template["Resources"]["Table"]["Properties"];
    let schema = |pk: &str, sk: &str| json!([{"AttributeName": pk, "KeyType": "HASH"}, {"AttributeName": sk, "KeyType": "RANGE"}]);
    assert_eq!(table["KeySchema"], schema(keys::PK, keys::SK));
    let indexes = table["GlobalSecondaryIndexes"].as_array().unwrap();
    assert_eq!(indexes.len(), 2);
    for (index, expected) in indexes.iter().zip([keys::BY_ORG, keys::BY_AGE]) {
        assert_eq!(index["IndexName"], expected.name);
        assert_eq!(index["KeySchema"], schema(expected.pk, expected.sk));
        assert_eq!(index["Projection"]["ProjectionType"], "KEYS_ONLY");
    }
    assert_eq!(table["TimeToLiveSpecification"], json!({"AttributeName": keys::TTL, "Enabled": true}));
    assert_eq!(table["StreamSpecification"]["StreamViewType"], "NEW_IMAGE");
    assert_eq!(table["BillingMode"], "PAY_PER_REQUEST");
    assert_eq!(table["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"], true);
    assert_eq!(template["Resources"]["Table"]["DeletionPolicy"], "RetainExceptOnCreate");
}

#[test]
fn every_queue_has_an_alarm() {
    let observability = fs::read_to_string(root().join("infra/observability.yaml")).unwrap();
    let observability = parse(&observability).unwrap();
    let alarms: Vec<String> =
        resources_of(&observability, "AWS::CloudWatch::Alarm").values().map(ToString::to_string).collect();
    let has_alarm = |name: &str| {
        let quoted = format!("\"sunaba-${{Stage}}-{name}\"");
        alarms.iter().any(|alarm| alarm.contains(&quoted))
    };
    for (resource, queue) in resources_of(&template(), "AWS::SQS::Queue") {
        let physical = queue["Properties"]["QueueName"]["Fn::Sub"].as_str().unwrap();
        let name =
            physical.strip_prefix("sunaba-${Stage}-").unwrap_or_else(|| panic!("{resource} has no stage"));
        assert!(has_alarm(name), "no alarm looks at {name}");
    }
}

/// Three files name the stage of the WebSocket API.
#[test]
fn the_stage_of_the_sockets_is_the_same_everywhere() {
    let stage =
        template()["Resources"]["SocketStage"]["Properties"]["StageName"].as_str().unwrap().to_owned();
    let file = |name: &str| fs::read_to_string(root().join(name)).unwrap();
    assert!(file("infra/console.yaml").contains(&format!("const STAGE = '/{stage}';")));
    assert!(file("infra/observability.yaml").contains(&format!("Value: {stage} }}")));
}

/// A page may do the same wherever it comes from.
#[test]
fn the_consoles_pages_are_told_the_same_as_here() {
    let console = parse(&fs::read_to_string(root().join("infra/console.yaml")).unwrap()).unwrap();
    let headers = &console["Resources"]["PageHeaders"]["Properties"]["ResponseHeadersPolicyConfig"];
    let security = &headers["SecurityHeadersConfig"];
    let policy = security["ContentSecurityPolicy"]["ContentSecurityPolicy"]["Fn::Sub"][0].as_str().unwrap();
    // The sockets of a domain that is known beforehand.
    assert_eq!(policy.replace("${Sockets}", ""), local::hosts::pages::POLICY);
    assert_eq!(security["ReferrerPolicy"]["ReferrerPolicy"], "no-referrer");
    assert!(security["ContentTypeOptions"].is_object(), "nosniff");
}
