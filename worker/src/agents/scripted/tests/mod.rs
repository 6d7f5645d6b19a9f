//! Whoever drives the CLI, driving the player.

mod kit;
mod playing;
mod resuming;
mod scripts;
mod talking;
