//! Tasks become sandboxes: what holds whatever fails, and however many wait.

mod chaos;
mod queue;
