//! The catalogue of event types agrees with the sources.

use crate::architecture::sources;
use domain::event::catalogue::{EMITTED_BY_THE_PLANE, EMITTED_BY_THE_WORKER};
use std::collections::BTreeSet;

/// String literals in the sources of a folder, without tests. Splitting at quotes also returns the code between two
/// literals, which never looks like an event type.
fn literals(folder: &str) -> BTreeSet<String> {
    let files = sources().into_iter().filter(|(file, _)| file.starts_with(folder));
    files.flat_map(|(_, code)| code.split('"').map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// Matches `agent.message`, but not other text with a dot.
fn is_event_type(text: &str, families: &BTreeSet<&str>) -> bool {
    text.split_once('.').is_some_and(|(family, name)| {
        let is_word = |c: char| c.is_ascii_lowercase() || c == '_';
        families.contains(family) && !name.is_empty() && name.chars().all(is_word)
    })
}

fn families(names: &[&'static str]) -> BTreeSet<&'static str> {
    names.iter().filter_map(|name| name.split_once('.')).map(|(family, _)| family).collect()
}

#[test]
fn worker_event_types_match_the_catalogue() {
    let (literals, families) = (literals("worker/src"), families(EMITTED_BY_THE_WORKER));
    let emitted: BTreeSet<&str> =
        literals.iter().map(String::as_str).filter(|text| is_event_type(text, &families)).collect();
    let listed: BTreeSet<&str> = EMITTED_BY_THE_WORKER.iter().copied().collect();
    assert_eq!(
        emitted, listed,
        "update domain::event::catalogue (on the right): the console renders what it lists"
    );
}

/// The constructors, such as `EventType::of_task`, assert that the plane emits nothing else.
#[test]
fn plane_event_types_match_the_catalogue() {
    let literals: BTreeSet<String> =
        literals("shared/domain/src").into_iter().chain(literals("shared/app/src")).collect();
    // The catalogue itself contains the full names, so look for the name without its family.
    for name in EMITTED_BY_THE_PLANE {
        let (_, bare_name) = name.split_once('.').unwrap();
        assert!(literals.contains(bare_name), "the sources never emit {name}");
    }
    let families = families(EMITTED_BY_THE_PLANE);
    for text in literals.iter().filter(|text| is_event_type(text, &families)) {
        assert!(EMITTED_BY_THE_PLANE.contains(&text.as_str()), "{text} is not in the catalogue");
    }
}
