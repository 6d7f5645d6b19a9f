//! What the catalogue of event types says of the sources, and the sources of it.

use crate::architecture::sources;
use domain::event::catalogue::{EMITTED_BY_THE_PLANE, EMITTED_BY_THE_WORKER};
use std::collections::BTreeSet;

/// Texts in quotes, in the sources of a folder without their tests. What stands between two of them is among it, and
/// never looks like one.
fn literals(folder: &str) -> BTreeSet<String> {
    let files = sources().into_iter().filter(|(file, _)| file.starts_with(folder));
    files.flat_map(|(_, code)| code.split('"').map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// `agent.message`, and nothing else that has a dot.
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
fn the_worker_tells_what_is_in_the_catalogue_and_all_of_it() {
    let (literals, families) = (literals("worker/src"), families(EMITTED_BY_THE_WORKER));
    let told: BTreeSet<&str> =
        literals.iter().map(String::as_str).filter(|text| is_event_type(text, &families)).collect();
    let listed: BTreeSet<&str> = EMITTED_BY_THE_WORKER.iter().copied().collect();
    assert_eq!(told, listed, "domain::event::catalogue, on the right, is what the console knows how to show");
}

/// That nothing else is told is asserted where it is made up: `EventType::of_task` and its like.
#[test]
fn the_plane_tells_everything_that_is_in_the_catalogue() {
    let words: BTreeSet<String> =
        literals("shared/domain/src").into_iter().chain(literals("shared/app/src")).collect();
    // The catalogue itself names them in full, so only the bare words count.
    for name in EMITTED_BY_THE_PLANE {
        let (_, word) = name.split_once('.').unwrap();
        assert!(words.contains(word), "nobody tells {name}");
    }
    let families = families(EMITTED_BY_THE_PLANE);
    for text in words.iter().filter(|text| is_event_type(text, &families)) {
        assert!(EMITTED_BY_THE_PLANE.contains(&text.as_str()), "{text} is not in the catalogue");
    }
}
