//! Metrics in the CloudWatch embedded metric format: lines of JSON that CloudWatch extracts metrics from
//! (<https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html>).

use domain::Timestamp;
use serde_json::json;
use std::sync::OnceLock;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Count,
    Milliseconds,
}

#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// `EventsStored`.
    pub name: &'static str,
    pub value: f64,
    pub unit: Unit,
}

impl Metric {
    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
    pub fn count(name: &'static str, value: usize) -> Self {
        Self { name, value: value as f64, unit: Unit::Count }
    }

    #[expect(clippy::cast_precision_loss, reason = "durations stay far below 2^53")]
    pub fn millis(name: &'static str, micros: i64) -> Self {
        Self { name, value: micros as f64 / 1_000.0, unit: Unit::Milliseconds }
    }
}

static NAMESPACE: OnceLock<String> = OnceLock::new();

/// Enables metrics, in a namespace of this stage. Called by hosts whose standard output CloudWatch reads.
pub fn enable(stage: &str) {
    // Tests call this several times; the first call wins.
    let _first = NAMESPACE.set(format!("Sunaba/{stage}"));
}

/// Prints the metrics of one function on a line of their own: CloudWatch expects `_aws` at the top level of a line, so this
/// cannot go through the log.
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
    fn line_has_definition_and_value() {
        let stored = [Metric::count("EventsStored", 3)];
        let line = line("Sunaba/dev", "events-ingest", Timestamp::from_secs(7), &stored);
        let metrics = json!([{"Name": "EventsStored", "Unit": "Count"}]);
        let definition = json!({"Namespace": "Sunaba/dev", "Dimensions": [["Function"]], "Metrics": metrics});
        let aws = json!({"Timestamp": 7000, "CloudWatchMetrics": [definition]});
        assert_eq!(line, json!({"_aws": aws, "Function": "events-ingest", "EventsStored": 3.0}));
        assert!(!line.to_string().contains('\n'), "CloudWatch reads lines");
    }
}
