//! The priority score of a task, and its rank in the queue.
//!
//! There are two measures because a queue cannot be sorted by a value that changes over time. The [`score`] is exact at
//! one moment, and has to be computed for every task. The [`rank`] is a sort key that is written once and stays valid:
//! all waiting tasks age at the same rate, so their order does not change over time.
//!
//! Both agree exactly (to the microsecond) for tasks without a deadline that have waited for less than an hour. Where
//! they differ, the rank preselects and the score decides: a claim reads a window of candidates by rank, and those with a
//! near deadline, computes the score of each, and breaks ties by rank (after two hours most scores are equal). After an
//! hour the score stops growing with age. The rank does not, so every task reaches the window eventually.
//!
//! The rank prevents starvation; the score alone does not: critical tasks with many dependents score 0.65 on arrival,
//! while a task that has waited long may stay at its floor of 0.6. So every few claims take the first task by rank.

use crate::Timestamp;
use crate::task::{Priority, Task};

/// Weights and parameters of the score. The defaults are those of OmoiOS.
#[derive(Debug, Clone, PartialEq)]
pub struct Weights {
    pub priority: f64,
    pub age: f64,
    pub deadline: f64,
    pub dependents: f64,
    /// Weight of the share of retries that are left.
    pub retries: f64,
    /// Age at which its part of the score reaches the maximum.
    pub age_full_secs: f64,
    /// A deadline within this time adds to the score and multiplies it by `deadline_boost`.
    pub deadline_near_secs: f64,
    pub deadline_boost: f64,
    /// Number of dependents at which their part of the score reaches the maximum.
    pub dependents_full: f64,
    /// From this age on, the score is at least `waited_long_floor`.
    pub waited_long_secs: f64,
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

/// The properties of a task that determine its score.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScoreInputs {
    pub priority: Priority,
    pub created_at: Timestamp,
    pub deadline_at: Option<Timestamp>,
    /// Number of tasks that depend on it.
    pub dependents: u32,
    pub retry_count: u32,
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

/// The score at `now`: larger is more urgent. Every part lies between 0 and 1 before it is weighted.
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

/// Sort key in the queue: smaller is sooner. It is the creation time in microseconds since 1970, moved back by an amount
/// for everything but age: at most 3 h 15 min with the default weights.
///
/// **Invariant:** among tasks without a deadline that have waited for less than an hour, a smaller rank means a larger
/// score, at any moment.
///
/// **Invariant:** a task is overtaken only by tasks created within those 3 h 15 min after it. So no task starves.
pub fn rank(inputs: &ScoreInputs, weights: &Weights) -> i64 {
    // A zero weight for age would leave no exchange rate between score and time.
    let secs_per_score = weights.age_full_secs / weights.age.max(MIN_AGE_WEIGHT);
    let advantage_micros = static_part(inputs, weights) * secs_per_score * 1e6;
    // A cast from a float saturates.
    inputs.created_at.as_micros().saturating_sub(advantage_micros.round() as i64)
}

const MIN_AGE_WEIGHT: f64 = 1e-4;

/// The part of the score that does not change over time.
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
    fn score_matches_the_documented_values() {
        let fresh = inputs(Priority::Medium, 0);
        let due_in = |secs| ScoreInputs { deadline_at: Some(now().plus_secs(secs)), ..fresh.clone() };
        let with_dependents = |dependents| ScoreInputs { dependents, ..fresh.clone() };
        let retried = |retry_count, max_retries| ScoreInputs { retry_count, max_retries, ..fresh.clone() };
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
            ("just beyond the limit", due_in(901), 0.275),
            ("within the limit", due_in(900), 0.275 * 1.25),
            ("half of the limit", due_in(450), (0.275 + 0.075) * 1.25),
            ("due now", due_in(0), (0.275 + 0.15) * 1.25),
            ("overdue", due_in(-1), 0.275 + 0.15),
            ("five dependents", with_dependents(5), 0.35),
            ("ten dependents", with_dependents(10), 0.425),
            ("a hundred dependents", with_dependents(100), 0.425),
            ("one of two retries left", retried(1, 2), 0.25),
            ("no retry left", retried(3, 3), 0.225),
            ("more retries than allowed", retried(4, 3), 0.225),
            ("no retries allowed", retried(0, 0), 0.275),
        ];
        for (name, inputs, expected) in cases {
            let got = score(&inputs, now(), &Weights::default());
            assert!((got - expected).abs() < 1e-12, "{name}: {got}, not {expected}");
        }
    }

    #[test]
    fn priority_moves_the_rank_by_a_known_time() {
        let weights = Weights::default();
        let rank_of = |priority| rank(&inputs(priority, 0), &weights);
        assert_eq!(rank_of(Priority::Low) - rank_of(Priority::Critical), 6_075 * 1_000_000);
        let last = ScoreInputs { retry_count: 3, ..inputs(Priority::Low, 0) };
        let first = ScoreInputs { dependents: 10, ..inputs(Priority::Critical, 0) };
        assert_eq!(now().as_micros() - rank(&first, &weights), 11_700 * 1_000_000);
        assert_eq!(now().as_micros() - rank(&last, &weights), 2_025 * 1_000_000);
    }

    #[test]
    fn rank_orders_by_priority_when_age_has_no_weight() {
        let weights = Weights { age: 0.0, ..Weights::default() };
        let old_and_low = rank(&inputs(Priority::Low, 86_400), &weights);
        assert!(rank(&inputs(Priority::Critical, 0), &weights) < old_and_low && old_and_low > 0);
    }

    fn any_inputs(age_micros: std::ops::Range<i64>) -> impl Strategy<Value = ScoreInputs> {
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
        fn rank_and_score_agree_within_the_first_hour(
            a in any_inputs(0..HOUR),
            b in any_inputs(0..HOUR),
            later in 0..HOUR,
        ) {
            let weights = Weights::default();
            let oldest = a.created_at.min(b.created_at);
            let room = oldest.as_micros() + HOUR - now().as_micros();
            let moment = Timestamp::from_micros(now().as_micros() + later.min(room - 1));
            let ahead = rank(&b, &weights) - rank(&a, &weights);
            // Converted at the weight of a microsecond of age.
            let gained = score(&a, moment, &weights) - score(&b, moment, &weights);
            prop_assert!((gained / 0.20 * 3.6e9 - ahead as f64).abs() < 1.5, "{gained} for {ahead}");
            if ahead.abs() > 1 {
                prop_assert_eq!(ahead > 0, gained > 0.0);
            }
        }

        #[test]
        fn no_task_starves(
            waiting in any_inputs(0..24 * HOUR),
            newcomer in any_inputs(0..24 * HOUR),
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
            // A younger task that is equal in everything else never overtakes it.
            let younger = ScoreInputs { created_at: Timestamp::from_micros(waiting.created_at.as_micros() + 1), ..waiting.clone() };
            prop_assert!(rank(&waiting, &weights) < rank(&younger, &weights));
        }
    }
}
