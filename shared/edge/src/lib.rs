//! Transport-neutral entry points. A host turns a trigger into one of these calls:
//!
//! | trigger | entry point |
//! |---|---|
//! | HTTP request | [`http::dispatch`], or [`http::admit`] where the host reads the body itself |
//! | socket opened, frame, socket closed | [`ws::connect`], [`ws::frame`], [`ws::disconnect`] |
//! | table stream | [`stream::broadcast`], [`stream::publish`] |
//! | queue of jobs | [`jobs::run`] |
//! | schedule | the [`schedule::Tick`] of the registry's row |
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
pub mod stream;
pub mod ws;

pub use plane::{Bindings, Plane, Settings};
