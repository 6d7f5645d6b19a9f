use super::*;
use crate::record::ChangeRecord;
use domain::{TaskId, TicketId};

fn event(name: &str, data: &str) -> NewEvent {
    NewEvent {
        id: EventId::parse("e-1").unwrap(),
        event_type: EventType::parse(name).unwrap(),
        source: Source::System,
        data: JsonObject::of(&serde_json::json!({"text": data})),
        emitted_at: None,
    }
}

fn entities() -> [Entity; 3] {
    [
        Entity::Sandbox(SandboxId::parse("x-1").unwrap()),
        Entity::Task(TaskId::parse("x-1").unwrap()),
        Entity::Ticket(TicketId::parse("x-1").unwrap()),
    ]
}

/// Text that hardly compresses, another for each seed.
fn noise(seed: u64, bytes: usize) -> String {
    let mut state = seed;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b' ' + u8::try_from((state >> 33) % 90).unwrap())
    };
    (0..bytes).map(next).filter(|c| !matches!(c, '"' | '\\')).collect()
}

#[test]
fn what_is_written_to_any_log_is_news_of_its_owner() {
    let org = OrgId::parse("acme").unwrap();
    for entity in entities() {
        let log = LogOf { entity: &entity, org: &org, generation: 1 };
        let events = [event("task.created", "a"), event("task.ready", "b")];
        let written = written(log, 7, Timestamp::from_secs(0), &events).unwrap().unwrap();
        assert_eq!((written.items.len(), written.segments), (1, 1));
        let news = ChangeRecord::of(&written.items[0]).unwrap().unwrap();
        assert_eq!((&news.entity, &news.org, news.generation), (&entity, &org, 1));
        let told: Vec<_> = news.events.iter().map(|event| (event.seq, event.event_type.as_str())).collect();
        assert_eq!(told, [(Some(7), "task.created"), (Some(8), "task.ready")]);
        let (name, value) = keys::LIFECYCLE;
        assert_eq!(written.items[0].get(name), Some(&text(value)));
    }
}

#[test]
fn events_that_do_not_fit_one_item_make_several_segments() {
    let org = OrgId::parse("acme").unwrap();
    let events: Vec<NewEvent> = (1..=3).map(|seed| event("task.updated", &noise(seed, 200_000))).collect();
    for entity in entities() {
        let log = LogOf { entity: &entity, org: &org, generation: 1 };
        let written = written(log, 1, Timestamp::from_secs(0), &events).unwrap().unwrap();
        assert_eq!(written.items.len() as u64, written.segments);
        let seqs: Vec<u64> = written
            .items
            .iter()
            .flat_map(|item| ChangeRecord::of(item).unwrap().unwrap().events)
            .filter_map(|event| event.seq)
            .collect();
        assert!(written.segments > 1);
        assert_eq!(seqs, [1, 2, 3]);
    }
}

#[test]
fn data_that_must_stand_apart_is_refused_where_there_is_no_room_for_it() {
    let org = OrgId::parse("acme").unwrap();
    let events = [event("task.created", "small"), event("task.updated", &noise(1, MAX_INLINE_BYTES * 2))];
    let stored = entities().map(|entity| {
        let log = LogOf { entity: &entity, org: &org, generation: 1 };
        written(log, 1, Timestamp::from_secs(0), &events).unwrap().map(|written| written.segments)
    });
    assert_eq!(stored, [Some(1), None, None]);
}

#[test]
fn nothing_makes_no_segment() {
    let (org, [sandbox, ..]) = (OrgId::parse("acme").unwrap(), entities());
    let log = LogOf { entity: &sandbox, org: &org, generation: 1 };
    let written = written(log, 1, Timestamp::from_secs(0), &[]).unwrap().unwrap();
    assert_eq!((written.items.len(), written.segments), (0, 0));
}
