//! Rules for `template.yaml` and `infra/*.yaml` that concern more than one row of the registry. `infra/codegen` tests
//! that the function blocks match the registry.

use domain::attempt::Stage;
use domain::timeouts::JOB_SECS;
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

/// For `events-ingest` it is `EventsIngestFunction`.
fn resource_name(function: &str) -> String {
    let words = function.split('-').map(|word| word[..1].to_uppercase() + &word[1..]);
    words.collect::<String>() + "Function"
}

fn resources_of<'a>(template: &'a Value, kind: &str) -> BTreeMap<&'a str, &'a Value> {
    let resources = template["Resources"].as_object().unwrap().iter();
    resources
        .filter(|(_, resource)| resource["Type"] == kind)
        .map(|(name, resource)| (name.as_str(), resource))
        .collect()
}

/// Every registry row with its resource.
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
fn no_secret_value_is_in_a_function_environment() {
    // Names of secrets only: everyone who may view a function can read its environment.
    assert!(!text().contains("{{resolve:"), "the template contains a secret value");
    for (function, resource) in functions(&template()) {
        let variables = resource["Properties"]["Environment"]["Variables"].as_object().into_iter().flatten();
        let secret = ["SECRET", "TOKEN", "KEY", "OPERATORS", "WORKER_VARIABLES"];
        let is_secret =
            |name: &str| secret.iter().any(|word| name.contains(word)) && !name.contains("PUBLIC_KEY");
        for (name, value) in variables.filter(|(name, _)| is_secret(name)) {
            let named = value["Ref"].as_str().is_some_and(|parameter| parameter.ends_with("Name"));
            let by_name = name.ends_with("_ID") && (value["Fn::GetAtt"][1] == "Id" || named);
            assert!(by_name, "{}: {name} is {value}", function.name);
        }
    }
}

/// For its own event sources SAM grants access to every queue or stream of the account.
#[test]
fn event_sources_are_declared_without_sam_policies() {
    for (function, resource) in functions(&template()) {
        let events = resource["Properties"]["Events"].as_object().into_iter().flatten();
        for (name, event) in events {
            let kind = event["Type"].as_str().unwrap();
            assert_eq!(kind, "ScheduleV2", "{}: {name}", function.name);
        }
    }
}

#[test]
fn wildcard_permissions_carry_a_justification() {
    let text = text();
    let lines: Vec<&str> = text.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        let wide = line.contains("arn:") && (line.contains('*') || line.contains('?'));
        let wide = wide || line.contains("Resource: \"*\"") || line.contains("Resource: '*'");
        assert!(
            !wide || lines[index - 1].trim_start().starts_with('#'),
            "line {} of template.yaml has a wildcard; the line before must say why: {line}",
            index + 1
        );
    }
}

/// The single event source of a function.
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
fn asynchronous_triggers_have_a_failure_destination() {
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
                let jobs = queue(&source(&template, function)["EventSourceArn"]);
                queue(&jobs["RedrivePolicy"]["deadLetterTargetArn"]);
                let visibility_secs = jobs["VisibilityTimeout"].as_u64().unwrap();
                let min_secs = 6 * u64::from(function.timeout_secs);
                assert!(
                    visibility_secs >= min_secs,
                    "a job of {} may be redelivered while it runs",
                    function.name
                );
            }
            Trigger::Schedule(_) => {
                let events = resource["Properties"]["Events"].as_object().unwrap();
                for event in events.values() {
                    queue(&event["Properties"]["DeadLetterConfig"]["Arn"]);
                }
                // The scheduler invokes asynchronously, so failed runs need their own destination.
                let failed = &resource["Properties"]["EventInvokeConfig"];
                queue(&failed["DestinationConfig"]["OnFailure"]["Destination"]);
            }
            // Synchronous: the caller receives the error.
            Trigger::Http(_) | Trigger::SocketConnect | Trigger::SocketFrame | Trigger::SocketDisconnect => {}
        }
    }
}

fn row(name: &str) -> &'static Function {
    registry::find(name).unwrap_or_else(|| panic!("no function {name} in the registry"))
}

/// The slowest allowed provider call must return before Lambda ends the function, or it would be repeated forever.
#[test]
fn job_timeout_exceeds_the_longest_provider_call() {
    let timeout_secs = i64::from(row("sandboxes-dispatch").timeout_secs);
    // Finds the sandbox, then uploads the worker binary to it.
    let longest = i64::try_from((lambda_host::providers::DEADLINE * (1 + 5)).as_secs()).unwrap();
    assert!(longest < Stage::Uploading.timeout_secs(), "the stage times out before its call does");
    assert!(
        timeout_secs >= JOB_SECS + 30,
        "Lambda stops a job after {timeout_secs} s, but it may take {JOB_SECS} s"
    );
}

/// Each concurrent job holds a worker binary in memory while it uploads it.
#[test]
fn dispatch_memory_fits_concurrent_worker_uploads() {
    // The binary from `cargo xtask worker` has about 11 MB, and is in memory twice while it downloads.
    const UPLOAD_MB: u32 = 2 * 16;
    const BASELINE_MB: u32 = 64;
    let (concurrency, memory_mb) =
        (Queue::OrchestrationJobs.batch_size(), row("sandboxes-dispatch").memory_mb);
    assert!(
        BASELINE_MB + concurrency * UPLOAD_MB < memory_mb,
        "{concurrency} uploads do not fit into {memory_mb} MB"
    );
}

/// Within the grace period a broadcast treats a missing connection as not open yet.
#[test]
fn handshake_grace_covers_the_connect_timeout() {
    assert!(i64::from(row("sockets-connect").timeout_secs) <= app::events::broadcast::HANDSHAKE_GRACE_SECS);
}

/// Otherwise every long poll without messages would end in an error.
#[test]
fn long_poll_finishes_before_the_function_timeout() {
    let timeout_secs = i64::from(row("messages-pull").timeout_secs);
    let wait_secs = i64::try_from(contract::messages::MAX_WAIT_SECS).unwrap();
    let calls_secs = 5;
    assert!(timeout_secs >= wait_secs + calls_secs, "Lambda stops it after {timeout_secs} s");
    assert!(timeout_secs < 30, "API Gateway stops it after 30 s");
}

/// The plane authenticates in its functions, not in an authorizer, so the logs of the functions name the principal.
#[test]
fn access_logs_have_the_source_ip_and_no_query() {
    let template = template();
    let resources = &template["Resources"];
    let socket = ("SocketStage", "connection_id", "$context.connectionId");
    for (stage, name, value) in [("HttpApi", "path", "$context.path"), socket] {
        let settings = &resources[stage]["Properties"]["AccessLogSettings"];
        let format = settings["Format"].as_str().unwrap();
        let line: Value =
            serde_json::from_str(format).unwrap_or_else(|why| panic!("{stage}: {why}: {format}"));
        let expected = [
            ("ip", "$context.identity.sourceIp"),
            ("request_id", "$context.requestId"),
            ("status", "$context.status"),
            (name, value),
        ];
        for (field, variable) in expected {
            assert_eq!(line[field], variable, "{stage}");
        }
        let secret = ["query", "header", "authorizer"].iter().find(|word| format.contains(*word));
        assert_eq!(secret, None, "{stage}: tokens are in queries and headers");
    }
}

#[test]
fn cors_allows_every_method_in_use() {
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
fn table_definition_matches_the_store() {
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
    let table = &template["Resources"]["Table"];
    assert_eq!(
        (&table["DeletionPolicy"], &table["UpdateReplacePolicy"]),
        (&json!("Retain"), &json!("Retain"))
    );
    assert_eq!(table["Properties"]["DeletionProtectionEnabled"], true);
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
        assert!(has_alarm(name), "{name} has no alarm");
    }
}

#[test]
fn budget_notifies_the_topic_of_alarms_and_is_off_by_default() {
    let observability = fs::read_to_string(root().join("infra/observability.yaml")).unwrap();
    let observability = parse(&observability).unwrap();
    assert_eq!(observability["Parameters"]["MonthlyBudget"]["Default"], 0);
    let budgets = resources_of(&observability, "AWS::Budgets::Budget");
    let [budget] = budgets.values().copied().collect::<Vec<_>>()[..] else { panic!("{budgets:?}") };
    assert_eq!(budget["Condition"], "HasMonthlyBudget");
    assert_eq!(budget["Properties"]["Budget"]["BudgetLimit"]["Amount"]["Ref"], "MonthlyBudget");
    for notified in budget["Properties"]["NotificationsWithSubscribers"].as_array().unwrap() {
        assert_eq!(notified["Subscribers"][0]["Address"]["Ref"], "AlarmTopic", "{notified}");
    }
    let policy = &observability["Resources"]["AlarmTopicPolicy"]["Properties"]["PolicyDocument"]["Statement"];
    let mut publishers =
        policy.as_array().unwrap().iter().map(|statement| &statement["Principal"]["Service"]);
    assert!(publishers.any(|service| service == "budgets.amazonaws.com"), "{policy}");
}

/// Three files contain the stage name of the WebSocket API.
#[test]
fn websocket_stage_name_is_consistent() {
    let stage =
        template()["Resources"]["SocketStage"]["Properties"]["StageName"].as_str().unwrap().to_owned();
    let file = |name: &str| fs::read_to_string(root().join(name)).unwrap();
    assert!(file("infra/console.yaml").contains(&format!("const STAGE = '/{stage}';")));
    assert!(file("infra/observability.yaml").contains(&format!("Value: {stage} }}")));
}

#[test]
fn console_security_headers_match_the_local_host() {
    let console = parse(&fs::read_to_string(root().join("infra/console.yaml")).unwrap()).unwrap();
    let headers = &console["Resources"]["PageHeaders"]["Properties"]["ResponseHeadersPolicyConfig"];
    let security = &headers["SecurityHeadersConfig"];
    let policy = security["ContentSecurityPolicy"]["ContentSecurityPolicy"]["Fn::Sub"][0].as_str().unwrap();
    // The placeholder for the WebSocket domain, and the previews of local sandboxes.
    let local = policy.replace("${Sockets}", "").replace("frame-src ", "frame-src http://127.0.0.1:* ");
    assert_eq!(local, local::hosts::pages::POLICY);
    assert_eq!(security["ReferrerPolicy"]["ReferrerPolicy"], "no-referrer");
    assert!(security["ContentTypeOptions"].is_object(), "nosniff");
}
