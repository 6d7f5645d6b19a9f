//! The table.

use std::time::Duration;
use terminal::{print_error, print_line};

/// What was measured.
#[derive(Debug, Default)]
pub struct Report {
    rows: Vec<[String; 6]>,
    floors: Vec<(usize, f64)>,
}

/// How long things took, and how many there were in a second.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Each one's time, sorted.
    pub times: Vec<Duration>,
    /// How many in a second, all connections together.
    pub per_second: f64,
}

impl Measured {
    /// From the times of single things and the time of all.
    pub fn new(mut times: Vec<Duration>, all: Duration) -> Self {
        times.sort_unstable();
        let per_second = times.len() as f64 / all.as_secs_f64();
        Self { times, per_second }
    }

    /// The time within which this share of them was done.
    pub fn percentile(&self, share: f64) -> Duration {
        let index = (self.times.len() as f64 * share) as usize;
        self.times[index.min(self.times.len() - 1)]
    }
}

impl Report {
    /// The floor for a number of connections.
    pub fn floor(&mut self, connections: usize, measured: &Measured) {
        self.floors.push((connections, measured.per_second));
        self.row(&format!("floor: empty handler, {connections} connections"), measured, "", "requests/s");
    }

    /// A rate with its ratio to the floor. `each` is how many things one request brings.
    pub fn rate(&mut self, name: &str, connections: usize, measured: &Measured, each: usize, aim: &str) {
        let floor = self.floors.iter().find(|(known, _)| *known == connections).map(|(_, rate)| *rate);
        let ratio = floor.map(|floor| format!("{:.2}", measured.per_second / floor)).unwrap_or_default();
        let unit = if each == 1 { "requests/s" } else { "events/s" };
        let mut scaled = measured.clone();
        scaled.per_second *= each as f64;
        self.row(name, &scaled, aim, unit);
        if let Some(row) = self.rows.last_mut() {
            row[4] = ratio;
        }
    }

    /// Times without a rate.
    pub fn times(&mut self, name: &str, measured: &Measured, aim: &str) {
        self.row(name, measured, aim, "");
    }

    /// A single value.
    pub fn value(&mut self, name: &str, value: String, aim: &str) {
        self.rows.push([name.into(), value, String::new(), String::new(), String::new(), aim.into()]);
    }

    fn row(&mut self, name: &str, measured: &Measured, aim: &str, unit: &str) {
        let rate = if unit.is_empty() { String::new() } else { format!("{:.0} {unit}", measured.per_second) };
        let ms = |share| format!("{:.2} ms", measured.percentile(share).as_secs_f64() * 1e3);
        self.rows.push([name.into(), rate, ms(0.5), ms(0.99), String::new(), aim.into()]);
        self.progress();
    }

    fn progress(&self) {
        if let Some(row) = self.rows.last() {
            print_error(&format!("  {} … {} {} {}", row[0], row[1], row[2], row[3]));
        }
    }

    /// As Markdown.
    pub fn print(&self) {
        let head = ["measured", "rate or value", "p50", "p99", "of the floor", "aim"].map(str::to_owned);
        let all: Vec<&[String; 6]> = std::iter::once(&head).chain(&self.rows).collect();
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
