//! Cycle detection for task dependencies.
//!
//! The tasks are in a table, which this crate does not read. So the caller drives a breadth-first search: the search
//! returns the tasks to read next, one level at a time so that the caller can read many at once, and takes their
//! dependencies.

use crate::TaskId;
use std::collections::{HashMap, HashSet};

/// Maximum number of tasks that one search reads. A request must not read the whole table.
pub const MAX_VISITED: usize = 10_000;

/// Maximum depth of one search. Each level is a read of its own and takes some milliseconds, while the client waits.
pub const MAX_LEVELS: usize = 500;

/// A search for a path from a task back to itself along its dependencies.
#[derive(Debug, Clone)]
pub struct CycleSearch {
    task: TaskId,
    /// Every task found so far, and the task that depends on it.
    parents: HashMap<TaskId, TaskId>,
    /// Found, and not yet part of a level.
    next: Vec<TaskId>,
    /// Part of a level, and without known dependencies.
    requested: HashSet<TaskId>,
    levels: usize,
    found: Option<Vec<TaskId>>,
    too_large: bool,
}

/// The result of a search so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// No cycle found. Final once the next level is empty.
    Acyclic,
    /// The task would depend on itself. The first and the last element are the task; each depends on the next.
    Cycle(Vec<TaskId>),
    /// The search exceeds [`MAX_VISITED`] tasks or [`MAX_LEVELS`] levels.
    TooLarge,
}

impl CycleSearch {
    /// Starts at `task` as if it depended on these tasks, whatever it depends on now.
    pub fn new(task: TaskId, depends_on: &[TaskId]) -> Self {
        let mut search = Self {
            task: task.clone(),
            parents: HashMap::new(),
            next: Vec::new(),
            requested: HashSet::new(),
            levels: 0,
            found: None,
            too_large: false,
        };
        search.follow(&task, depends_on);
        search
    }

    /// The tasks to read next, each once; empty as soon as the outcome is known. An empty level ends the search.
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
        self.requested.extend(level.iter().cloned());
        level
    }

    /// Adds the dependencies of a task of the last level. Other tasks and repeated calls are ignored; a task that does not
    /// exist may be left out.
    pub fn add_dependencies(&mut self, task: &TaskId, depends_on: &[TaskId]) {
        if self.requested.remove(task) {
            self.follow(task, depends_on);
        }
    }

    /// The cycle, if one was found: it starts and ends at the task.
    pub fn cycle(&self) -> Option<Vec<TaskId>> {
        self.found.clone()
    }

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
                let cycle = self.path_to(from);
                self.found.get_or_insert(cycle);
            } else if !self.parents.contains_key(to) {
                if self.parents.len() == MAX_VISITED {
                    self.too_large = true;
                    continue;
                }
                self.parents.insert(to.clone(), from.clone());
                self.next.push(to.clone());
            }
        }
    }

    /// The path from the task to `last`, and back to the task.
    fn path_to(&self, last: &TaskId) -> Vec<TaskId> {
        let mut path = vec![self.task.clone()];
        let mut at = last;
        while *at != self.task {
            path.push(at.clone());
            at = self.parents.get(at).expect("every task found has a parent");
        }
        path.push(self.task.clone());
        path.reverse();
        path
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

    /// Searches from task 0; `edges[n]` is what task n depends on. Returns the outcome and the number of levels.
    fn run(edges: &[Vec<usize>]) -> (Outcome, usize) {
        let mut search = CycleSearch::new(id(0), &ids(edges[0].clone()));
        let mut requested = HashSet::new();
        for levels in 0.. {
            let level = search.next_level();
            if level.is_empty() {
                assert_eq!(search.cycle().is_some(), matches!(search.outcome(), Outcome::Cycle(_)));
                return (search.outcome(), levels);
            }
            for task in level {
                assert!(requested.insert(task.clone()), "{task} was requested twice");
                let number: usize = task.as_str()[1..].parse().unwrap();
                search.add_dependencies(&task, &ids(edges[number].clone()));
            }
        }
        unreachable!("a search ends")
    }

    #[test]
    fn a_cycle_is_reported_from_the_task_to_itself() {
        let cycle = |numbers: &[usize]| Outcome::Cycle(ids(numbers.iter().copied()));
        for (name, edges, expected) in [
            ("nothing", vec![vec![]], Outcome::Acyclic),
            ("itself", vec![vec![0]], cycle(&[0, 0])),
            ("two", vec![vec![1], vec![0]], cycle(&[0, 1, 0])),
            ("three", vec![vec![1], vec![2], vec![0]], cycle(&[0, 1, 2, 0])),
            ("diamond", vec![vec![1, 2], vec![3], vec![3], vec![]], Outcome::Acyclic),
            ("diamond that closes", vec![vec![1, 2], vec![3], vec![3], vec![0]], cycle(&[0, 1, 3, 0])),
            ("the shortest", vec![vec![1, 2], vec![3], vec![0], vec![0]], cycle(&[0, 2, 0])),
            ("a cycle without the task", vec![vec![1], vec![2], vec![1]], Outcome::Acyclic),
            ("named twice", vec![vec![1, 1], vec![0, 0]], cycle(&[0, 1, 0])),
        ] {
            assert_eq!(run(&edges).0, expected, "{name}");
        }
    }

    #[test]
    fn a_chain_is_followed_up_to_the_maximum_depth() {
        let mut edges: Vec<Vec<usize>> = (1..=MAX_LEVELS).map(|next| vec![next]).collect();
        edges.push(vec![]);
        assert_eq!(run(&edges), (Outcome::Acyclic, MAX_LEVELS));
        edges[MAX_LEVELS] = vec![0];
        let (outcome, _) = run(&edges);
        assert_eq!(outcome, Outcome::Cycle(ids((0..=MAX_LEVELS).chain([0]))));
        edges[MAX_LEVELS] = vec![MAX_LEVELS + 1];
        edges.push(vec![0]);
        assert_eq!(run(&edges), (Outcome::TooLarge, MAX_LEVELS));
    }

    #[test]
    fn a_wide_graph_takes_one_level_up_to_the_maximum_size() {
        let wide = |width: usize| {
            let mut edges = vec![(1..=width).collect()];
            edges.resize(width + 1, vec![]);
            run(&edges)
        };
        assert_eq!(wide(MAX_VISITED), (Outcome::Acyclic, 1));
        assert_eq!(wide(MAX_VISITED + 1), (Outcome::TooLarge, 0));
    }

    #[test]
    fn dependencies_that_were_not_requested_are_ignored() {
        let mut search = CycleSearch::new(id(0), &ids([1]));
        search.add_dependencies(&id(1), &ids([0]));
        search.add_dependencies(&id(7), &ids([0]));
        assert_eq!(search.outcome(), Outcome::Acyclic, "task 1 was not requested yet");
        assert_eq!(search.next_level(), ids([1]));
        search.add_dependencies(&id(1), &ids([2]));
        search.add_dependencies(&id(1), &ids([0]));
        assert_eq!(search.next_level(), ids([2]));
        // Task 2 does not exist: it has no dependencies.
        assert_eq!((search.next_level(), search.outcome()), (vec![], Outcome::Acyclic));
    }

    /// Whether 0 can be reached from 0, by the transitive closure.
    fn reaches_itself(edges: &[Vec<usize>]) -> bool {
        let size = edges.len();
        let mut reach = vec![vec![false; size]; size];
        for (from, targets) in edges.iter().enumerate() {
            targets.iter().for_each(|&to| reach[from][to] = true);
        }
        for via in 0..size {
            for from in 0..size {
                for to in 0..size {
                    reach[from][to] |= reach[from][via] && reach[via][to];
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
            let (outcome, _) = run(&edges);
            prop_assert_eq!(matches!(outcome, Outcome::Cycle(_)), reaches_itself(&edges));
            if let Outcome::Cycle(cycle) = outcome {
                let numbers: Vec<usize> = cycle.iter().map(|task| task.as_str()[1..].parse().unwrap()).collect();
                prop_assert_eq!((numbers[0], numbers[numbers.len() - 1]), (0, 0));
                prop_assert!(numbers.windows(2).all(|pair| edges[pair[0]].contains(&pair[1])));
                let between: HashSet<_> = numbers[1..].iter().collect();
                prop_assert_eq!(between.len(), numbers.len() - 1, "no task occurs twice");
            }
        }
    }
}
