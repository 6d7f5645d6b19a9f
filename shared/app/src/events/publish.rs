//! Tells the account's event bus of turns in the lives of sandboxes, tasks and tickets.

use crate::error::Error;
use contract::notice::Detail;
use store::Bus;
use store::bus::Notice;
use store::record::ChangeRecord;

/// What it touches.
#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    /// Publishes.
    pub bus: &'a Bus,
}

/// What was stored, in order.
pub type Command = Vec<ChangeRecord>;

/// How many turns were published.
pub type Outcome = usize;

/// Publishes the turns and passes over the chatter. A repeat publishes them again: whoever listens knows them by
/// `entity_id` and `seq`.
pub async fn run(deps: Deps<'_>, news: Command) -> Result<Outcome, Error> {
    let notices: Vec<Notice> = news.iter().flat_map(notices_of).collect();
    deps.bus.publish(&notices).await?;
    Ok(notices.len())
}

fn notices_of(news: &ChangeRecord) -> impl Iterator<Item = Notice> {
    let turns = news.events.iter().filter(|event| event.event_type.is_lifecycle());
    turns.map(|event| {
        let detail = Detail::new(&news.org, &news.entity, event);
        Notice { detail_type: detail.frame.event_type.clone(), detail: detail.encode() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::{
        Entity, Event, EventId, EventType, JsonObject, OrgId, SandboxId, Source, TaskId, Timestamp,
    };

    fn event(seq: u64, name: &str) -> Event {
        Event {
            seq: Some(seq),
            id: EventId::parse(format!("e-{seq}")).unwrap(),
            event_type: EventType::parse(name).unwrap(),
            source: Source::Worker,
            data: serde_json::from_str::<JsonObject>(r#"{"ok":true}"#).unwrap(),
            created_at: Timestamp::from_secs(0),
            emitted_at: None,
            body: None,
        }
    }

    #[test]
    fn turns_are_published_with_their_org_and_chatter_is_not() {
        let news = ChangeRecord {
            entity: Entity::Sandbox(SandboxId::parse("s-1").unwrap()),
            org: OrgId::parse("acme").unwrap(),
            generation: 1,
            events: vec![event(1, "agent.started"), event(2, "agent.message"), event(3, "agent.completed")],
        };
        let notices: Vec<Notice> = notices_of(&news).collect();
        let types: Vec<&str> = notices.iter().map(|notice| notice.detail_type.as_str()).collect();
        assert_eq!(types, ["SANDBOX_AGENT_STARTED", "SANDBOX_AGENT_COMPLETED"]);
        let detail: serde_json::Value = serde_json::from_str(&notices[1].detail).unwrap();
        assert_eq!(
            (&detail["org"], &detail["entity_id"], &detail["seq"]),
            (&"acme".into(), &"s-1".into(), &3.into())
        );
        assert_eq!(detail["payload"]["ok"], true);
    }

    #[test]
    fn every_event_of_a_task_is_a_turn_and_is_published_as_the_tasks() {
        let news = ChangeRecord {
            entity: Entity::Task(TaskId::parse("t-1").unwrap()),
            org: OrgId::parse("acme").unwrap(),
            generation: 1,
            events: vec![event(1, "task.created"), event(2, "task.needs_revision")],
        };
        let notices: Vec<Notice> = notices_of(&news).collect();
        let types: Vec<&str> = notices.iter().map(|notice| notice.detail_type.as_str()).collect();
        assert_eq!(types, ["TASK_CREATED", "TASK_NEEDS_REVISION"]);
        let detail: serde_json::Value = serde_json::from_str(&notices[0].detail).unwrap();
        assert_eq!(
            (&detail["org"], &detail["entity_type"], &detail["entity_id"]),
            (&"acme".into(), &"task".into(), &"t-1".into())
        );
    }
}
