//! One file per kind of trigger: each turns it into a call on `edge`, and knows nothing else.

pub mod aws;
pub mod connections;
pub mod http;
pub mod pages;
pub mod queue;
pub mod schedule;
pub mod stream;
pub mod ws;
