//! Use cases, one module each: `Deps` is what it needs, `Command` what is asked, `Outcome` what came of it.
//!
//! Deliberately absent: HTTP, sockets, Lambda. A use case names in its `Deps` exactly what it touches, which is
//! also the list of its permissions.

pub mod acknowledge_messages;
pub mod append_entries;
pub mod approve_ticket;
pub mod broadcast;
pub mod cancel_message;
pub mod change_subscription;
pub mod check_plane;
pub mod clock;
pub mod close_socket;
pub mod create_ticket;
pub mod dispatch;
pub mod error;
pub mod expire_socket;
pub mod get_sandbox;
pub mod get_ticket;
pub mod ids;
pub mod ingest_events;
pub mod lanes;
pub mod list_sandboxes;
pub mod list_tickets;
mod log_scan;
pub mod open_socket;
pub mod orchestration;
pub mod publish_turns;
pub mod pull_messages;
mod race;
pub mod read_body;
pub mod read_entries;
pub mod read_events;
pub mod read_history;
pub mod read_messages;
pub mod read_trajectory;
pub mod register_sandbox;
pub mod reject_ticket;
pub mod rotate_token;
pub mod send_message;
mod settled;
mod sight;
pub mod steering;
pub mod subscriptions;
pub mod sweep;
pub mod sweep_providers;
mod telling;
pub mod tend_sandbox;
pub mod tend_task;
pub mod tend_ticket;
pub mod terminate_sandbox;
mod tickets;
pub mod transition_ticket;
mod turn;
pub mod unblock;
mod work;

pub use clock::Clock;
pub use error::Error;
pub use lanes::Lanes;
pub use subscriptions::Subscriptions;
