//! Sockets: open, authenticate, subscribe, expire and close them.

pub mod close;
pub mod expire;
pub mod open;
pub mod subscribe;
pub mod subscriptions;
