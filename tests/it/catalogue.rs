//! What the catalogue of event types says of the sources, and the sources of it.

use domain::event::catalogue::{TOLD_BY_THE_PLANE, TOLD_BY_THE_WORKER};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Texts in quotes, in the sources of a folder without their tests.
fn literals(folder: &str) -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = BTreeSet::new();
    let mut folders = vec![root.join(folder)];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() && !is_of_tests(&path) {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") && !is_of_tests(&path) {
                let text = fs::read_to_string(&path).unwrap();
                let tested = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
                found.extend(tested.split('"').map(str::to_owned));
            }
        }
    }
    found
}

fn is_of_tests(path: &PathBuf) -> bool {
    let name = path.file_stem().unwrap().to_str().unwrap();
    name.ends_with("tests") || name == "golden" || name == "fake_plane"
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
    let (literals, families) = (literals("worker/src"), families(TOLD_BY_THE_WORKER));
    let told: BTreeSet<&str> =
        literals.iter().map(String::as_str).filter(|text| is_event_type(text, &families)).collect();
    let listed: BTreeSet<&str> = TOLD_BY_THE_WORKER.iter().copied().collect();
    assert_eq!(told, listed, "domain::event::catalogue, on the right, is what the console knows how to show");
}

/// That nothing else is told is asserted where it is made up: `EventType::of_task` and its like.
#[test]
fn the_plane_tells_everything_that_is_in_the_catalogue() {
    let words: BTreeSet<String> =
        literals("shared/domain/src").into_iter().chain(literals("shared/app/src")).collect();
    // The catalogue itself names them in full, so only the bare words count.
    for name in TOLD_BY_THE_PLANE {
        let (_, word) = name.split_once('.').unwrap();
        assert!(words.contains(word), "nobody tells {name}");
    }
    let families = families(TOLD_BY_THE_PLANE);
    for text in words.iter().filter(|text| is_event_type(text, &families)) {
        assert!(TOLD_BY_THE_PLANE.contains(&text.as_str()), "{text} is not in the catalogue");
    }
}
