use super::*;

#[test]
fn segments_sort_by_number_and_are_found_by_partition() {
    let id = SandboxId::parse("s-1").unwrap();
    let entity = Entity::Sandbox(id.clone());
    let mut keys: Vec<_> = [100, 9, 20_000, 1].map(|seq| segment(&entity, seq).sk).into();
    keys.sort();
    assert_eq!(keys, [1, 9, 100, 20_000].map(|seq| segment(&entity, seq).sk));
    assert!(keys.iter().all(|sk| is_broadcast(sk)));
    assert!(!is_broadcast(&sandbox(&id).sk) && !is_broadcast(&body(&id, 1, 0).sk));
    assert!(is_broadcast(&ephemeral(&id, 0).sk) && is_broadcast(&ephemeral(&id, 1).sk));
    assert_eq!((self::entity(&entity), segment(&entity, 7).pk), (sandbox(&id), sandbox(&id).pk));
}

#[test]
fn partition_identifies_kind_and_id_of_an_entity() {
    let entities = [
        Entity::Sandbox(SandboxId::parse("x-1").unwrap()),
        Entity::Task(TaskId::parse("x-1").unwrap()),
        Entity::Ticket(TicketId::parse("x-1").unwrap()),
    ];
    let partitions = entities.each_ref().map(partition);
    assert_eq!(partitions, ["SANDBOX#x-1", "TASK#x-1", "TICKET#x-1"]);
    assert_eq!(partitions.map(|pk| entity_of(&pk)), entities.map(Some));
    for other in ["SESSION#x-1", "TASK#", "TASK", "TASK#a#b", "x-1"] {
        assert_eq!(entity_of(other), None, "{other}");
    }
}

#[test]
fn entries_sort_by_number_and_then_by_piece() {
    let id = SessionId::parse("c0ffee").unwrap();
    let places = [(1, 0), (9, 0), (9, 1), (9, 10), (10, 0), (20_000, 0), (u64::MAX, 0)];
    let mut keys: Vec<_> = places.map(|(first, piece)| entries(&id, first, piece).sk).into();
    keys.reverse();
    keys.sort();
    assert_eq!(keys, places.map(|(first, piece)| entries(&id, first, piece).sk));
    assert!(keys.iter().all(|sk| !is_broadcast(sk)));
}

#[test]
fn urgent_messages_sort_first() {
    let id = SandboxId::parse("s-1").unwrap();
    let mut waiting: Vec<_> = [(false, 9), (true, 100), (false, 20_000), (true, 8)]
        .map(|(urgent, n)| waiting(&id, urgent, n).sk)
        .into();
    waiting.sort();
    let ends: Vec<_> = waiting.iter().map(|sk| sk.trim_start_matches(WAITING)).collect();
    assert_eq!(ends, ["0#000000000008", "0#000000000100", "1#000000000009", "1#000000020000"]);
}
