//! Under random faults and crashes no sandbox is left at the provider, no task is stuck, and no log contradicts the
//! stored state.
//!
//! Everything runs in this process, step by step: each use case is a future that is polled a few times and may then be
//! dropped; time jumps; jobs arrive late, twice or never. A seed decides all of it, so a failing seed fails every time
//! (`kit::seed`).

mod invariants;
mod provider;
pub mod simulation;
mod worker;

use kit::seed;
use simulation::Simulation;

const SEEDS: u64 = 200;
/// The seeds are split among this many tests, which Cargo runs in parallel.
const SHARES: u64 = 2;

#[tokio::test(start_paused = true)]
async fn random_faults_leave_no_sandbox_and_no_stuck_task() {
    share(0).await;
}

#[tokio::test(start_paused = true)]
async fn random_faults_leave_no_sandbox_and_no_stuck_task_in_odd_seeds() {
    share(1).await;
}

async fn share(index: u64) {
    let seeds = (index..SEEDS).step_by(usize::try_from(SHARES).unwrap());
    seed::each(seeds, async |seed| drop(simulate(seed).await)).await;
}

#[tokio::test(start_paused = true)]
async fn same_seed_produces_identical_logs() {
    let mut seen = Vec::new();
    seed::each(0..5, async |seed| {
        let (first, second) = (simulate(seed).await, simulate(seed).await);
        assert!(first.concat().contains("\"task.claimed\""), "too little happened: {first:#?}");
        for (index, (first, second)) in first.iter().zip(&second).enumerate() {
            assert_eq!(first, second, "line {index} of the history");
        }
        assert_eq!(first.len(), second.len());
        assert!(!seen.contains(&first), "two seeds produced the same logs");
        seen.push(first);
    })
    .await;
}

/// Runs one simulation. Returns what was stored at several points of it: all tasks, sandboxes and events, with ids.
async fn simulate(seed: u64) -> Vec<String> {
    let mut simulation = Simulation::new(seed).await;
    let mut history = Vec::new();
    for _ in 0..4 {
        for _ in 0..STEPS / 4 {
            simulation.step().await;
        }
        simulation.aws.faults.yield_between_calls(false);
        simulation.aws.faults.clear();
        let snapshot = invariants::check_consistent(&simulation).await;
        history.extend(invariants::lines(&simulation, &snapshot).await);
        simulation.aws.faults.yield_between_calls(true);
    }
    simulation.run_to_completion().await;
    simulation.aws.faults.yield_between_calls(false);
    let snapshot = invariants::check_final(&simulation).await;
    history.extend(invariants::lines(&simulation, &snapshot).await);
    history
}

/// Number of steps of a simulation.
const STEPS: usize = 600;
