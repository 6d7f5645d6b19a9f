//! Abridges an event's data to a maximum size: the largest top-level fields are omitted and named.

use crate::JsonObject;

#[derive(Debug, Clone, PartialEq)]
pub struct Abridged {
    pub data: JsonObject,
    /// Names of the omitted fields, largest first. Empty if everything fits.
    pub omitted: Vec<String>,
}

/// Omits whole top-level fields, largest first, until the text is at most `budget_bytes` long.
///
/// Fields are never truncated: an event with a file's path and line counts is more useful than half a diff.
pub fn omit_large_fields(data: &JsonObject, budget_bytes: usize) -> Abridged {
    if data.text().len() <= budget_bytes {
        return Abridged { data: data.clone(), omitted: Vec::new() };
    }
    let fields = data.fields();
    let costs: Vec<usize> =
        fields.iter().map(|(name, raw)| escaped_len(name) + raw.get().len() + 2).collect();
    let mut by_size: Vec<usize> = (0..fields.len()).collect();
    by_size.sort_by_key(|&index| std::cmp::Reverse(costs[index]));
    let mut size = 2 + costs.iter().sum::<usize>();
    let mut omit_count = 0;
    while size > budget_bytes && omit_count < by_size.len() {
        size -= costs[by_size[omit_count]];
        omit_count += 1;
    }
    let (omitted, kept) = by_size.split_at(omit_count);
    let mut kept = kept.to_vec();
    kept.sort_unstable();
    Abridged {
        data: JsonObject::from_fields(kept.iter().map(|&index| (fields[index].0.as_str(), fields[index].1))),
        omitted: names(omitted.iter().map(|&index| fields[index].0.as_str())),
    }
}

/// An object may have thousands of fields: the list of their names must not outgrow what it replaces.
fn names<'a>(omitted: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut left = MAX_NAMES_BYTES;
    let fitting = omitted.take_while(|name| {
        let fits = escaped_len(name) < left;
        left = left.saturating_sub(escaped_len(name) + 1);
        fits
    });
    fitting.map(str::to_owned).collect()
}

/// Maximum size of the names of omitted fields as JSON.
pub const MAX_NAMES_BYTES: usize = 1024;

/// Length of a name as JSON: a control character takes six bytes.
fn escaped_len(name: &str) -> usize {
    serde_json::to_string(name).map_or(name.len() * 6, |text| text.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_largest_fields_are_omitted_first() {
        let data = JsonObject::of(&serde_json::json!({
            "file_path": "src/main.rs", "full_diff": "x".repeat(5_000), "lines_added": 7, "note": "y".repeat(900),
        }));
        let abridged = omit_large_fields(&data, 1_200);
        assert_eq!(abridged.omitted, ["full_diff"]);
        assert_eq!(abridged.data.string("file_path").as_deref(), Some("src/main.rs"));
        assert_eq!(omit_large_fields(&data, 10_000).omitted, Vec::<String>::new());
    }

    #[test]
    fn an_object_with_very_many_fields_is_abridged_quickly() {
        let map: serde_json::Map<_, _> = (0..200_000).map(|n| (format!("{n}"), n.into())).collect();
        let abridged = omit_large_fields(&JsonObject::of(&map), 1_000);
        assert!(abridged.data.text().len() <= 1_000);
    }

    proptest! {
        #[test]
        fn the_result_always_fits(sizes in proptest::collection::vec(0usize..400, 0..30), budget in 2usize..2_000) {
            // Names with characters that JSON escapes.
            let name = |i: usize, n: usize| format!("{}{i}", "\u{1}".repeat(n % 50));
            let map: serde_json::Map<_, _> =
                sizes.iter().enumerate().map(|(i, n)| (name(i, *n), "z".repeat(*n).into())).collect();
            let abridged = omit_large_fields(&JsonObject::of(&map), budget);
            prop_assert!(abridged.data.text().len() <= budget);
            prop_assert!(serde_json::to_string(&abridged.omitted).unwrap().len() <= MAX_NAMES_BYTES + 2);
        }
    }
}
