//! Transport-neutral entry points. A host translates each trigger into one of these calls:
//!
//! | trigger | entry point |
//! |---|---|
//! | HTTP request | [`http::dispatch`], or [`http::admit`] for a host that reads the body itself |
//! | socket opens, frame, socket closes | [`ws::connect`], [`ws::frame`], [`ws::disconnect`] |
//! | table stream | [`stream::broadcast`], [`stream::publish`] |
//! | queue of jobs | [`jobs::run`] |
//! | schedule | [`schedule::run`] |
//!
//! Each call opens a tracing span with the id of its trigger.
//!
//! Deliberately absent: anything that knows whether it runs on Lambda.

pub mod auth;
pub mod guard;
pub mod http;
pub mod jobs;
pub mod logging;
pub mod metrics;
pub mod plane;
pub mod problem;
pub mod registry;
pub mod schedule;
mod spans;
pub mod stream;
pub mod ws;

pub use plane::{Bindings, Plane, Settings};
