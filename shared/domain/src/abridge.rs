//! Making an event's data fit: the largest top-level fields are left out and named, the rest stays readable.

use crate::JsonObject;

/// An object cut down to a size, and the names of the fields that were left out.
#[derive(Debug, Clone, PartialEq)]
pub struct Abridged {
    /// What is left.
    pub data: JsonObject,
    /// What was taken out, largest first. Empty when everything fitted.
    pub omitted: Vec<String>,
}

/// Leaves out whole top-level fields, largest first, until the text is at most `budget_bytes` long.
///
/// A card with a file's path and line counts is worth more than a cut diff: fields are never cut in two.
pub fn abridge(data: &JsonObject, budget_bytes: usize) -> Abridged {
    if data.text().len() <= budget_bytes {
        return Abridged { data: data.clone(), omitted: Vec::new() };
    }
    let fields = data.fields();
    let cost = |(name, raw): &(String, &serde_json::value::RawValue)| name.len() + raw.get().len() + 4;
    let mut by_size: Vec<usize> = (0..fields.len()).collect();
    by_size.sort_by_key(|&index| std::cmp::Reverse(cost(&fields[index])));
    let mut size = 2 + fields.iter().map(cost).sum::<usize>();
    let mut omitted = Vec::new();
    for index in by_size {
        if size <= budget_bytes {
            break;
        }
        size -= cost(&fields[index]);
        omitted.push(index);
    }
    let kept = fields.iter().enumerate().filter(|(index, _)| !omitted.contains(index));
    Abridged {
        data: JsonObject::from_fields(kept.map(|(_, (name, raw))| (name.as_str(), *raw))),
        // A hostile object may have thousands of fields; the list of names must not outgrow what it replaces.
        omitted: omitted.iter().take(20).map(|&index| clip(&fields[index].0)).collect(),
    }
}

fn clip(name: &str) -> String {
    name.chars().take(100).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_largest_fields_go_first_and_the_rest_stays() {
        let data = JsonObject::of(&serde_json::json!({
            "file_path": "src/main.rs", "full_diff": "x".repeat(5_000), "lines_added": 7, "note": "y".repeat(900),
        }));
        let abridged = abridge(&data, 1_200);
        assert_eq!(abridged.omitted, ["full_diff"]);
        assert_eq!(abridged.data.string("file_path").as_deref(), Some("src/main.rs"));
        assert_eq!(abridge(&data, 10_000).omitted, Vec::<String>::new());
    }

    proptest! {
        #[test]
        fn the_result_always_fits(sizes in proptest::collection::vec(0usize..400, 0..30), budget in 2usize..2_000) {
            let map: serde_json::Map<_, _> =
                sizes.iter().enumerate().map(|(i, n)| (format!("f{i}"), "z".repeat(*n).into())).collect();
            let abridged = abridge(&JsonObject::of(&map), budget);
            prop_assert!(abridged.data.text().len() <= budget);
        }
    }
}
