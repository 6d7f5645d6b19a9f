//! Cost and capacity model of the plane on AWS.
//!
//! `counts` holds AWS calls per operation, counted by a test (`tests/it/cost.rs`). `prices` holds AWS's unit prices, and
//! `usage` computes a bill. `model` and `messages` combine them for `docs/cost.md`, `scale` compares the counts with AWS's
//! quotas for `docs/scale.md`, and `report` writes the tables of both.
//!
//! Deliberately absent: the plane. Nothing here starts it or calls AWS; all numbers are input data.

pub mod counts;
pub mod messages;
pub mod model;
pub mod prices;
pub mod quotas;
pub mod report;
pub mod scale;
pub mod usage;

pub use counts::{Count, Counts};
