//! The generated parts of `infra/observability.yaml`: alarms for functions that crash, and saved log queries.

use edge::registry::{FUNCTIONS, Function, Trigger};

/// CloudWatch's limit for one alarm.
const METRICS_PER_ALARM: usize = 10;
/// CloudWatch's limit for one saved query.
const LOG_GROUPS_PER_QUERY: usize = 50;

/// An alarm on the errors of a set of functions.
struct Alarm {
    /// `events-errors`; the second alarm of a group is `events-errors-2`.
    name: String,
    kind: Kind,
    functions: Vec<&'static Function>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// HTTP requests. Clients see each crash, so a few within five minutes raise the alarm.
    Requests,
    /// WebSocket connections, as above.
    Sockets,
    /// Stream consumers. Lambda retries them, so only repeated crashes raise the alarm.
    Stream,
    /// Jobs and schedules, as above.
    Background,
}

impl Kind {
    fn of(function: &Function) -> Self {
        match function.trigger {
            Trigger::Http(_) => Self::Requests,
            Trigger::SocketConnect | Trigger::SocketFrame | Trigger::SocketDisconnect => Self::Sockets,
            Trigger::TableStream(_) => Self::Stream,
            Trigger::Jobs(_) | Trigger::Schedule(_) => Self::Background,
        }
    }

    /// The first part of the alarm's name. Requests have one alarm per group of functions, so that the name shows which
    /// part of the API is affected.
    fn subject(self, function: &Function) -> &'static str {
        match self {
            Self::Requests => function.group(),
            Self::Sockets => "socket",
            Self::Stream => "stream",
            Self::Background => "background",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::Requests => "HTTP functions crashed or timed out five times in five minutes.",
            Self::Sockets => "WebSocket functions crashed or timed out five times in five minutes.",
            Self::Stream => "Stream consumers crashed in three of five minutes. A shard may be stuck.",
            Self::Background => "Jobs or schedules crashed in three of five minutes.",
        }
    }

    /// The entry of the runbook in `infra/README.md`.
    fn runbook_entry(self) -> &'static str {
        match self {
            Self::Requests => "request-errors",
            Self::Sockets => "socket-errors",
            Self::Stream => "stream-errors",
            Self::Background => "background-errors",
        }
    }

    /// Seconds a data point covers, evaluation periods, data points to alarm, and errors per data point.
    fn thresholds(self) -> (u32, u32, u32, u32) {
        match self {
            Self::Requests | Self::Sockets => (300, 1, 1, 5),
            Self::Stream | Self::Background => (60, 5, 3, 1),
        }
    }
}

fn alarms() -> Vec<Alarm> {
    let mut subjects: Vec<(&'static str, Kind, Vec<&'static Function>)> = Vec::new();
    for function in FUNCTIONS {
        let kind = Kind::of(function);
        let subject = kind.subject(function);
        match subjects.iter_mut().find(|(known, of, _)| (*known, *of) == (subject, kind)) {
            Some((_, _, functions)) => functions.push(function),
            None => subjects.push((subject, kind, vec![function])),
        }
    }
    let mut alarms = Vec::new();
    for (subject, kind, functions) in subjects {
        for (index, functions) in functions.chunks(METRICS_PER_ALARM).enumerate() {
            let name = match index {
                0 => format!("{subject}-errors"),
                _ => format!("{subject}-errors-{}", index + 1),
            };
            alarms.push(Alarm { name, kind, functions: functions.to_vec() });
        }
    }
    alarms
}

impl Alarm {
    /// `events-errors-2` is `EventsErrors2Alarm`.
    fn resource(&self) -> String {
        let words = self.name.split('-').filter_map(|word| word.split_at_checked(1));
        words.map(|(first, rest)| first.to_uppercase() + rest).collect::<String>() + "Alarm"
    }
}

/// One alarm for up to ten functions of the same kind.
pub fn error_alarms() -> String {
    let mut text = String::new();
    for alarm in alarms() {
        let (period, periods, datapoints, threshold) = alarm.kind.thresholds();
        text += &format!(
            "
  {resource}:
    Type: AWS::CloudWatch::Alarm
    Properties:
      AlarmName: !Sub 'sunaba-${{Stage}}-{name}'
      AlarmDescription: '{description} See infra/README.md, {entry}.'
      Metrics:
        - {{ Id: result, Label: Errors, Expression: 'SUM(FILL(METRICS(), 0))' }}
",
            resource = alarm.resource(),
            name = alarm.name,
            description = alarm.kind.description(),
            entry = alarm.kind.runbook_entry(),
        );
        for function in &alarm.functions {
            text += &format!(
                "        - {{ Id: {id}, ReturnData: false, MetricStat: {{ Stat: Sum, Period: {period}, Metric: {{ \
                 Namespace: AWS/Lambda, MetricName: Errors, Dimensions: [{{ Name: FunctionName, Value: !Sub \
                 'sunaba-${{Stage}}-{name}' }}] }} }} }}\n",
                id = function.name.replace('-', "_"),
                name = function.name,
            );
        }
        text += &format!(
            "      EvaluationPeriods: {periods}
      DatapointsToAlarm: {datapoints}
      ComparisonOperator: GreaterThanOrEqualToThreshold
      Threshold: {threshold}
      TreatMissingData: notBreaching
      AlarmActions: [!Ref AlarmTopic]
      OKActions: [!Ref AlarmTopic]
"
        );
    }
    text + "\n"
}

/// The ARNs of the alarms above, as a list of JSON strings for the dashboard.
pub fn dashboard_variables() -> String {
    let arns: Vec<String> =
        alarms().iter().map(|alarm| format!("\"${{{}.Arn}}\"", alarm.resource())).collect();
    format!("        - ErrorAlarms: !Sub '{}'\n", arns.join(", "))
}

/// A saved Logs Insights query.
struct Query {
    resource: &'static str,
    name: &'static str,
    text: &'static [&'static str],
}

const QUERIES: [Query; 3] = [
    Query {
        resource: "RequestQuery",
        name: "request by id",
        text: &[
            "# Replace REQUEST-ID with the request_id of the error response or its X-Request-ID header.",
            "fields @timestamp, level, message, @log",
            "| filter @message like \"REQUEST-ID\"",
            "| sort @timestamp asc",
            "| limit 200",
        ],
    },
    Query {
        resource: "SandboxQuery",
        name: "sandbox by id",
        text: &[
            "# Replace SANDBOX-ID. What the agent did is in the sandbox's event log, not here.",
            "fields @timestamp, level, message, @log",
            "| filter @message like \"SANDBOX-ID\"",
            "| sort @timestamp asc",
            "| limit 500",
        ],
    },
    Query {
        resource: "FailuresQuery",
        name: "recent failures",
        text: &[
            "# Warnings and errors that functions logged, and functions that crashed or timed out.",
            "fields @timestamp, @log, level, message, @message",
            "| filter level in [\"ERROR\", \"WARN\"] or @message like \"Task timed out\" or @message like \
             \"Runtime exited\" or @message like \"panicked\"",
            "| sort @timestamp desc",
            "| limit 200",
        ],
    },
];

/// Each query over the log groups of all functions, split into parts of at most fifty log groups.
pub fn log_queries() -> String {
    let parts: Vec<&[Function]> = FUNCTIONS.chunks(LOG_GROUPS_PER_QUERY).collect();
    let mut text = String::new();
    for query in QUERIES {
        for (index, functions) in parts.iter().enumerate() {
            let number = if index == 0 { String::new() } else { (index + 1).to_string() };
            let of =
                if parts.len() > 1 { format!(" ({} of {})", index + 1, parts.len()) } else { String::new() };
            text += &format!(
                "
  {resource}{number}:
    Type: AWS::Logs::QueryDefinition
    Properties:
      Name: !Sub 'sunaba-${{Stage}}/{name}{of}'
      LogGroupNames:
",
                resource = query.resource,
                name = query.name,
            );
            for function in *functions {
                text += &format!("        - !Sub '/aws/lambda/sunaba-${{Stage}}-{}'\n", function.name);
            }
            text += "      QueryString: |\n";
            for line in query.text {
                text += &format!("        {line}\n");
            }
        }
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_is_in_one_alarm() {
        let alarms = alarms();
        let mut watched: Vec<&str> =
            alarms.iter().flat_map(|alarm| alarm.functions.iter().map(|function| function.name)).collect();
        watched.sort_unstable();
        let mut all: Vec<&str> = FUNCTIONS.iter().map(|function| function.name).collect();
        all.sort_unstable();
        assert_eq!(watched, all);
    }

    #[test]
    fn alarm_has_at_most_ten_metrics() {
        assert!(alarms().iter().all(|alarm| alarm.functions.len() <= METRICS_PER_ALARM));
    }
}
