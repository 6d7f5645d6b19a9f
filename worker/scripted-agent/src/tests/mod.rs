//! Drives the player as the worker drives the CLI.

mod interaction;
mod playback;
mod resuming;
mod scripts;
mod support;
