//! A provider that exists only here. It shows what a provider consists of: this folder, and its line in the list.

use domain::SandboxId;
use providers::process::{self, Process};
use providers::{
    Created, Deletion, Environment, Found, Link, Listed, ProviderFuture, ProviderKind, SandboxProvider,
    SandboxSpec, Setting, Tail, Values, WorkerSource,
};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

pub const THROW_AWAY: ProviderKind =
    ProviderKind { name: "throwaway", title: "Throw-away", settings: &[FOLDER], create };

pub const FOLDER: Setting = Setting {
    variable: "THROWAWAY_FOLDER",
    flag: "throwaway-folder",
    placeholder: "FOLDER",
    description: "Folder of the sandboxes; enables the provider throwaway",
    default: None,
    fallback: "",
    required: true,
    secret: None,
};

fn create(values: &Values, environment: Environment) -> Created {
    let WorkerSource::File(worker) = environment.worker else {
        return Err("SUNABA_WORKER_SOURCE must be a file".to_owned());
    };
    let folder = PathBuf::from(values.require(FOLDER.variable)?);
    let options = process::Options::new(folder, &environment.plane, vec![worker.into()]);
    let machine = Process::new(options).map_err(|why| format!("{}: {why}", FOLDER.variable))?;
    Ok(Arc::new(ThrowAway { machine }))
}

/// Its sandboxes are processes.
#[derive(Debug)]
struct ThrowAway {
    machine: Process,
}

impl SandboxProvider for ThrowAway {
    fn name(&self) -> &'static str {
        THROW_AWAY.name
    }

    fn isolation(&self) -> String {
        self.machine.isolation()
    }

    fn create<'a>(&'a self, spec: &'a SandboxSpec) -> ProviderFuture<'a, Found> {
        self.machine.create(spec)
    }

    fn find<'a>(&'a self, name: &'a SandboxId) -> ProviderFuture<'a, Option<Found>> {
        self.machine.find(name)
    }

    fn upload<'a>(&'a self, found: &'a Found) -> ProviderFuture<'a, ()> {
        self.machine.upload(found)
    }

    fn start<'a>(
        &'a self,
        found: &'a Found,
        variables: &'a BTreeMap<String, String>,
    ) -> ProviderFuture<'a, ()> {
        self.machine.start(found, variables)
    }

    fn destroy<'a>(&'a self, name: &'a SandboxId) -> ProviderFuture<'a, Deletion> {
        self.machine.destroy(name)
    }

    fn list<'a>(&'a self) -> ProviderFuture<'a, Vec<Listed>> {
        self.machine.list()
    }

    fn logs<'a>(&'a self, name: &'a SandboxId) -> ProviderFuture<'a, Tail> {
        self.machine.logs(name)
    }

    fn preview<'a>(&'a self, name: &'a SandboxId, port: u16) -> ProviderFuture<'a, Option<Link>> {
        self.machine.preview(name, port)
    }
}
