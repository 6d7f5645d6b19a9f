use super::*;
use crate::record::ChangeRecord;
use domain::{SandboxId, TaskId, TicketId};

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

/// Text that hardly compresses, different for each seed.
fn noise(seed: u64, bytes: usize) -> String {
    let mut state = seed;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b' ' + u8::try_from((state >> 33) % 90).unwrap())
    };
    (0..bytes).map(next).filter(|c| !matches!(c, '"' | '\\')).collect()
}

#[test]
fn segment_parses_as_a_change_record_of_its_entity() {
    let org = OrgId::parse("acme").unwrap();
    for entity in entities() {
        let log = LogOf { entity: &entity, org: &org, generation: 1 };
        let events = [event("task.created", "a"), event("task.ready", "b")];
        let written = log_items(log, 7, Timestamp::from_secs(0), &events).unwrap().unwrap();
        assert_eq!((written.segments.len(), written.bodies.len()), (1, 0));
        let record = ChangeRecord::of(&written.segments[0]).unwrap().unwrap();
        assert_eq!((&record.entity, &record.org, record.generation), (&entity, &org, 1));
        let events: Vec<_> =
            record.events.iter().map(|event| (event.seq, event.event_type.as_str())).collect();
        assert_eq!(events, [(Some(7), "task.created"), (Some(8), "task.ready")]);
        let (name, value) = keys::LIFECYCLE;
        assert_eq!(written.segments[0].get(name), Some(&text(value)));
    }
}

#[test]
fn large_batch_is_split_into_several_segments() {
    let org = OrgId::parse("acme").unwrap();
    let events: Vec<NewEvent> = (1..=3).map(|seed| event("task.updated", &noise(seed, 200_000))).collect();
    for entity in entities() {
        let log = LogOf { entity: &entity, org: &org, generation: 1 };
        let written = log_items(log, 1, Timestamp::from_secs(0), &events).unwrap().unwrap();
        let seqs: Vec<u64> = written
            .segments
            .iter()
            .flat_map(|item| ChangeRecord::of(item).unwrap().unwrap().events)
            .filter_map(|event| event.seq)
            .collect();
        assert!(written.segments.len() > 1);
        assert_eq!(seqs, [1, 2, 3]);
    }
}

#[test]
fn only_logs_of_sandboxes_accept_data_above_the_inline_limit() {
    let org = OrgId::parse("acme").unwrap();
    let events = [event("task.created", "small"), event("task.updated", &noise(1, MAX_INLINE_BYTES * 2))];
    let stored = entities().map(|entity| {
        let log = LogOf { entity: &entity, org: &org, generation: 1 };
        log_items(log, 1, Timestamp::from_secs(0), &events).unwrap().map(|written| written.segments.len())
    });
    assert_eq!(stored, [Some(1), None, None]);
}

#[test]
fn empty_batch_has_no_segment() {
    let (org, [sandbox, ..]) = (OrgId::parse("acme").unwrap(), entities());
    let log = LogOf { entity: &sandbox, org: &org, generation: 1 };
    let written = log_items(log, 1, Timestamp::from_secs(0), &[]).unwrap().unwrap();
    assert_eq!((written.segments.len(), written.bodies.len()), (0, 0));
}
