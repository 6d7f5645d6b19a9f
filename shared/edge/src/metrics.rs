//! Numbers for CloudWatch, in its embedded metric format: a line of JSON that CloudWatch reads numbers from
//! (<https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html>).

use domain::Timestamp;
use serde_json::json;
use std::sync::OnceLock;

/// What a number counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Things.
    Count,
    /// Time.
    Milliseconds,
}

/// One number.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// `EventsStored`.
    pub name: &'static str,
    /// How many or how long.
    pub value: f64,
    /// Of what.
    pub unit: Unit,
}

impl Metric {
    /// So many things.
    #[expect(clippy::cast_precision_loss, reason = "no count of ours comes near 2^53")]
    pub fn count(name: &'static str, value: usize) -> Self {
        Self { name, value: value as f64, unit: Unit::Count }
    }
}

static NAMESPACE: OnceLock<String> = OnceLock::new();

/// From now on numbers are emitted, apart from those of other stages. A host calls this where somebody collects them:
/// standard output on Lambda.
pub fn enable(stage: &str) {
    // A second call comes from a test; the first one holds.
    let _first = NAMESPACE.set(format!("Sunaba/{stage}"));
}

/// Emits numbers of one function, as one line of their own: CloudWatch looks for `_aws` at the top of a line, so
/// this cannot go through the log.
#[expect(clippy::print_stdout, reason = "standard output is where CloudWatch reads")]
pub fn emit(function: &str, now: Timestamp, metrics: &[Metric]) {
    if let Some(namespace) = NAMESPACE.get() {
        println!("{}", line(namespace, function, now, metrics));
    }
}

fn line(namespace: &str, function: &str, now: Timestamp, metrics: &[Metric]) -> serde_json::Value {
    let definitions: Vec<_> = metrics
        .iter()
        .map(|metric| {
            let unit = match metric.unit {
                Unit::Count => "Count",
                Unit::Milliseconds => "Milliseconds",
            };
            json!({"Name": metric.name, "Unit": unit})
        })
        .collect();
    let mut line = json!({
        "_aws": {
            "Timestamp": now.as_micros() / 1_000,
            "CloudWatchMetrics": [{"Namespace": namespace, "Dimensions": [["Function"]], "Metrics": definitions}],
        },
        "Function": function,
    });
    for metric in metrics {
        line[metric.name] = json!(metric.value);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_holds_definition_and_value() {
        let stored = [Metric::count("EventsStored", 3)];
        let line = line("Sunaba/dev", "events-ingest", Timestamp::from_secs(7), &stored);
        let metrics = json!([{"Name": "EventsStored", "Unit": "Count"}]);
        let definition = json!({"Namespace": "Sunaba/dev", "Dimensions": [["Function"]], "Metrics": metrics});
        let aws = json!({"Timestamp": 7000, "CloudWatchMetrics": [definition]});
        assert_eq!(line, json!({"_aws": aws, "Function": "events-ingest", "EventsStored": 3.0}));
        assert!(!line.to_string().contains('\n'), "CloudWatch reads lines");
    }
}
