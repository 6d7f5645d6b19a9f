//! `template.yaml` against the registry and the code: every row has its function with the right trigger, environment
//! and permissions, and nothing has more.

use domain::attempt::Stage;
use domain::pace::JOB_SECS;
use edge::registry::{FUNCTIONS, Function, Need, Queue, Records, Trigger, function, spellings};
use kit::template::parse;
use lambda_host::config::{EVERYWHERE, variables};
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

/// Every row with its resource; fails if there is one without the other.
fn functions(template: &Value) -> Vec<(&'static Function, &Value)> {
    let deployed = resources_of(template, "AWS::Serverless::Function");
    let expected: BTreeSet<String> = FUNCTIONS.iter().map(|function| resource_name(function.name)).collect();
    let found: BTreeSet<String> = deployed.keys().map(|name| (*name).to_owned()).collect();
    assert_eq!(found, expected, "template.yaml and the registry have different functions");
    FUNCTIONS.iter().map(|function| (function, deployed[resource_name(function.name).as_str()])).collect()
}

#[test]
fn every_function_is_built_from_its_own_binary_and_logs_where_it_is_kept() {
    let template = template();
    let groups = resources_of(&template, "AWS::Logs::LogGroup");
    for (function, resource) in functions(&template) {
        let name = function.name;
        assert_eq!(resource["Metadata"]["BuildProperties"]["Binary"], name);
        assert_eq!(resource["Metadata"]["BuildMethod"], "rust-cargolambda");
        let physical = json!({"Fn::Sub": format!("sunaba-${{Stage}}-{name}")});
        assert_eq!(resource["Properties"]["FunctionName"], physical);
        let group = resource["Properties"]["LoggingConfig"]["LogGroup"]["Ref"].as_str().unwrap();
        let group = &groups[group]["Properties"];
        assert_eq!(
            group["LogGroupName"],
            json!({"Fn::Sub": format!("/aws/lambda/sunaba-${{Stage}}-{name}")})
        );
        assert!(!group["RetentionInDays"].is_null(), "{name} logs for ever");
    }
    for (name, group) in groups {
        assert!(!group["Properties"]["RetentionInDays"].is_null(), "{name} is kept for ever");
    }
}

#[test]
fn every_function_has_the_environment_that_it_asks_for_and_no_more() {
    let template = template();
    let everywhere = &template["Globals"]["Function"]["Environment"]["Variables"];
    for (function, resource) in functions(&template) {
        let own = &resource["Properties"]["Environment"]["Variables"];
        let set = [everywhere, own].into_iter().filter_map(Value::as_object).flat_map(|set| set.keys());
        let set: BTreeSet<&str> = set.map(String::as_str).collect();
        let needed = function.needs.iter().flat_map(|need| variables(*need));
        let asked: BTreeSet<&str> = needed.chain(&EVERYWHERE).copied().collect();
        assert_eq!(set, asked, "{}", function.name);
    }
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

/// How names of things in this account and region start.
const ACCOUNT: &str = "arn:${AWS::Partition}:SERVICE:${AWS::Region}:${AWS::AccountId}:";

/// A secret that somebody else has made, where a parameter names one.
fn secret_of(condition: &str, parameter: &str) -> Value {
    let name = format!("{ACCOUNT}secret:${{{parameter}}}-??????").replace("SERVICE", "secretsmanager");
    json!({"Fn::If": [condition, {"Fn::Sub": name}, {"Ref": "AWS::NoValue"}]})
}

/// What a statement is about, as a need says it.
fn permission(action: &str, resource: &Value) -> Need {
    let table = json!({"Fn::GetAtt": ["Table", "Arn"]});
    let indexes = json!([{"Fn::Sub": "${Table.Arn}/index/ByOrg"}, {"Fn::Sub": "${Table.Arn}/index/ByAge"}]);
    let keys = json!([
        {"Fn::GetAtt": ["WorkerSecret", "Id"]},
        {"Fn::GetAtt": ["OperatorToken", "Id"]},
        secret_of("HasJwtSecret", "JwtSecretName"),
    ]);
    let of_providers = json!([
        secret_of("HasDaytonaKey", "DaytonaKeyName"),
        secret_of("HasWorkerVariables", "WorkerVariablesName"),
    ]);
    let sockets = format!("{ACCOUNT}${{SocketApi}}/${{SocketStage}}/*/@connections/*")
        .replace("SERVICE", "execute-api");
    let sockets = json!({"Fn::Sub": sockets});
    let mailboxes =
        json!({"Fn::Sub": format!("{ACCOUNT}sunaba-${{Stage}}-mail-*").replace("SERVICE", "sqs")});
    match action {
        "dynamodb:GetItem" if *resource == table => Need::GetItem,
        "dynamodb:BatchGetItem" if *resource == table => Need::BatchGetItem,
        "dynamodb:Query" if *resource == table => Need::Query,
        "dynamodb:Query" if *resource == indexes => Need::QueryIndexes,
        "dynamodb:PutItem" if *resource == table => Need::PutItem,
        "dynamodb:UpdateItem" if *resource == table => Need::UpdateItem,
        "dynamodb:DeleteItem" if *resource == table => Need::DeleteItem,
        "secretsmanager:GetSecretValue" if *resource == keys => Need::Keys,
        "secretsmanager:GetSecretValue" if *resource == of_providers => Need::Providers,
        "execute-api:ManageConnections" if *resource == sockets => Need::Sockets,
        "sqs:SendMessage" if *resource == json!({"Fn::GetAtt": ["JobsQueue", "Arn"]}) => Need::Jobs,
        "sqs:SendMessage" if *resource == json!({"Fn::GetAtt": ["WorkQueue", "Arn"]}) => Need::Work,
        "sqs:SendMessage" if *resource == mailboxes => Need::RingMailboxes,
        "sqs:ReceiveMessage" if *resource == mailboxes => Need::WaitAtMailboxes,
        "sqs:CreateQueue" if *resource == mailboxes => Need::MakeMailboxes,
        "sqs:DeleteQueue" if *resource == mailboxes => Need::RemoveMailboxes,
        "events:PutEvents" if *resource == json!({"Fn::GetAtt": ["Bus", "Arn"]}) => Need::Bus,
        _ => panic!("nobody needs {action} on {resource}"),
    }
}

/// Whether a statement only lets Lambda feed the function from its source: the function itself makes no such call.
fn feeds(function: &Function, statement: &Value) -> bool {
    let of = |resource: &str, attribute: &str| json!({"Fn::GetAtt": [resource, attribute]});
    let from_stream = statement["Resource"] == of("Table", "StreamArn")
        && statement["Action"]
            == json!([
                "dynamodb:DescribeStream",
                "dynamodb:GetRecords",
                "dynamodb:GetShardIterator",
                "dynamodb:ListStreams"
            ]);
    let to_failed =
        |queue: &str| statement["Action"] == "sqs:SendMessage" && statement["Resource"] == of(queue, "Arn");
    match function.trigger {
        Trigger::TableStream(Records::News) => from_stream || to_failed("BroadcastFailedQueue"),
        Trigger::TableStream(Records::Turns) => from_stream || to_failed("PublishFailedQueue"),
        Trigger::Jobs(queue) => {
            statement["Resource"] == of(queue_name(queue), "Arn")
                && statement["Action"]
                    == json!(["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"])
        }
        _ => false,
    }
}

fn queue_name(queue: Queue) -> &'static str {
    match queue {
        Queue::Sockets => "JobsQueue",
        Queue::Work => "WorkQueue",
    }
}

/// Where SAM feeds a function, it lets the function read every queue or stream of the account.
#[test]
fn no_source_is_left_to_sam() {
    for (function, resource) in functions(&template()) {
        let events = resource["Properties"]["Events"].as_object().into_iter().flatten();
        for (name, event) in events {
            let kind = event["Type"].as_str().unwrap();
            assert!(["HttpApi", "ScheduleV2"].contains(&kind), "{}: {name} is a {kind}", function.name);
        }
    }
}

#[test]
fn every_function_may_do_what_its_row_says_and_no_more() {
    for (function, resource) in functions(&template()) {
        let statements = resource["Properties"]["Policies"].as_array().into_iter().flatten();
        let statements = statements.flat_map(|policy| {
            let inline = policy["Statement"].as_array();
            inline.unwrap_or_else(|| panic!("{}: {policy} is not written out", function.name))
        });
        let mut allowed = BTreeSet::new();
        let statements = statements.map(|statement| match &statement["Fn::If"][2]["Ref"] {
            nothing if nothing == "AWS::NoValue" => &statement["Fn::If"][1],
            _ => statement,
        });
        for statement in statements.filter(|statement| !feeds(function, statement)) {
            assert_eq!(statement["Effect"], "Allow");
            let actions = match &statement["Action"] {
                Value::Array(actions) => actions.clone(),
                action => vec![action.clone()],
            };
            for action in actions {
                allowed.insert(permission(action.as_str().unwrap(), &statement["Resource"]));
            }
        }
        let needed = function.needs.iter().copied().filter(|need| *need != Need::Thresholds);
        let needed: BTreeSet<Need> = needed.collect();
        assert_eq!(allowed, needed, "{}", function.name);
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

#[test]
fn every_route_leads_to_its_function_and_so_does_its_alias() {
    for (function, resource) in functions(&template()) {
        let events =
            resource["Properties"]["Events"].as_object().into_iter().flatten().map(|(_, event)| event);
        let mut deployed: Vec<(String, String)> = events
            .filter(|event| event["Type"] == "HttpApi")
            .map(|event| {
                assert_eq!(event["Properties"]["ApiId"], json!({"Ref": "HttpApi"}), "{}", function.name);
                let text = |name: &str| event["Properties"][name].as_str().unwrap().to_owned();
                (text("Method"), text("Path"))
            })
            .collect();
        let mut expected: Vec<(String, String)> = match &function.trigger {
            Trigger::Http(route) => {
                spellings(route.path).into_iter().map(|path| (route.method.to_string(), path)).collect()
            }
            _ => Vec::new(),
        };
        deployed.sort();
        expected.sort();
        assert_eq!(deployed, expected, "{}", function.name);
    }
}

#[test]
fn every_socket_route_leads_to_its_function() {
    let template = template();
    let routes = resources_of(&template, "AWS::ApiGatewayV2::Route");
    let (integrations, permissions) = (
        resources_of(&template, "AWS::ApiGatewayV2::Integration"),
        resources_of(&template, "AWS::Lambda::Permission"),
    );
    let mut expected = 0;
    for function in FUNCTIONS {
        let key = match function.trigger {
            Trigger::SocketConnect => "$connect",
            Trigger::SocketFrame => "$default",
            Trigger::SocketDisconnect => "$disconnect",
            _ => continue,
        };
        expected += 1;
        let route = routes.values().find(|route| route["Properties"]["RouteKey"] == key);
        let target = route.unwrap_or_else(|| panic!("no route {key}"))["Properties"]["Target"]["Fn::Sub"]
            .as_str()
            .unwrap();
        let integration = target.trim_start_matches("integrations/${").trim_end_matches('}');
        let (uri, name) = (integrations[integration].to_string(), resource_name(function.name));
        assert!(uri.contains(&format!("${{{name}.Arn}}")), "{key} leads to {uri}");
        let allowed = permissions.values().any(|permission| {
            let source = permission["Properties"]["SourceArn"].to_string();
            permission["Properties"]["FunctionName"]["Ref"] == name.as_str() && source.contains(key)
        });
        assert!(allowed, "API Gateway may not call {name}");
    }
    assert_eq!(routes.len(), expected, "there are routes for sockets that no function serves");
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
    let mut sources = 0;
    for (function, resource) in functions(&template) {
        match function.trigger {
            Trigger::TableStream(records) => {
                sources += 1;
                let stream = source(&template, function);
                assert_eq!(stream["EventSourceArn"], json!({"Fn::GetAtt": ["Table", "StreamArn"]}));
                let failed = queue(&stream["DestinationConfig"]["OnFailure"]["Destination"]);
                assert_eq!(failed["MessageRetentionPeriod"], 14 * 24 * 3600);
                assert_eq!(stream["FunctionResponseTypes"], json!(["ReportBatchItemFailures"]));
                assert_eq!(stream["BisectBatchOnFunctionError"], true);
                assert_eq!(stream["StartingPosition"], "TRIM_HORIZON", "records may be missed");
                assert_eq!(
                    stream["ParallelizationFactor"], 1,
                    "events of one sandbox may overtake each other"
                );
                assert!(stream["MaximumRecordAgeInSeconds"].as_i64().unwrap() > 0, "retried for a day");
                assert!(stream["MaximumRetryAttempts"].as_i64().unwrap() > 0);
                let pattern = stream["FilterCriteria"]["Filters"][0]["Pattern"].as_str().unwrap();
                let expected = match records {
                    Records::News => keys::news_pattern(),
                    Records::Turns => keys::lifecycle_pattern(),
                };
                assert_eq!(serde_json::from_str::<Value>(pattern).unwrap(), expected, "{}", function.name);
            }
            Trigger::Jobs(by) => {
                sources += 1;
                let jobs = source(&template, function);
                assert_eq!(jobs["EventSourceArn"]["Fn::GetAtt"][0], queue_name(by));
                assert_eq!(jobs["FunctionResponseTypes"], json!(["ReportBatchItemFailures"]));
                let waiting = queue(&jobs["EventSourceArn"]);
                queue(&waiting["RedrivePolicy"]["deadLetterTargetArn"]);
                let timeout = timeout_of(&template, resource);
                let hidden = waiting["VisibilityTimeout"].as_i64().unwrap();
                assert!(hidden >= 6 * timeout, "a job may come again while it is being done");
            }
            Trigger::Schedule(schedule) => {
                let events = resource["Properties"]["Events"].as_object().unwrap();
                assert_eq!(events.len(), 1, "{events:?}");
                let due = &events.values().next().unwrap()["Properties"];
                let unit = if schedule.every_minutes == 1 { "minute" } else { "minutes" };
                assert_eq!(due["ScheduleExpression"], format!("rate({} {unit})", schedule.every_minutes));
                assert_eq!(due["Name"], json!({"Fn::Sub": format!("sunaba-${{Stage}}-{}", function.name)}));
                queue(&due["DeadLetterConfig"]["Arn"]);
                // The scheduler does not wait for the function; what fails in it goes another way.
                let failed = &resource["Properties"]["EventInvokeConfig"];
                queue(&failed["DestinationConfig"]["OnFailure"]["Destination"]);
                assert!(failed["MaximumRetryAttempts"].is_i64());
            }
            _ => {}
        }
    }
    let mappings = resources_of(&template, "AWS::Lambda::EventSourceMapping");
    assert_eq!(mappings.len(), sources, "there are sources that feed nobody in the registry");
}

fn timeout_of(template: &Value, resource: &Value) -> i64 {
    let own = resource["Properties"]["Timeout"].as_i64();
    own.unwrap_or_else(|| template["Globals"]["Function"]["Timeout"].as_i64().unwrap())
}

/// A provider that takes as long as it may must be done before Lambda ends the function: else it would never be.
#[test]
fn a_job_outlives_the_longest_call_to_a_provider() {
    let template = template();
    let timeout_secs = timeout_of(&template, &template["Resources"][resource_name("sandboxes-dispatch")]);
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
    const EACH_MB: i64 = 2 * 16;
    const ITSELF_MB: i64 = 64;
    let template = template();
    let at_once =
        template["Resources"]["SandboxesDispatchSource"]["Properties"]["BatchSize"].as_i64().unwrap();
    let function = &template["Resources"][resource_name("sandboxes-dispatch")];
    let memory_mb = function["Properties"]["MemorySize"].as_i64().unwrap();
    assert!(ITSELF_MB + at_once * EACH_MB < memory_mb, "{at_once} workers do not fit into {memory_mb} MB");
}

/// CloudFormation takes 500 resources a stack. SAM makes several of one: a function gets a role, an event of an API a
/// permission, a schedule a role of its own.
#[test]
fn the_stack_has_room_for_more() {
    let template = template();
    let mut count = 0;
    for resource in template["Resources"].as_object().unwrap().values() {
        count += match resource["Type"].as_str().unwrap() {
            "AWS::Serverless::Function" => {
                let events = resource["Properties"]["Events"].as_object().into_iter().flatten();
                let of_events = events.map(|(_, event)| if event["Type"] == "ScheduleV2" { 2 } else { 1 });
                let invoked = usize::from(!resource["Properties"]["EventInvokeConfig"].is_null());
                2 + invoked + of_events.sum::<usize>()
            }
            // With its stage.
            "AWS::Serverless::HttpApi" => 2,
            _ => 1,
        };
    }
    assert!(count <= 400, "{count} resources of 500: part the stack before there is no room to do so");
}

/// Until then a broadcast takes "gone" for "not there yet".
#[test]
fn a_socket_is_open_before_it_can_be_taken_for_gone() {
    let template = template();
    let connect = &template["Resources"][resource_name("realtime-connect")];
    assert!(function("realtime-connect").is_some());
    assert!(timeout_of(&template, connect) <= app::broadcast::OPENING_SECS);
}

/// Else a worker that waits for messages would hear of a failure each time that there were none.
#[test]
fn a_pull_that_waits_is_answered_before_anybody_ends_it() {
    let template = template();
    let timeout_secs = timeout_of(&template, &template["Resources"][resource_name("messages-pull")]);
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
fn every_function_and_every_queue_of_failures_has_an_alarm() {
    let observability = fs::read_to_string(root().join("infra/observability.yaml")).unwrap();
    let observability = parse(&observability).unwrap();
    let alarms: Vec<String> =
        resources_of(&observability, "AWS::CloudWatch::Alarm").values().map(ToString::to_string).collect();
    let has_alarm = |name: &str| {
        let quoted = format!("\"sunaba-${{Stage}}-{name}\"");
        alarms.iter().any(|alarm| alarm.contains(&quoted))
    };
    for function in FUNCTIONS {
        assert!(has_alarm(function.name), "no alarm looks at {}", function.name);
    }
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

/// `cargo lambda watch` finds functions by this table.
#[test]
fn cargo_lambda_watch_routes_as_the_registry_does() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let section =
        manifest.split("[workspace.metadata.lambda.watch.router]").nth(1).expect("no router in Cargo.toml");
    let mut found: BTreeSet<String> = BTreeSet::new();
    for line in
        section.lines().skip(1).take_while(|line| !line.starts_with('[')).filter(|line| line.contains('='))
    {
        let path = line.split('"').nth(1).unwrap();
        for entry in line.split('{').filter(|entry| entry.contains("method =")) {
            let quoted: Vec<&str> = entry.split('"').collect();
            found.insert(format!("{} {path} -> {}", quoted[1], quoted[3]));
        }
    }
    let mut expected: BTreeSet<String> = BTreeSet::new();
    for function in FUNCTIONS {
        if let Trigger::Http(route) = &function.trigger {
            for path in spellings(route.path) {
                expected.insert(format!("{} {path} -> {}", route.method, function.name));
            }
        }
    }
    assert_eq!(found, expected);
}
