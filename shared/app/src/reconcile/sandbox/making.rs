//! Making a sandbox, stage by stage. Each stage is written down before it is begun, and can be done again.

use super::{Deps, Flow, health, let_go, write};
use crate::error::Error;
use crate::orchestration::variables;
use domain::attempt::{MAX_ERROR_CHARS, Outcome, Stage};
use domain::pace::{MAX_RETRY_AFTER_SECS, USUAL_RETRY_AFTER_SECS, poll_interval_ms};
use domain::resources::{self, Wanted};
use domain::retry::{Class, backoff_secs};
use domain::sandbox::Status;
use domain::{Sandbox, Task, Ticket, Timestamp};
use providers::{Asked, Failure, FailureClass, Found, Resources, SandboxProvider, SandboxSpec, State};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How often a stage is tried before the try at the task is given up.
const MAX_TRIES: u32 = 5;

/// Does this stage and those behind it, as far as they fit into a job that has `begun` then.
pub(super) async fn run(
    deps: Deps<'_>,
    head: Sandbox,
    task: Option<Task>,
    stage: Stage,
    begun: Timestamp,
) -> Result<Flow, Error> {
    let (sandbox, mut lease) = (head.id.clone(), None);
    let flow = stages(deps, head, task, stage, begun, &mut lease).await?;
    // Somebody wrote meanwhile: a message came in, or it was called off. Nobody is to wait for us on that account.
    if let (Flow::Lost, Some(lease)) = (&flow, lease) {
        let_go(deps.deps, &sandbox, Some(lease)).await?;
    }
    Ok(flow)
}

/// As above; and until when the last stage that was begun is ours.
async fn stages(
    deps: Deps<'_>,
    head: Sandbox,
    task: Option<Task>,
    stage: Stage,
    begun: Timestamp,
    lease: &mut Option<Timestamp>,
) -> Result<Flow, Error> {
    let (Some(assignment), Some(task)) = (head.assignment.clone(), task) else { return Ok(Flow::Rest(None)) };
    let Some(provider) = deps.providers.get(&assignment.provider).cloned() else {
        let error = format!("there is no provider called {}", assignment.provider);
        return give_up(deps, &head, Class::Permanent, &error).await;
    };
    if stage.asks_the_provider()
        && let Some(until) = health::closed_until(deps, provider.name()).await?
    {
        return hold(deps, &head, until).await;
    }
    let ticket = match &task.ticket {
        Some(id) => deps.deps.store.ticket(id).await?,
        None => None,
    };
    let work = Work { task, ticket };
    // What was begun before may have been done, or half done.
    let mut again = head.activity.spawn.as_ref().is_some_and(|spawn| spawn.stage == stage);
    let Some(mut head) = begin(deps, &head, stage, None).await? else { return Ok(Flow::Lost) };
    let mut stage = stage;
    loop {
        *lease = head.activity.spawn.as_ref().and_then(|spawn| spawn.lease_until);
        let made = in_time(stage.most_secs(), make(deps, &provider, &head, &work, stage, again)).await;
        // Nobody asks a provider before this: what goes well until then says nothing of it.
        if stage.asks_the_provider() {
            health::note(deps, provider.name(), &made).await;
        }
        let found = match made {
            Ok(Made::Done(found)) => found,
            Ok(Made::NotYet) => return wait(deps, &head).await,
            // The next try has another sandbox.
            Ok(Made::Broken(why)) => return give_up(deps, &head, Class::Transient, &why).await,
            Err(failure) => return failed(deps, &head, stage, &failure).await,
        };
        let Some(next) = stage.next() else { return Ok(Flow::Again) };
        let asks_now = next.asks_the_provider() && !stage.asks_the_provider();
        if asks_now && let Some(until) = health::closed_until(deps, provider.name()).await? {
            return hold(deps, &head, until).await;
        }
        let Some(after) = begin(deps, &head, next, found).await? else { return Ok(Flow::Lost) };
        if next == Stage::Started {
            return Ok(Flow::Again);
        }
        let now = deps.deps.clock.now();
        if !next.fits(now.as_secs() - begun.as_secs()) {
            return put_off(deps, &after, now).await;
        }
        (head, stage, again) = (after, next, false);
    }
}

/// What is asked of a provider, or that it takes too long: then it may or may not have been done.
pub(super) async fn in_time<T>(
    most_secs: i64,
    asked: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let most = Duration::from_secs(most_secs.unsigned_abs());
    let late = |_| Err(Failure::unreachable(format!("it took longer than {most_secs} seconds")));
    tokio::time::timeout(most, asked).await.unwrap_or_else(late)
}

/// What the sandbox is made for.
struct Work {
    task: Task,
    ticket: Option<Ticket>,
}

/// What came of a stage.
enum Made {
    /// It is done.
    Done(Option<Found>),
    /// The provider is still at it.
    NotYet,
    /// This one will not come to anything.
    Broken(String),
}

async fn make(
    deps: Deps<'_>,
    provider: &Arc<dyn SandboxProvider>,
    head: &Sandbox,
    work: &Work,
    stage: Stage,
    again: bool,
) -> Result<Made, Failure> {
    match stage {
        // The place where a branch of its own will be made.
        Stage::Recorded | Stage::Preparing | Stage::Started => Ok(Made::Done(None)),
        Stage::Creating => {
            let wish = wish(deps, head, &work.task)?;
            // Whoever has asked before only looks, for as long as it is on its way.
            let there = if again { provider.find(&head.id).await? } else { None };
            let found = match there {
                Some(found) if found.state != State::Ready => found,
                // It is not there; or it is, and what can only be done with one that is ready is done now.
                _ => provider.create(&wish).await?,
            };
            match &found.state {
                State::Ready => Ok(Made::Done(Some(found))),
                State::Coming => Ok(Made::NotYet),
                State::Going => Ok(Made::Broken("the provider is removing the sandbox".to_owned())),
                State::Broken(why) => Ok(Made::Broken(format!("the provider could not make it: {why}"))),
            }
        }
        Stage::Uploading => {
            let Some(found) = provider.find(&head.id).await? else { return Ok(gone()) };
            provider.upload(&found).await?;
            Ok(Made::Done(None))
        }
        Stage::Starting => {
            let token = (deps.make_token)(&head.id, head.generation);
            let variables =
                variables::of(deps.deps.orchestration, head, &work.task, work.ticket.as_ref(), token);
            let Some(found) = provider.find(&head.id).await? else { return Ok(gone()) };
            provider.start(&found, &variables).await?;
            Ok(Made::Done(None))
        }
    }
}

fn gone() -> Made {
    Made::Broken("the provider does not have the sandbox any more".to_owned())
}

fn wish(deps: Deps<'_>, head: &Sandbox, task: &Task) -> Result<SandboxSpec, Failure> {
    let layers: Vec<Wanted> = std::iter::once(Wanted::from(&task.execution))
        .chain(deps.deps.orchestration.resources.iter().cloned())
        .collect();
    let resolved = resources::resolve(&layers).map_err(|wrong| Failure::refused(wrong.to_string()))?;
    let labels = [("task", task.id.to_string()), ("org", head.org.to_string())];
    Ok(SandboxSpec {
        name: head.id.clone(),
        plane: deps.deps.orchestration.plane.clone(),
        resources: Resources {
            memory_gb: resolved.memory_gb,
            cpu: resolved.cpu,
            disk_gb: resolved.disk_gb,
            snapshot: resolved.snapshot,
            image: resolved.image,
        },
        asked: Asked { memory_gb: task.execution.memory_gb, cpu: task.execution.cpu },
        labels: labels.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<BTreeMap<_, _>>(),
        lifetime_minutes: deps.deps.orchestration.lifetime_minutes,
    })
}

/// Writes down that a stage begins, and for how long it is ours. What was found before goes with it.
async fn begin(
    deps: Deps<'_>,
    before: &Sandbox,
    stage: Stage,
    found: Option<Found>,
) -> Result<Option<Sandbox>, Error> {
    let Some(spawn) = &before.activity.spawn else { return Ok(None) };
    let now = deps.deps.clock.now();
    let is_new = spawn.stage != stage;
    let mut data = about(before);
    // Not always what was wished for: a snapshot has its own size, and an image may have taken its place.
    if let Some(made_of) = found.as_ref().and_then(|found| found.made_of.as_ref()) {
        data["made_of"] = json!(made_of);
    }
    let told = is_new.then(|| (turn_of(stage), data));
    write(deps.deps, before, told, |after| {
        if after.status == Status::Pending {
            after.status = Status::Creating;
        }
        let mut spawn = if is_new { spawn.at(stage, now) } else { spawn.clone() };
        spawn.lease_until = (stage != Stage::Started).then(|| now.plus_secs(stage.lease_secs()));
        spawn.retry_at = None;
        if let Some(found) = found {
            spawn.provider_id = Some(found.provider_id);
        }
        after.activity.spawn = Some(spawn);
    })
    .await
}

fn turn_of(stage: Stage) -> &'static str {
    match stage {
        Stage::Recorded => "pending",
        Stage::Preparing => "preparing",
        Stage::Creating => "creating",
        Stage::Uploading => "uploading",
        Stage::Starting => "starting",
        Stage::Started => "spawned",
    }
}

fn about(head: &Sandbox) -> Value {
    let assignment = head.assignment.as_ref();
    json!({
        "sandbox_id": head.id,
        "task_id": assignment.map(|assignment| &assignment.task),
        "ticket_id": assignment.and_then(|assignment| assignment.ticket.as_ref()),
        "attempt": assignment.map(|assignment| assignment.attempt),
        "provider": assignment.map(|assignment| &assignment.provider),
    })
}

async fn wait(deps: Deps<'_>, head: &Sandbox) -> Result<Flow, Error> {
    let now = deps.deps.clock.now();
    let since = head.activity.spawn.as_ref().map_or(now, |spawn| spawn.since);
    let until = Timestamp::from_micros(now.as_micros() + poll_interval_ms(since, now) * 1_000);
    put_off(deps, head, until).await
}

/// Lets go of the stage until then.
async fn put_off(deps: Deps<'_>, head: &Sandbox, until: Timestamp) -> Result<Flow, Error> {
    let written = write(deps.deps, head, None, |after| {
        if let Some(spawn) = &mut after.activity.spawn {
            (spawn.lease_until, spawn.retry_at) = (None, Some(until));
        }
    })
    .await?;
    Ok(written.map_or(Flow::Lost, |_| Flow::Rest(Some(until))))
}

/// The same, because the provider is not to be asked before then. The sandbox is not to blame for that.
async fn hold(deps: Deps<'_>, head: &Sandbox, until: Timestamp) -> Result<Flow, Error> {
    let written = write(deps.deps, head, None, |after| {
        if let Some(spawn) = &mut after.activity.spawn {
            (spawn.lease_until, spawn.retry_at, spawn.held_until) = (None, Some(until), Some(until));
        }
    })
    .await?;
    Ok(written.map_or(Flow::Lost, |_| Flow::Rest(Some(until))))
}

async fn failed(deps: Deps<'_>, head: &Sandbox, stage: Stage, failure: &Failure) -> Result<Flow, Error> {
    let before = head.activity.spawn.as_ref().map_or(0, |spawn| spawn.tries);
    let now = deps.deps.clock.now();
    let (tries, secs) = match failure.class {
        FailureClass::Refused => return give_up(deps, head, Class::Permanent, &failure.message).await,
        // Whoever has to wait has not failed.
        FailureClass::Busy { retry_after_secs } => (before, busy_secs(retry_after_secs)),
        FailureClass::Unreachable => (before + 1, backoff_secs(before, jitter(now))),
    };
    tracing::warn!(sandbox.id = %head.id, "{} of sandbox {} failed (try {tries}): {failure}", turn_of(stage), head.id);
    if tries >= MAX_TRIES {
        return give_up(deps, head, Class::Transient, &failure.message).await;
    }
    #[expect(clippy::cast_possible_truncation, reason = "a minute or so")]
    let until = Timestamp::from_micros(now.as_micros() + (secs * 1_000_000.0) as i64);
    let mut data = about(head);
    data["stage"] = json!(turn_of(stage));
    data["error"] = json!(failure.message);
    data["try"] = json!(tries);
    data["not_before"] = json!(until);
    let written = write(deps.deps, head, Some(("retrying", data)), |after| {
        if let Some(spawn) = &mut after.activity.spawn {
            spawn.tries = tries;
            (spawn.lease_until, spawn.retry_at) = (None, Some(until));
        }
    })
    .await?;
    Ok(written.map_or(Flow::Lost, |_| Flow::Rest(Some(until))))
}

async fn give_up(deps: Deps<'_>, head: &Sandbox, class: Class, error: &str) -> Result<Flow, Error> {
    let now = deps.deps.clock.now();
    let error: String = error.chars().take(MAX_ERROR_CHARS).collect();
    let mut data = about(head);
    data["reason"] = json!("not_made");
    data["error"] = json!(error);
    let written = write(deps.deps, head, Some(("failed", data)), |after| {
        after.status = Status::Failed;
        after.activity.ended.get_or_insert(domain::sandbox::Ended { at: now, reason: error.clone() });
        after.activity.outcome = Some(Outcome::Failed { error, class, at: now });
        if let Some(spawn) = &mut after.activity.spawn {
            (spawn.lease_until, spawn.retry_at, spawn.tries) = (None, None, 0);
        }
    })
    .await?;
    Ok(written.map_or(Flow::Lost, |_| Flow::Again))
}

/// How long to wait for a provider that is asked too much.
#[expect(clippy::cast_precision_loss, reason = "a few minutes")]
pub(super) fn busy_secs(retry_after_secs: Option<u64>) -> f64 {
    retry_after_secs.unwrap_or(USUAL_RETRY_AFTER_SECS).min(MAX_RETRY_AFTER_SECS) as f64
}

/// Anything from 0 to 1, from the time.
pub(super) fn jitter(now: Timestamp) -> f64 {
    f64::from(u32::try_from(now.as_micros().rem_euclid(1_000)).unwrap_or(0)) / 1_000.0
}
