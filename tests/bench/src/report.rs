//! The table of results.

use std::time::Duration;
use terminal::{print_error, print_line};

#[derive(Debug, Default)]
pub struct Report {
    rows: Vec<[String; 6]>,
    baselines: Vec<(usize, f64)>,
}

/// Latencies and throughput.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Sorted.
    pub times: Vec<Duration>,
    /// Over all connections.
    pub per_second: f64,
}

impl Measured {
    /// From single latencies and the total time.
    pub fn new(mut times: Vec<Duration>, all: Duration) -> Self {
        times.sort_unstable();
        let per_second = times.len() as f64 / all.as_secs_f64();
        Self { times, per_second }
    }

    pub fn percentile(&self, share: f64) -> Duration {
        let index = (self.times.len() as f64 * share) as usize;
        self.times[index.min(self.times.len() - 1)]
    }
}

impl Report {
    /// The baseline for a number of connections.
    pub fn baseline(&mut self, connections: usize, measured: &Measured) {
        self.baselines.push((connections, measured.per_second));
        self.row(&format!("baseline: empty handler, {connections} connections"), measured, "", "requests/s");
    }

    /// A rate with its ratio to the baseline. `each` is the number of events per request.
    pub fn rate(&mut self, name: &str, connections: usize, measured: &Measured, each: usize, target: &str) {
        let baseline = self.baselines.iter().find(|(known, _)| *known == connections).map(|(_, rate)| *rate);
        let ratio = baseline.map(|rate| format!("{:.2}", measured.per_second / rate)).unwrap_or_default();
        let unit = if each == 1 { "requests/s" } else { "events/s" };
        let mut scaled = measured.clone();
        scaled.per_second *= each as f64;
        self.row(name, &scaled, target, unit);
        if let Some(row) = self.rows.last_mut() {
            row[4] = ratio;
        }
    }

    /// Latencies without a rate.
    pub fn times(&mut self, name: &str, measured: &Measured, target: &str) {
        self.row(name, measured, target, "");
    }

    pub fn value(&mut self, name: &str, value: String, target: &str) {
        self.rows.push([name.into(), value, String::new(), String::new(), String::new(), target.into()]);
    }

    fn row(&mut self, name: &str, measured: &Measured, target: &str, unit: &str) {
        let rate = if unit.is_empty() { String::new() } else { format!("{:.0} {unit}", measured.per_second) };
        let ms = |share| format!("{:.2} ms", measured.percentile(share).as_secs_f64() * 1e3);
        self.rows.push([name.into(), rate, ms(0.5), ms(0.99), String::new(), target.into()]);
        self.progress();
    }

    fn progress(&self) {
        if let Some(row) = self.rows.last() {
            print_error(&format!("  {} … {} {} {}", row[0], row[1], row[2], row[3]));
        }
    }

    /// Prints a Markdown table.
    pub fn print(&self) {
        let header = ["scenario", "rate or value", "p50", "p99", "of baseline", "target"].map(str::to_owned);
        let all: Vec<&[String; 6]> = std::iter::once(&header).chain(&self.rows).collect();
        let width = |column: usize| all.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        for (index, row) in all.iter().enumerate() {
            let cells: Vec<String> = row
                .iter()
                .enumerate()
                .map(|(column, cell)| format!("{cell:<width$}", width = width(column)))
                .collect();
            print_line(&format!("| {} |", cells.join(" | ")));
            if index == 0 {
                let line: Vec<String> = (0..6).map(|column| "-".repeat(width(column))).collect();
                print_line(&format!("|-{}-|", line.join("-|-")));
            }
        }
    }
}
