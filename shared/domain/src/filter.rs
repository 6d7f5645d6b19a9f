//! Filters of a subscription, and the topics under which it is stored.

use crate::event::normalized_name;
use crate::{Invalid, id::MAX_ID_CHARS};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Maximum number of values in one list of a filter: the old and new topics of a change are written in one transaction,
/// which is limited to 100 items.
pub const MAX_VALUES: usize = 40;

/// AND across the three lists, OR within each; an empty list does not restrict.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Filters {
    /// Normalized event names ([`normalized_name`]).
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub event_types: BTreeSet<String>,
    /// `sandbox`, `task`, `ticket`, …
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub entity_types: BTreeSet<String>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub entity_ids: BTreeSet<String>,
}

/// A change of filters: a list that is present replaces the previous one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FilterChange {
    /// Event names in any spelling. Also `event_type`; both are joined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_types: Option<Vec<String>>,
    /// `sandbox`, `task`, `ticket`. Also `entity_type`; both are joined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entity_types: Option<Vec<String>>,
    /// Also `entity_id`; both are joined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entity_ids: Option<Vec<String>>,
}

/// What a filter is matched against.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The normalized name ([`normalized_name`]).
    pub event_name: &'a str,
    pub entity_type: &'a str,
    pub entity_id: &'a str,
}

impl Filters {
    pub fn changed(&self, change: FilterChange) -> Result<Self, Invalid> {
        let list = |field: &str, new: Option<Vec<String>>, old: &BTreeSet<String>| match new {
            None => Ok(old.clone()),
            Some(values) => checked(field, values),
        };
        let event_types = list("event_types", change.event_types, &self.event_types)?;
        Ok(Self {
            event_types: event_types.iter().map(|name| normalized_name(name)).collect(),
            entity_types: list("entity_types", change.entity_types, &self.entity_types)?,
            entity_ids: list("entity_ids", change.entity_ids, &self.entity_ids)?,
        })
    }

    pub fn matches(&self, subject: Subject<'_>) -> bool {
        let passes = |list: &BTreeSet<String>, value: &str| list.is_empty() || list.contains(value);
        passes(&self.event_types, subject.event_name)
            && passes(&self.entity_types, subject.entity_type)
            && passes(&self.entity_ids, subject.entity_id)
    }

    /// The topics under which a subscription with these filters is stored: those of its most selective list.
    ///
    /// **Invariant:** an event that matches the filters has one of these among [`topics_of`]. So a broadcast that queries
    /// the event's topics misses no subscriber, and never reads subscribers of other entities.
    pub fn topics(&self) -> Vec<String> {
        let each = |list: &BTreeSet<String>, kind: &str| list.iter().map(|v| format!("{kind}/{v}")).collect();
        if !self.entity_ids.is_empty() {
            each(&self.entity_ids, "entity")
        } else if !self.event_types.is_empty() {
            each(&self.event_types, "event")
        } else if !self.entity_types.is_empty() {
            each(&self.entity_types, "type")
        } else {
            vec!["all".to_owned()]
        }
    }
}

/// Every topic under which a subscription that matches this event may be stored.
pub fn topics_of(subject: Subject<'_>) -> [String; 4] {
    [
        format!("entity/{}", subject.entity_id),
        format!("event/{}", subject.event_name),
        format!("type/{}", subject.entity_type),
        "all".to_owned(),
    ]
}

fn checked(field: &str, values: Vec<String>) -> Result<BTreeSet<String>, Invalid> {
    let values: BTreeSet<String> =
        values.into_iter().map(|v| v.trim().to_owned()).filter(|v| !v.is_empty()).collect();
    if values.len() > MAX_VALUES {
        return Err(Invalid::new(field, format!("must contain at most {MAX_VALUES} values")));
    }
    if values.iter().any(|v| v.len() > MAX_ID_CHARS) {
        return Err(Invalid::new(field, format!("must contain values of at most {MAX_ID_CHARS} characters")));
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filters(event_types: &[&str], entity_types: &[&str], entity_ids: &[&str]) -> Filters {
        let list = |values: &[&str]| Some(values.iter().map(ToString::to_string).collect());
        Filters::default()
            .changed(FilterChange {
                event_types: list(event_types),
                entity_types: list(entity_types),
                entity_ids: list(entity_ids),
            })
            .unwrap()
    }

    const EVENT: Subject<'_> =
        Subject { event_name: "AGENT_TOOL_USE", entity_type: "sandbox", entity_id: "s-1" };

    #[test]
    fn filters_are_and_across_lists_and_or_within() {
        assert!(filters(&[], &[], &[]).matches(EVENT));
        assert!(filters(&["agent.tool_use", "x"], &["task", "sandbox"], &["s-1"]).matches(EVENT));
        assert!(filters(&["SANDBOX_agent.tool_use"], &[], &[]).matches(EVENT));
        assert!(!filters(&["agent.tool_use"], &["task"], &[]).matches(EVENT));
        assert!(!filters(&[], &["sandbox"], &["s-2"]).matches(EVENT));
    }

    #[test]
    fn a_change_replaces_only_the_lists_that_it_names() {
        let before = filters(&["agent.message"], &[], &["s-1"]);
        let after = before
            .changed(FilterChange { entity_ids: Some(vec!["s-2".into()]), ..Default::default() })
            .unwrap();
        assert_eq!(after, filters(&["agent.message"], &[], &["s-2"]));
        let open = after.changed(FilterChange { entity_ids: Some(vec![]), ..Default::default() }).unwrap();
        assert_eq!(open, filters(&["agent.message"], &[], &[]));
    }

    #[test]
    fn a_list_that_is_too_long_is_rejected() {
        let many = (0..=MAX_VALUES).map(|i| i.to_string()).collect();
        let change = FilterChange { entity_ids: Some(many), ..Default::default() };
        assert_eq!(Filters::default().changed(change).unwrap_err().field, "entity_ids");
    }

    proptest! {
        #[test]
        fn a_matching_subscription_is_found_under_a_topic_of_the_event(
            names in proptest::collection::vec("[ab]", 0..3),
            kinds in proptest::collection::vec("[cd]", 0..3),
            ids in proptest::collection::vec("[ef]", 0..3),
            (name, kind, id) in ("[AB]", "[cd]", "[ef]"),
        ) {
            let refs = |values: &[String]| values.iter().map(String::as_str).map(str::to_owned).collect::<Vec<_>>();
            let filters = Filters::default().changed(FilterChange {
                event_types: Some(refs(&names)), entity_types: Some(refs(&kinds)), entity_ids: Some(refs(&ids)),
            }).unwrap();
            let subject = Subject { event_name: &name, entity_type: &kind, entity_id: &id };
            if filters.matches(subject) {
                let topics = topics_of(subject);
                prop_assert!(filters.topics().iter().any(|topic| topics.contains(topic)));
            }
        }
    }
}
