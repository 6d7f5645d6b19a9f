//! The promises of the plane, each tested where it is made: over HTTP and sockets, on the real binary or the same
//! code in this process.

mod access;
mod architecture;
mod chaos;
mod command;
mod ingest;
mod reading;
mod refusals;
mod sockets;
mod support;
