//! Support for integration tests: plane processes, clients, proxies that inject faults, scripted agents and models, git
//! repositories, and a parser for templates.

pub mod acp;
pub mod chaos;
pub mod claude;
pub mod daytona;
pub mod flaky_proxy;
pub mod git;
pub mod git_server;
pub mod github;
pub mod model;
pub mod namespace;
pub mod offline;
pub mod process;
pub mod seed;
pub mod socket;
pub mod template;
