//! One file per kind of trigger: each translates it into a call on `edge` and does nothing else.

pub mod aws;
pub mod connections;
pub mod http;
pub mod jobs;
pub mod pages;
pub mod schedule;
pub mod sign_in;
#[cfg(test)]
mod span_tests;
pub mod stream;
pub mod ws;
