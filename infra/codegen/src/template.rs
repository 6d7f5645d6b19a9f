//! The generated parts of `template.yaml`: the routes of the HTTP API, and the resources of each function.

use crate::{environment, policies};
use edge::registry::{FUNCTIONS, Function, Queue, Records, Route, Schedule, Trigger, spellings};
use std::collections::BTreeMap;
use store::keys;

/// Stream records per invocation. Kept small because a socket may receive every event of a batch, one frame after the
/// other.
const BROADCAST_BATCH: u32 = 25;
const LIFECYCLE_BATCH: u32 = 100;

/// The `paths` of the API's OpenAPI document: all routes and their aliases.
pub fn routes() -> String {
    let mut paths: BTreeMap<String, Vec<(&Route, &Function)>> = BTreeMap::new();
    for function in FUNCTIONS {
        if let Trigger::Http(route) = &function.trigger {
            for path in spellings(route.path) {
                paths.entry(path).or_default().push((route, function));
            }
        }
    }
    let mut text = String::new();
    for (path, routes) in paths {
        text += &format!("          {path}:\n");
        if let parameters @ [_, ..] = parameters(&path).as_slice() {
            text += &format!("            parameters: [{}]\n", parameters.join(", "));
        }
        for (route, function) in routes {
            let method = route.method.as_str().to_lowercase();
            text += &format!(
                "            {method}:
              responses: {{}}
              x-amazon-apigateway-integration:
                {{ type: aws_proxy, httpMethod: POST, payloadFormatVersion: \"2.0\", credentials: !GetAtt ApiRole.Arn, uri: !Sub \"{}\" }}\n",
                invocations(&resource(function)),
            );
        }
    }
    text
}

fn parameters(path: &str) -> Vec<String> {
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    names
        .map(|name| format!("{{ name: {name}, in: path, required: true, schema: {{ type: string }} }}"))
        .collect()
}

/// The URI by which API Gateway invokes a function.
fn invocations(resource: &str) -> String {
    let apigateway = "arn:${AWS::Partition}:apigateway:${AWS::Region}:lambda:path/2015-03-31/functions";
    format!("{apigateway}/${{{resource}Function.Arn}}/invocations")
}

pub fn functions() -> Result<String, String> {
    let mut text = String::new();
    let mut group = "";
    for function in FUNCTIONS {
        if function.group() != group {
            group = function.group();
            text += &format!("\n  # {} {group}\n", "-".repeat(106));
        }
        text += &block(function)?;
    }
    Ok(text + "\n")
}

/// `events-ingest` becomes `EventsIngest`.
pub fn resource(function: &Function) -> String {
    let words = function.name.split('-').filter_map(|word| word.split_at_checked(1));
    words.map(|(first, rest)| first.to_uppercase() + rest).collect()
}

/// The resource name of a job queue.
pub fn queue(queue: Queue) -> &'static str {
    match queue {
        Queue::SocketJobs => "SocketJobsQueue",
        Queue::OrchestrationJobs => "OrchestrationJobsQueue",
    }
}

/// A function with its event source and its log group.
fn block(function: &Function) -> Result<String, String> {
    let (resource, name) = (resource(function), function.name);
    let mut text = format!(
        "
  {resource}Function:
    Type: AWS::Serverless::Function
    Metadata: {{ BuildMethod: rust-cargolambda, BuildProperties: {{ Binary: sunaba-functions }} }}
    Properties:
      FunctionName: !Sub sunaba-${{Stage}}-{name}
      Description: {summary}
      LoggingConfig: {{ LogGroup: !Ref {resource}Log }}
      MemorySize: {memory}
      Timeout: {timeout}
",
        summary = function.summary,
        memory = function.memory_mb,
        timeout = function.timeout_secs,
    );
    if let Some(parameter) = function.reserved_concurrency {
        text += &format!(
            "      ReservedConcurrentExecutions: !If [Has{parameter}, !Ref {parameter}, !Ref AWS::NoValue]\n"
        );
    }
    text += "      Environment:\n        Variables:\n";
    text += &indented(10, &environment::lines(function)?);
    let statements = policies::lines(function);
    if !statements.is_empty() {
        text += "      Policies:\n        - Version: \"2012-10-17\"\n          Statement:\n";
        text += &indented(12, &statements);
    }
    text += &match &function.trigger {
        Trigger::Http(_) => String::new(),
        Trigger::SocketConnect => socket_route(&resource, "$connect"),
        Trigger::SocketFrame => socket_route(&resource, "$default"),
        Trigger::SocketDisconnect => socket_route(&resource, "$disconnect"),
        Trigger::TableStream(records) => stream_source(&resource, *records),
        Trigger::Jobs(queue) => queue_source(&resource, *queue),
        Trigger::Schedule(schedule) => scheduled(name, schedule),
    };
    text += &format!(
        "
  {resource}Log:
    Type: AWS::Logs::LogGroup
    Properties:
      LogGroupName: !Sub /aws/lambda/sunaba-${{Stage}}-{name}
      RetentionInDays: !Ref LogDays
"
    );
    Ok(text)
}

fn indented(spaces: usize, lines: &[String]) -> String {
    lines.iter().map(|line| format!("{:spaces$}{line}\n", "")).collect()
}

fn socket_route(resource: &str, key: &str) -> String {
    let uri = invocations(resource);
    format!(
        "
  {resource}Route:
    Type: AWS::ApiGatewayV2::Route
    Properties:
      ApiId: !Ref SocketApi
      RouteKey: {key}
      Target: !Sub integrations/${{{resource}Integration}}

  {resource}Integration:
    Type: AWS::ApiGatewayV2::Integration
    Properties:
      ApiId: !Ref SocketApi
      IntegrationType: AWS_PROXY
      CredentialsArn: !GetAtt ApiRole.Arn
      IntegrationUri: !Sub {uri}
"
    )
}

fn stream_source(resource: &str, records: Records) -> String {
    let (mut pattern, batch) = match records {
        Records::Broadcast => (keys::broadcast_pattern(), BROADCAST_BATCH),
        Records::Lifecycle => (keys::lifecycle_pattern(), LIFECYCLE_BATCH),
    };
    // The order of keys would otherwise depend on the features that serde_json is built with.
    pattern.sort_all_objects();
    let failed = policies::failed_queue(records);
    format!(
        "
  {resource}Source:
    Type: AWS::Lambda::EventSourceMapping
    Properties:
      FunctionName: !Ref {resource}Function
      EventSourceArn: !GetAtt Table.StreamArn
      # Starts at the oldest record, so that none is skipped when this is created or changed. Consumers detect
      # duplicates by sequence number.
      StartingPosition: TRIM_HORIZON
      BatchSize: {batch}
      # One batch of a shard at a time. With more, Lambda keeps only the order within an item; each log segment is an
      # item, so events of one sandbox could be reordered.
      ParallelizationFactor: 1
      FunctionResponseTypes: [ReportBatchItemFailures]
      BisectBatchOnFunctionError: true
      MaximumRetryAttempts: 20
      MaximumRecordAgeInSeconds: 3600
      FilterCriteria:
        Filters:
          - Pattern: '{pattern}'
      DestinationConfig:
        OnFailure: {{ Destination: !GetAtt {failed}.Arn }}
"
    )
}

fn queue_source(resource: &str, from: Queue) -> String {
    let (name, batch) = (queue(from), from.batch_size());
    format!(
        "
  {resource}Source:
    Type: AWS::Lambda::EventSourceMapping
    Properties:
      FunctionName: !Ref {resource}Function
      EventSourceArn: !GetAtt {name}.Arn
      BatchSize: {batch}
      FunctionResponseTypes: [ReportBatchItemFailures]
"
    )
}

fn scheduled(name: &str, schedule: &Schedule) -> String {
    let unit = if schedule.every_minutes == 1 { "minute" } else { "minutes" };
    let every = schedule.every_minutes;
    format!(
        "      EventInvokeConfig:
        # No retry: the next run catches up.
        MaximumRetryAttempts: 0
        DestinationConfig:
          OnFailure: {{ Type: SQS, Destination: !GetAtt ScheduleFailedQueue.Arn }}
      Events:
        Schedule:
          Type: ScheduleV2
          Properties:
            Name: !Sub sunaba-${{Stage}}-{name}
            ScheduleExpression: rate({every} {unit})
            RoleArn: !GetAtt ScheduleRole.Arn
            RetryPolicy: {{ MaximumEventAgeInSeconds: 60, MaximumRetryAttempts: 1 }}
            # For invocations that the scheduler could not start. Those that fail go to OnFailure above.
            DeadLetterConfig: {{ Arn: !GetAtt ScheduleFailedQueue.Arn }}
"
    )
}
