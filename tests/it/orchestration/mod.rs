//! Tickets become sandboxes.

mod local;
