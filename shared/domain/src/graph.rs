//! Whether a task would come to wait for itself.
//!
//! The tasks are in a table, and a rule does not read tables. So the search is a value that is fed: it says whom to look
//! up next, a level at a time so that the caller can ask for many at once, and is told what they depend on.

use crate::TaskId;
use std::collections::{HashMap, HashSet};

/// Most tasks that one search looks up. Beyond that it gives up rather than read a whole table in one request.
pub const MAX_VISITED: usize = 10_000;

/// Most levels that one search goes down. Each is a question of its own to the table, some milliseconds long, and whoever
/// asked waits for all of them.
pub const MAX_LEVELS: usize = 500;

/// A search for a way from a task back to itself along what depends on what.
#[derive(Debug, Clone)]
pub struct Walk {
    task: TaskId,
    /// Everybody met so far, and who led there.
    led_by: HashMap<TaskId, TaskId>,
    /// Met, and not handed out yet.
    next: Vec<TaskId>,
    /// Handed out, and not heard of yet.
    asked: HashSet<TaskId>,
    /// How many levels were handed out.
    levels: usize,
    found: Option<Vec<TaskId>>,
    too_large: bool,
}

/// How a search ended, or stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing that was met leads back. Final once there is no next level.
    Acyclic,
    /// The task would wait for itself, along these: the first and the last are the task, each depends on the one after.
    Cycle(Vec<TaskId>),
    /// More than [`MAX_VISITED`] tasks would have to be looked up, or more than [`MAX_LEVELS`] stand one behind the other.
    TooLarge,
}

impl Walk {
    /// Begins at `task` as if it depended on these, whatever it depends on now.
    pub fn new(task: TaskId, depends_on: &[TaskId]) -> Self {
        let mut walk = Self {
            task: task.clone(),
            led_by: HashMap::new(),
            next: Vec::new(),
            asked: HashSet::new(),
            levels: 0,
            found: None,
            too_large: false,
        };
        walk.follow(&task, depends_on);
        walk
    }

    /// Whom to look up next: each task once, and nobody once the outcome is known. An empty level ends the search.
    pub fn next_level(&mut self) -> Vec<TaskId> {
        if self.found.is_some() || self.too_large {
            return Vec::new();
        }
        let level = std::mem::take(&mut self.next);
        if !level.is_empty() {
            self.levels += 1;
        }
        if self.levels > MAX_LEVELS {
            self.too_large = true;
            return Vec::new();
        }
        self.asked.extend(level.iter().cloned());
        level
    }

    /// Takes note of what a task depends on. Whom nobody asked about, and what is told again, is ignored; a task that
    /// does not exist need not be told of.
    pub fn learn(&mut self, task: &TaskId, depends_on: &[TaskId]) {
        if self.asked.remove(task) {
            self.follow(task, depends_on);
        }
    }

    /// The whole cycle, if one was found: it starts and ends at the task.
    pub fn cycle(&self) -> Option<Vec<TaskId>> {
        self.found.clone()
    }

    /// How the search stands.
    pub fn outcome(&self) -> Outcome {
        match &self.found {
            Some(cycle) => Outcome::Cycle(cycle.clone()),
            None if self.too_large => Outcome::TooLarge,
            None => Outcome::Acyclic,
        }
    }

    fn follow(&mut self, from: &TaskId, depends_on: &[TaskId]) {
        for to in depends_on {
            if *to == self.task {
                let cycle = self.way_to(from);
                self.found.get_or_insert(cycle);
            } else if !self.led_by.contains_key(to) {
                if self.led_by.len() == MAX_VISITED {
                    self.too_large = true;
                    continue;
                }
                self.led_by.insert(to.clone(), from.clone());
                self.next.push(to.clone());
            }
        }
    }

    /// From the task to `last`, and back to the task.
    fn way_to(&self, last: &TaskId) -> Vec<TaskId> {
        let mut way = vec![self.task.clone()];
        let mut at = last;
        while *at != self.task {
            way.push(at.clone());
            at = self.led_by.get(at).expect("whoever was met was led to from the task on");
        }
        way.push(self.task.clone());
        way.reverse();
        way
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn id(number: usize) -> TaskId {
        TaskId::parse(format!("t{number}")).unwrap()
    }

    fn ids(numbers: impl IntoIterator<Item = usize>) -> Vec<TaskId> {
        numbers.into_iter().map(id).collect()
    }

    /// Searches from task 0; `edges[n]` is what task n depends on. Gives the outcome, and how many levels it took.
    fn search(edges: &[Vec<usize>]) -> (Outcome, usize) {
        let mut walk = Walk::new(id(0), &ids(edges[0].clone()));
        let mut asked = HashSet::new();
        for levels in 0.. {
            let level = walk.next_level();
            if level.is_empty() {
                assert_eq!(walk.cycle().is_some(), matches!(walk.outcome(), Outcome::Cycle(_)));
                return (walk.outcome(), levels);
            }
            for task in level {
                assert!(asked.insert(task.clone()), "{task} was asked for twice");
                let number: usize = task.as_str()[1..].parse().unwrap();
                walk.learn(&task, &ids(edges[number].clone()));
            }
        }
        unreachable!("a search ends")
    }

    #[test]
    fn a_cycle_is_named_from_the_task_to_itself() {
        let cycle = |numbers: &[usize]| Outcome::Cycle(ids(numbers.iter().copied()));
        for (name, edges, expected) in [
            ("nothing", vec![vec![]], Outcome::Acyclic),
            ("itself", vec![vec![0]], cycle(&[0, 0])),
            ("two", vec![vec![1], vec![0]], cycle(&[0, 1, 0])),
            ("three", vec![vec![1], vec![2], vec![0]], cycle(&[0, 1, 2, 0])),
            ("diamond", vec![vec![1, 2], vec![3], vec![3], vec![]], Outcome::Acyclic),
            ("diamond that closes", vec![vec![1, 2], vec![3], vec![3], vec![0]], cycle(&[0, 1, 3, 0])),
            ("the shortest", vec![vec![1, 2], vec![3], vec![0], vec![0]], cycle(&[0, 2, 0])),
            ("somebody else's", vec![vec![1], vec![2], vec![1]], Outcome::Acyclic),
            ("named twice", vec![vec![1, 1], vec![0, 0]], cycle(&[0, 1, 0])),
        ] {
            assert_eq!(search(&edges).0, expected, "{name}");
        }
    }

    #[test]
    fn a_long_chain_is_walked_to_its_end_unless_it_is_too_long() {
        let mut edges: Vec<Vec<usize>> = (1..=MAX_LEVELS).map(|next| vec![next]).collect();
        edges.push(vec![]);
        assert_eq!(search(&edges), (Outcome::Acyclic, MAX_LEVELS));
        edges[MAX_LEVELS] = vec![0];
        let (outcome, _) = search(&edges);
        assert_eq!(outcome, Outcome::Cycle(ids((0..=MAX_LEVELS).chain([0]))));
        edges[MAX_LEVELS] = vec![MAX_LEVELS + 1];
        edges.push(vec![0]);
        assert_eq!(search(&edges), (Outcome::TooLarge, MAX_LEVELS));
    }

    #[test]
    fn a_wide_graph_takes_one_level_until_it_is_too_large() {
        let wide = |width: usize| {
            let mut edges = vec![(1..=width).collect()];
            edges.resize(width + 1, vec![]);
            search(&edges)
        };
        assert_eq!(wide(MAX_VISITED), (Outcome::Acyclic, 1));
        assert_eq!(wide(MAX_VISITED + 1), (Outcome::TooLarge, 0));
    }

    #[test]
    fn what_nobody_asked_for_changes_nothing() {
        let mut walk = Walk::new(id(0), &ids([1]));
        walk.learn(&id(1), &ids([0]));
        walk.learn(&id(7), &ids([0]));
        assert_eq!(walk.outcome(), Outcome::Acyclic, "task 1 was not asked for yet");
        assert_eq!(walk.next_level(), ids([1]));
        walk.learn(&id(1), &ids([2]));
        walk.learn(&id(1), &ids([0]));
        assert_eq!(walk.next_level(), ids([2]));
        // Task 2 does not exist: nothing is learnt of it.
        assert_eq!((walk.next_level(), walk.outcome()), (vec![], Outcome::Acyclic));
    }

    /// Whether 0 can be reached from 0, by closing the relation: slow and plain.
    fn reaches_itself(edges: &[Vec<usize>]) -> bool {
        let size = edges.len();
        let mut reach = vec![vec![false; size]; size];
        for (from, targets) in edges.iter().enumerate() {
            targets.iter().for_each(|&to| reach[from][to] = true);
        }
        for by in 0..size {
            for from in 0..size {
                for to in 0..size {
                    reach[from][to] |= reach[from][by] && reach[by][to];
                }
            }
        }
        reach[0][0]
    }

    fn any_graph() -> impl Strategy<Value = Vec<Vec<usize>>> {
        (1usize..12)
            .prop_flat_map(|size| proptest::collection::vec(proptest::collection::vec(0..size, 0..3), size))
    }

    proptest! {
        #[test]
        fn the_search_agrees_with_a_naive_one(edges in any_graph()) {
            let (outcome, _) = search(&edges);
            prop_assert_eq!(matches!(outcome, Outcome::Cycle(_)), reaches_itself(&edges));
            if let Outcome::Cycle(cycle) = outcome {
                let numbers: Vec<usize> = cycle.iter().map(|task| task.as_str()[1..].parse().unwrap()).collect();
                prop_assert_eq!((numbers[0], numbers[numbers.len() - 1]), (0, 0));
                prop_assert!(numbers.windows(2).all(|pair| edges[pair[0]].contains(&pair[1])));
                let between: HashSet<_> = numbers[1..].iter().collect();
                prop_assert_eq!(between.len(), numbers.len() - 1, "nobody is named twice");
            }
        }
    }
}
