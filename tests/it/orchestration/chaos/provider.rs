//! A provider of sandboxes in memory. It is slow, fails by a seed, loses answers, and does late what it was asked for
//! long ago.

use domain::SandboxId;
use futures_util::FutureExt;
use providers::{
    Answer, Failure, FailureClass, Found, Gone, Link, Listed, SandboxProvider, SandboxSpec, State, Tail,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

pub const NAME: &str = "fake";

#[derive(Debug)]
pub struct Fake(Mutex<Inside>);

#[derive(Debug)]
struct Inside {
    random: StdRng,
    /// Of a hundred calls, so many fail.
    trouble: u32,
    machines: BTreeMap<SandboxId, Machine>,
    made: u32,
    /// Requests that are still on their way, whoever sent them has given up.
    underway: Vec<Late>,
    started: Vec<BTreeMap<String, String>>,
}

#[derive(Debug)]
struct Machine {
    id: String,
    phase: Phase,
    has_worker: bool,
}

/// How often one has to look until it is something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Coming(u32),
    Ready,
    Going(u32),
}

#[derive(Debug)]
enum Late {
    Create(SandboxId),
    Destroy(SandboxId),
    Start(SandboxId, BTreeMap<String, String>),
}

/// What a call meets.
enum Luck {
    Good,
    Busy,
    /// Nobody hears it.
    Dropped,
    /// It is done, and nobody hears of that.
    Lost,
    /// It is done much later.
    Late,
    Refused,
}

impl Fake {
    pub fn new(seed: u64, trouble: u32) -> Arc<Self> {
        let random = StdRng::seed_from_u64(seed);
        let inside = Inside {
            random,
            trouble,
            machines: BTreeMap::new(),
            made: 0,
            underway: Vec::new(),
            started: Vec::new(),
        };
        Arc::new(Self(Mutex::new(inside)))
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap()
    }

    /// From now on so many of a hundred calls fail.
    pub fn set_trouble(&self, trouble: u32) {
        self.lock().trouble = trouble;
    }

    /// The names of those that are there.
    pub fn names(&self) -> Vec<SandboxId> {
        self.lock().machines.keys().cloned().collect()
    }

    /// What the workers were told that were started since the last time somebody asked.
    pub fn take_started(&self) -> Vec<BTreeMap<String, String>> {
        std::mem::take(&mut self.lock().started)
    }

    /// A machine breaks down, and nobody says so.
    pub fn lose(&self, name: &SandboxId) {
        self.lock().machines.remove(name);
    }

    /// One of the requests that are still on their way arrives; `false` if there is none.
    pub fn deliver_late(&self) -> bool {
        let mut inside = self.lock();
        if inside.underway.is_empty() {
            return false;
        }
        let index = {
            let count = inside.underway.len();
            inside.random.random_range(0..count)
        };
        match inside.underway.swap_remove(index) {
            Late::Create(name) => drop(inside.create(&name)),
            Late::Destroy(name) => drop(inside.destroy(&name)),
            Late::Start(name, variables) => drop(inside.start(&name, &variables)),
        }
        true
    }

    /// A call: a while on its way, perhaps done, a while on the way back.
    async fn call<T>(
        &self,
        late: Option<Late>,
        mut act: impl FnMut(&mut Inside) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let (luck, there, back) = {
            let mut inside = self.lock();
            (inside.luck(), inside.random.random_range(0..4), inside.random.random_range(0..4))
        };
        pause(there).await;
        let answer = match (luck, late) {
            (Luck::Good, _) => act(&mut self.lock()),
            (Luck::Busy, _) => {
                let retry_after_secs =
                    Some(self.lock().random.random_range(0..20)).filter(|secs| secs % 2 == 0);
                Err(Failure { class: FailureClass::Busy { retry_after_secs }, message: "slow down".into() })
            }
            (Luck::Refused, _) => Err(Failure::refused("no such snapshot")),
            (Luck::Lost, _) => {
                let _nobody_hears = act(&mut self.lock());
                Err(Failure::unreachable("the answer was lost"))
            }
            (Luck::Late, Some(late)) => {
                self.lock().underway.push(late);
                Err(Failure::unreachable("no answer in time"))
            }
            (Luck::Dropped | Luck::Late, _) => Err(Failure::unreachable("nobody answers")),
        };
        pause(back).await;
        answer
    }
}

async fn pause(moments: u32) {
    for _ in 0..moments {
        tokio::task::yield_now().await;
    }
}

impl Inside {
    fn luck(&mut self) -> Luck {
        if self.random.random_range(0..100) >= self.trouble {
            return Luck::Good;
        }
        match self.random.random_range(0..20) {
            0..5 => Luck::Busy,
            5..9 => Luck::Dropped,
            9..14 => Luck::Lost,
            14..19 => Luck::Late,
            _ => Luck::Refused,
        }
    }

    fn create(&mut self, name: &SandboxId) -> Found {
        if !self.machines.contains_key(name) {
            self.made += 1;
            let (id, phase) = (format!("m-{}", self.made), Phase::Coming(self.random.random_range(0..4)));
            self.machines.insert(name.clone(), Machine { id, phase, has_worker: false });
        }
        self.look(name).unwrap()
    }

    fn look(&mut self, name: &SandboxId) -> Option<Found> {
        let machine = self.machines.get_mut(name)?;
        machine.phase = match machine.phase {
            Phase::Coming(0) => Phase::Ready,
            Phase::Coming(more) => Phase::Coming(more - 1),
            same => same,
        };
        let state = match machine.phase {
            Phase::Coming(_) => State::Coming,
            Phase::Ready => State::Ready,
            Phase::Going(_) => State::Going,
        };
        Some(Found { name: name.clone(), provider_id: machine.id.clone(), state, made_of: None })
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
            _ => Err(Failure::unreachable("the machine does not answer")),
        }
    }

    fn destroy(&mut self, name: &SandboxId) -> Gone {
        let more = self.random.random_range(0..3);
        let Some(machine) = self.machines.get_mut(name) else { return Gone::Yes };
        machine.phase = match machine.phase {
            Phase::Going(0) => {
                self.machines.remove(name);
                return Gone::Yes;
            }
            Phase::Going(more) => Phase::Going(more - 1),
            _ => Phase::Going(more),
        };
        Gone::NotYet
    }
}

impl SandboxProvider for Fake {
    fn name(&self) -> &'static str {
        NAME
    }

    fn isolation(&self) -> String {
        "There is nothing to isolate.".into()
    }

    fn create<'a>(&'a self, wish: &'a SandboxSpec) -> Answer<'a, Found> {
        let late = Late::Create(wish.name.clone());
        self.call(Some(late), |inside| Ok(inside.create(&wish.name))).boxed()
    }

    fn find<'a>(&'a self, name: &'a SandboxId) -> Answer<'a, Option<Found>> {
        self.call(None, |inside| Ok(inside.look(name))).boxed()
    }

    fn upload<'a>(&'a self, found: &'a Found) -> Answer<'a, ()> {
        let upload = |inside: &mut Inside| match inside.look(&found.name).map(|found| found.state) {
            Some(State::Ready) => Ok(()),
            _ => Err(Failure::unreachable("the machine does not answer")),
        };
        self.call(None, upload).boxed()
    }

    fn start<'a>(&'a self, found: &'a Found, variables: &'a BTreeMap<String, String>) -> Answer<'a, ()> {
        let late = Late::Start(found.name.clone(), variables.clone());
        self.call(Some(late), |inside| inside.start(&found.name, variables)).boxed()
    }

    fn destroy<'a>(&'a self, name: &'a SandboxId) -> Answer<'a, Gone> {
        let late = Late::Destroy(name.clone());
        self.call(Some(late), |inside| Ok(inside.destroy(name))).boxed()
    }

    fn list(&self) -> Answer<'_, Vec<Listed>> {
        let list = |inside: &mut Inside| {
            let one = |(name, machine): (&SandboxId, &Machine)| Listed {
                name: name.clone(),
                provider_id: machine.id.clone(),
                created_at_secs: None,
            };
            Ok(inside.machines.iter().map(one).collect())
        };
        self.call(None, list).boxed()
    }

    fn logs<'a>(&'a self, _: &'a SandboxId) -> Answer<'a, Tail> {
        async { Ok(Tail::default()) }.boxed()
    }

    fn preview<'a>(&'a self, _: &'a SandboxId, _: u16) -> Answer<'a, Option<Link>> {
        async { Ok(None) }.boxed()
    }
}
