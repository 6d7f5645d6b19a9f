//! How urgent a task is, and where that puts it in the queue.
//!
//! There are two measures because a queue cannot be sorted by something that changes while it stands there. The
//! [`score`] is the truth at one moment, and costs a look at every task. The [`rank`] is a sort key that is written once
//! and stays right: all who wait grow older at the same rate, so who is ahead of whom does not change with time.
//!
//! The two agree exactly (to the microsecond) among tasks without a deadline that have waited for less than an hour.
//! Where they differ, the rank is the coarse sieve and the score decides: a claim reads a window of candidates by rank,
//! and those with a deadline beside them, scores each of them exactly, and breaks ties (after two hours most score the
//! same) by rank. Beyond the hour the score stops growing; the rank goes on favouring the older, which is what brings
//! everybody into the window at last.
//!
//! What the rank promises, the score by itself does not: a stream of critical tasks that many wait for scores 0.65 on
//! arrival, and one that has waited long may stay at its floor of 0.6. Whoever claims by score keeps the promise by
//! taking the first by rank now and then.

use crate::Timestamp;
use crate::task::{Priority, Task};

/// How much each part counts, and when. The defaults are those of OmoiOS.
#[derive(Debug, Clone, PartialEq)]
pub struct Weights {
    /// Of the priority.
    pub priority: f64,
    /// Of the time that it has waited.
    pub age: f64,
    /// Of the deadline's nearness.
    pub deadline: f64,
    /// Of how many wait for it.
    pub dependents: f64,
    /// Of the tries that it has left.
    pub retries: f64,
    /// After this long, age counts in full.
    pub age_full_secs: f64,
    /// A deadline nearer than this counts, and makes all of it more urgent.
    pub deadline_near_secs: f64,
    /// By how much a near deadline makes it more urgent.
    pub deadline_boost: f64,
    /// With so many who wait for it, that part counts in full.
    pub dependents_full: f64,
    /// After this long, the score is at least `waited_long_floor`.
    pub waited_long_secs: f64,
    /// The least score of what has waited long.
    pub waited_long_floor: f64,
}

impl Default for Weights {
    fn default() -> Self {
        Self {
            priority: 0.45,
            age: 0.20,
            deadline: 0.15,
            dependents: 0.15,
            retries: 0.05,
            age_full_secs: 3_600.0,
            deadline_near_secs: 900.0,
            deadline_boost: 1.25,
            dependents_full: 10.0,
            waited_long_secs: 7_200.0,
            waited_long_floor: 0.6,
        }
    }
}

/// What of a task counts for its urgency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScoreInputs {
    /// How much it matters.
    pub priority: Priority,
    /// Since when it waits.
    pub created_at: Timestamp,
    /// When it should be done.
    pub deadline_at: Option<Timestamp>,
    /// How many tasks wait for it.
    pub dependents: u32,
    /// How often it was tried again.
    pub retry_count: u32,
    /// How often it may be.
    pub max_retries: u32,
}

impl From<&Task> for ScoreInputs {
    fn from(task: &Task) -> Self {
        Self {
            priority: task.priority,
            created_at: task.created_at,
            deadline_at: task.deadline_at,
            dependents: task.dependents,
            retry_count: task.retry_count,
            max_retries: task.max_retries,
        }
    }
}

/// How urgent it is at `now`: larger is more urgent. Every part lies between 0 and 1 before it is weighed.
pub fn score(inputs: &ScoreInputs, now: Timestamp, weights: &Weights) -> f64 {
    let age_secs = secs_between(inputs.created_at, now);
    let slack_secs = inputs.deadline_at.map(|deadline_at| secs_between(now, deadline_at));
    let age = (age_secs / weights.age_full_secs).clamp(0.0, 1.0);
    let deadline = slack_secs.map_or(0.0, |slack| (1.0 - slack / weights.deadline_near_secs).clamp(0.0, 1.0));
    let mut score = static_part(inputs, weights) + weights.age * age + weights.deadline * deadline;
    if slack_secs.is_some_and(|slack| (0.0..=weights.deadline_near_secs).contains(&slack)) {
        score *= weights.deadline_boost;
    }
    if age_secs >= weights.waited_long_secs { score.max(weights.waited_long_floor) } else { score }
}

/// Its place in the queue: smaller is sooner. In microseconds since 1970, because everything but age is expressed as
/// having been created earlier: with the usual weights at most 3 h 15 min earlier.
///
/// **Invariant:** among tasks without a deadline that have waited for less than an hour, smaller rank is larger score,
/// at any moment.
///
/// **Invariant:** a task is overtaken only by what was created within those 3 h 15 min after it. So nobody starves.
pub fn rank(inputs: &ScoreInputs, weights: &Weights) -> i64 {
    // Without a weight for age there would be no exchange rate between urgency and time.
    let secs_per_score = weights.age_full_secs / weights.age.max(SMALLEST_AGE_WEIGHT);
    let head_start_micros = static_part(inputs, weights) * secs_per_score * 1e6;
    // A cast from a float saturates.
    inputs.created_at.as_micros().saturating_sub(head_start_micros.round() as i64)
}

const SMALLEST_AGE_WEIGHT: f64 = 1e-4;

/// What does not change while it waits.
fn static_part(inputs: &ScoreInputs, weights: &Weights) -> f64 {
    let priority = match inputs.priority {
        Priority::Critical => 1.0,
        Priority::High => 0.75,
        Priority::Medium => 0.5,
        Priority::Low => 0.25,
    };
    let dependents = (f64::from(inputs.dependents) / weights.dependents_full).min(1.0);
    let retries = (1.0 - f64::from(inputs.retry_count) / f64::from(inputs.max_retries.max(1))).max(0.0);
    weights.priority * priority + weights.dependents * dependents + weights.retries * retries
}

fn secs_between(from: Timestamp, to: Timestamp) -> f64 {
    (to.as_micros() - from.as_micros()) as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW_SECS: i64 = 1_767_225_600;

    fn now() -> Timestamp {
        Timestamp::from_secs(NOW_SECS)
    }

    fn inputs(priority: Priority, age_secs: i64) -> ScoreInputs {
        ScoreInputs {
            priority,
            created_at: now().plus_secs(-age_secs),
            deadline_at: None,
            dependents: 0,
            retry_count: 0,
            max_retries: 3,
        }
    }

    #[test]
    fn the_score_is_the_documented_one() {
        let fresh = inputs(Priority::Medium, 0);
        let due_in = |secs| ScoreInputs { deadline_at: Some(now().plus_secs(secs)), ..fresh.clone() };
        let waited_for_by = |dependents| ScoreInputs { dependents, ..fresh.clone() };
        let tried = |retry_count, max_retries| ScoreInputs { retry_count, max_retries, ..fresh.clone() };
        let cases = [
            ("critical", inputs(Priority::Critical, 0), 0.50),
            ("high", inputs(Priority::High, 0), 0.3875),
            ("medium", fresh.clone(), 0.275),
            ("low", inputs(Priority::Low, 0), 0.1625),
            ("half an hour old", inputs(Priority::Medium, 1_800), 0.375),
            ("an hour old", inputs(Priority::Medium, 3_600), 0.475),
            ("almost two hours old", inputs(Priority::Medium, 7_199), 0.475),
            ("two hours old", inputs(Priority::Medium, 7_200), 0.6),
            ("two hours old and above the floor", inputs(Priority::Critical, 7_200), 0.7),
            ("created by a clock that is ahead", inputs(Priority::Medium, -60), 0.275),
            ("due tomorrow", due_in(86_400), 0.275),
            ("just not near", due_in(901), 0.275),
            ("near", due_in(900), 0.275 * 1.25),
            ("half way there", due_in(450), (0.275 + 0.075) * 1.25),
            ("due now", due_in(0), (0.275 + 0.15) * 1.25),
            ("overdue", due_in(-1), 0.275 + 0.15),
            ("five wait for it", waited_for_by(5), 0.35),
            ("ten wait for it", waited_for_by(10), 0.425),
            ("a hundred wait for it", waited_for_by(100), 0.425),
            ("one of two tries left", tried(1, 2), 0.25),
            ("no try left", tried(3, 3), 0.225),
            ("more tries than allowed", tried(4, 3), 0.225),
            ("never to be tried again", tried(0, 0), 0.275),
        ];
        for (name, inputs, expected) in cases {
            let got = score(&inputs, now(), &Weights::default());
            assert!((got - expected).abs() < 1e-12, "{name}: {got}, not {expected}");
        }
    }

    #[test]
    fn a_priority_is_worth_a_known_head_start() {
        let weights = Weights::default();
        let rank_of = |priority| rank(&inputs(priority, 0), &weights);
        assert_eq!(rank_of(Priority::Low) - rank_of(Priority::Critical), 6_075 * 1_000_000);
        let last = ScoreInputs { retry_count: 3, ..inputs(Priority::Low, 0) };
        let first = ScoreInputs { dependents: 10, ..inputs(Priority::Critical, 0) };
        assert_eq!(now().as_micros() - rank(&first, &weights), 11_700 * 1_000_000);
        assert_eq!(now().as_micros() - rank(&last, &weights), 2_025 * 1_000_000);
    }

    #[test]
    fn without_a_weight_for_age_the_rank_still_orders_by_the_rest() {
        let weights = Weights { age: 0.0, ..Weights::default() };
        let old_and_low = rank(&inputs(Priority::Low, 86_400), &weights);
        assert!(rank(&inputs(Priority::Critical, 0), &weights) < old_and_low && old_and_low > 0);
    }

    fn any_standing(age_micros: std::ops::Range<i64>) -> impl Strategy<Value = ScoreInputs> {
        let priority = proptest::sample::select(Priority::ALL.to_vec());
        (priority, age_micros, 0u32..20, 0u32..6, 0u32..6).prop_map(
            |(priority, age, dependents, retry_count, max_retries)| ScoreInputs {
                priority,
                created_at: Timestamp::from_micros(now().as_micros() - age),
                deadline_at: None,
                dependents,
                retry_count,
                max_retries,
            },
        )
    }

    const HOUR: i64 = 3_600_000_000;

    proptest! {
        #[test]
        fn within_the_hour_the_rank_is_the_order_of_the_score_at_any_moment(
            a in any_standing(0..HOUR),
            b in any_standing(0..HOUR),
            later in 0..HOUR,
        ) {
            let weights = Weights::default();
            let oldest = a.created_at.min(b.created_at);
            let room = oldest.as_micros() + HOUR - now().as_micros();
            let moment = Timestamp::from_micros(now().as_micros() + later.min(room - 1));
            let ahead = rank(&b, &weights) - rank(&a, &weights);
            // What a microsecond of age is worth.
            let gained = score(&a, moment, &weights) - score(&b, moment, &weights);
            prop_assert!((gained / 0.20 * 3.6e9 - ahead as f64).abs() < 1.5, "{gained} for {ahead}");
            if ahead.abs() > 1 {
                prop_assert_eq!(ahead > 0, gained > 0.0);
            }
        }

        #[test]
        fn nobody_starves(
            waiting in any_standing(0..24 * HOUR),
            newcomer in any_standing(0..24 * HOUR),
            priority in 0.0..1.0f64,
            age in 0.01..1.0f64,
            dependents in 0.0..1.0f64,
            retries in 0.0..1.0f64,
        ) {
            let weights = Weights { priority, age, dependents, retries, ..Weights::default() };
            let longest = (priority + dependents + retries) / age * 3_600.0 * 1e6;
            let after = newcomer.created_at.as_micros() - waiting.created_at.as_micros();
            if after as f64 > longest {
                prop_assert!(rank(&waiting, &weights) < rank(&newcomer, &weights));
            }
            // And whoever is like it in everything but age never overtakes it.
            let younger = ScoreInputs { created_at: Timestamp::from_micros(waiting.created_at.as_micros() + 1), ..waiting.clone() };
            prop_assert!(rank(&waiting, &weights) < rank(&younger, &weights));
        }
    }
}
