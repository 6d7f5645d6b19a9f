//! What the plane costs on AWS, and what breaks first as it grows.
//!
//! `counts` is what the plane does, counted by a test (`tests/it/cost.rs`). `prices` is what AWS asks for it, and `usage`
//! the bill. `model` and `messages` put them together for `docs/cost.md`, `scale` holds the counts against AWS's quotas
//! for `docs/scale.md`, and `report` writes the tables of both.
//!
//! Deliberately absent: the plane. Nothing here starts it or calls AWS; the numbers come in as data.

pub mod counts;
pub mod messages;
pub mod model;
pub mod prices;
pub mod quotas;
pub mod report;
pub mod scale;
pub mod usage;

pub use counts::{Count, Counts};
