//! Whatever fails, and wherever whoever is at work is killed: nothing is left at the provider, no task is stuck, and no
//! log contradicts what is.
//!
//! Everything happens in this process and in steps: each use case is a future that is polled a few times and then perhaps
//! never again, time jumps, jobs come late, twice or never. A seed decides all of it, so a seed that fails once fails
//! every time (`kit::seed`).

mod provider;
mod story;
mod worker;
pub mod world;

use kit::seed;
use world::World;

const SEEDS: u64 = 200;
/// Cargo runs tests of one binary side by side: so many share the seeds.
const SHARES: u64 = 2;

#[tokio::test(start_paused = true)]
async fn no_storm_leaves_anything_behind() {
    share(0).await;
}

#[tokio::test(start_paused = true)]
async fn nor_does_any_of_the_other_half() {
    share(1).await;
}

async fn share(which: u64) {
    let seeds = (which..SEEDS).step_by(usize::try_from(SHARES).unwrap());
    seed::each(seeds, async |seed| drop(storm(seed).await)).await;
}

#[tokio::test(start_paused = true)]
async fn one_seed_leads_to_the_same_logs_every_time() {
    let mut seen = Vec::new();
    seed::each(0..5, async |seed| {
        let (first, second) = (storm(seed).await, storm(seed).await);
        assert!(first.concat().contains("\"task.claimed\""), "too little happened: {first:#?}");
        for (index, (first, second)) in first.iter().zip(&second).enumerate() {
            assert_eq!(first, second, "line {index} of its history");
        }
        assert_eq!(first.len(), second.len());
        assert!(!seen.contains(&first), "another seed led to the same logs");
        seen.push(first);
    })
    .await;
}

/// What was stored at several moments of it: every task, every sandbox and every event, with their ids.
async fn storm(seed: u64) -> Vec<String> {
    let mut world = World::new(seed).await;
    let mut history = Vec::new();
    for _ in 0..4 {
        for _ in 0..STEPS / 4 {
            world.step().await;
        }
        world.aws.faults.give_way(false);
        world.aws.faults.clear();
        let everything = story::consistent(&world).await;
        history.extend(story::written(&world, &everything).await);
        world.aws.faults.give_way(true);
    }
    world.calm_down().await;
    world.aws.faults.give_way(false);
    let everything = story::settled(&world).await;
    history.extend(story::written(&world, &everything).await);
    history
}

/// Of a storm.
const STEPS: usize = 600;
