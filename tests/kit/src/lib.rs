//! What the integration tests stand on: a plane to start and kill, clients, networks that misbehave, agents that
//! play a script, repositories, and templates to look into.

pub mod acp;
pub mod chaos;
pub mod claude;
pub mod cutter;
pub mod daytona;
pub mod git_server;
pub mod model;
pub mod offline;
pub mod process;
pub mod seed;
pub mod socket;
pub mod template;
