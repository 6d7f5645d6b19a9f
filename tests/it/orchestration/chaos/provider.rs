//! An in-memory provider with random delays and faults: it fails calls, loses responses, and executes requests late.

use domain::SandboxId;
use futures_util::FutureExt;
use providers::{
    Deletion, Failure, FailureClass, Found, Link, Listed, ProviderFuture, SandboxProvider, SandboxSpec,
    State, Tail,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

pub const NAME: &str = "fake";

#[derive(Debug)]
pub struct FaultyProvider(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    random: StdRng,
    fault_percent: u32,
    machines: BTreeMap<SandboxId, Machine>,
    created: u32,
    /// Requests whose callers have timed out, but which are still executed later.
    delayed: Vec<DelayedRequest>,
    started: Vec<BTreeMap<String, String>>,
}

#[derive(Debug)]
struct Machine {
    id: String,
    phase: Phase,
    has_worker: bool,
}

/// The number is how many more polls the phase lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Pending(u32),
    Ready,
    Deleting(u32),
}

#[derive(Debug)]
enum DelayedRequest {
    Create(SandboxId),
    Destroy(SandboxId),
    Start(SandboxId, BTreeMap<String, String>),
}

/// The fault that a call meets, if any.
enum Fault {
    None,
    RateLimited,
    RequestLost,
    /// The request is executed.
    ResponseLost,
    /// The request is executed much later.
    Delayed,
    Rejected,
}

impl FaultyProvider {
    pub fn new(seed: u64, fault_percent: u32) -> Arc<Self> {
        let random = StdRng::seed_from_u64(seed);
        let inner = Inner {
            random,
            fault_percent,
            machines: BTreeMap::new(),
            created: 0,
            delayed: Vec::new(),
            started: Vec::new(),
        };
        Arc::new(Self(Mutex::new(inner)))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }

    /// Percentage of calls that fail from now on.
    pub fn set_fault_percent(&self, fault_percent: u32) {
        self.lock().fault_percent = fault_percent;
    }

    /// The names of the existing machines.
    pub fn names(&self) -> Vec<SandboxId> {
        self.lock().machines.keys().cloned().collect()
    }

    /// Environment variables of the workers started since the last call.
    pub fn take_started(&self) -> Vec<BTreeMap<String, String>> {
        std::mem::take(&mut self.lock().started)
    }

    /// Removes a machine without notice, as if it had crashed.
    pub fn lose(&self, name: &SandboxId) {
        self.lock().machines.remove(name);
    }

    /// Executes one of the delayed requests; `false` if there is none.
    pub fn deliver_delayed(&self) -> bool {
        let mut inner = self.lock();
        if inner.delayed.is_empty() {
            return false;
        }
        let index = {
            let count = inner.delayed.len();
            inner.random.random_range(0..count)
        };
        match inner.delayed.swap_remove(index) {
            DelayedRequest::Create(name) => drop(inner.create(&name)),
            DelayedRequest::Destroy(name) => drop(inner.destroy(&name)),
            DelayedRequest::Start(name, variables) => drop(inner.start(&name, &variables)),
        }
        true
    }

    /// Simulates a call: a delay, perhaps the execution, another delay.
    async fn call<T>(
        &self,
        delayed: Option<DelayedRequest>,
        mut execute: impl FnMut(&mut Inner) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let (fault, request_delay, response_delay) = {
            let mut inner = self.lock();
            (inner.random_fault(), inner.random.random_range(0..4), inner.random.random_range(0..4))
        };
        pause(request_delay).await;
        let answer = match (fault, delayed) {
            (Fault::None, _) => execute(&mut self.lock()),
            (Fault::RateLimited, _) => {
                let retry_after_secs =
                    Some(self.lock().random.random_range(0..20)).filter(|secs| secs % 2 == 0);
                Err(Failure { class: FailureClass::Busy { retry_after_secs }, message: "slow down".into() })
            }
            (Fault::Rejected, _) => Err(Failure::refused("no such snapshot")),
            (Fault::ResponseLost, _) => {
                let _lost = execute(&mut self.lock());
                Err(Failure::unreachable("the response was lost"))
            }
            (Fault::Delayed, Some(delayed)) => {
                self.lock().delayed.push(delayed);
                Err(Failure::unreachable("timed out"))
            }
            (Fault::RequestLost | Fault::Delayed, _) => Err(Failure::unreachable("connection refused")),
        };
        pause(response_delay).await;
        answer
    }
}

async fn pause(polls: u32) {
    for _ in 0..polls {
        tokio::task::yield_now().await;
    }
}

impl Inner {
    fn random_fault(&mut self) -> Fault {
        if self.random.random_range(0..100) >= self.fault_percent {
            return Fault::None;
        }
        match self.random.random_range(0..20) {
            0..5 => Fault::RateLimited,
            5..9 => Fault::RequestLost,
            9..14 => Fault::ResponseLost,
            14..19 => Fault::Delayed,
            _ => Fault::Rejected,
        }
    }

    fn create(&mut self, name: &SandboxId) -> Found {
        if !self.machines.contains_key(name) {
            self.created += 1;
            let (id, phase) = (format!("m-{}", self.created), Phase::Pending(self.random.random_range(0..4)));
            self.machines.insert(name.clone(), Machine { id, phase, has_worker: false });
        }
        self.poll(name).unwrap()
    }

    fn poll(&mut self, name: &SandboxId) -> Option<Found> {
        let machine = self.machines.get_mut(name)?;
        machine.phase = match machine.phase {
            Phase::Pending(0) => Phase::Ready,
            Phase::Pending(left) => Phase::Pending(left - 1),
            same => same,
        };
        let state = match machine.phase {
            Phase::Pending(_) => State::Pending,
            Phase::Ready => State::Ready,
            Phase::Deleting(_) => State::Deleting,
        };
        Some(Found { name: name.clone(), provider_id: machine.id.clone(), state, actual_resources: None })
    }

    fn start(&mut self, name: &SandboxId, variables: &BTreeMap<String, String>) -> Result<(), Failure> {
        match self.machines.get_mut(name) {
            Some(machine) if machine.phase == Phase::Ready => {
                if !machine.has_worker {
                    machine.has_worker = true;
                    self.started.push(variables.clone());
                }
                Ok(())
            }
            _ => Err(Failure::unreachable("the machine does not respond")),
        }
    }

    fn destroy(&mut self, name: &SandboxId) -> Deletion {
        let polls = self.random.random_range(0..3);
        let Some(machine) = self.machines.get_mut(name) else { return Deletion::Done };
        machine.phase = match machine.phase {
            Phase::Deleting(0) => {
                self.machines.remove(name);
                return Deletion::Done;
            }
            Phase::Deleting(left) => Phase::Deleting(left - 1),
            _ => Phase::Deleting(polls),
        };
        Deletion::InProgress
    }
}

impl SandboxProvider for FaultyProvider {
    fn name(&self) -> &'static str {
        NAME
    }

    fn isolation(&self) -> String {
        "There is nothing to isolate.".into()
    }

    fn create<'a>(&'a self, spec: &'a SandboxSpec) -> ProviderFuture<'a, Found> {
        let delayed = DelayedRequest::Create(spec.name.clone());
        self.call(Some(delayed), |inner| Ok(inner.create(&spec.name))).boxed()
    }

    fn find<'a>(&'a self, name: &'a SandboxId) -> ProviderFuture<'a, Option<Found>> {
        self.call(None, |inner| Ok(inner.poll(name))).boxed()
    }

    fn upload<'a>(&'a self, found: &'a Found) -> ProviderFuture<'a, ()> {
        let upload = |inner: &mut Inner| match inner.poll(&found.name).map(|found| found.state) {
            Some(State::Ready) => Ok(()),
            _ => Err(Failure::unreachable("the machine does not respond")),
        };
        self.call(None, upload).boxed()
    }

    fn start<'a>(
        &'a self,
        found: &'a Found,
        variables: &'a BTreeMap<String, String>,
    ) -> ProviderFuture<'a, ()> {
        let delayed = DelayedRequest::Start(found.name.clone(), variables.clone());
        self.call(Some(delayed), |inner| inner.start(&found.name, variables)).boxed()
    }

    fn destroy<'a>(&'a self, name: &'a SandboxId) -> ProviderFuture<'a, Deletion> {
        let delayed = DelayedRequest::Destroy(name.clone());
        self.call(Some(delayed), |inner| Ok(inner.destroy(name))).boxed()
    }

    fn list(&self) -> ProviderFuture<'_, Vec<Listed>> {
        let list = |inner: &mut Inner| {
            let listed = |(name, machine): (&SandboxId, &Machine)| Listed {
                name: name.clone(),
                provider_id: machine.id.clone(),
                created_at_secs: None,
            };
            Ok(inner.machines.iter().map(listed).collect())
        };
        self.call(None, list).boxed()
    }

    fn logs<'a>(&'a self, _: &'a SandboxId) -> ProviderFuture<'a, Tail> {
        async { Ok(Tail::default()) }.boxed()
    }

    fn preview<'a>(&'a self, _: &'a SandboxId, _: u16) -> ProviderFuture<'a, Option<Link>> {
        async { Ok(None) }.boxed()
    }
}
