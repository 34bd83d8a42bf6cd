//! Whole simulations: every workload over many seeds, and the same seed twice.
//!
//! `KEVY_SIM_SEEDS` says how many seeds each workload gets (200 for atomicity, a part of that for the others).

use kevy_sim::marks::{Mark, Marks};
use kevy_sim::simulation::{Report, Run, simulate};
use kevy_sim::swarm::{Options, replay_command};
use kevy_sim::turmoil_host::Sabotage;
use kevy_sim::workloads::Workload;

fn seeds() -> u64 {
    let asked = std::env::var("KEVY_SIM_SEEDS");
    asked.map_or(200, |text| {
        text.parse().expect("KEVY_SIM_SEEDS is a number")
    })
}

/// Runs `seeds` seeds of a workload; every one must keep every promise.
fn swarm(workload: Workload, seeds: u64, expected: &[Mark]) {
    swarm_of(seeds, expected, |seed| {
        Options::from_seed(seed, Some(workload))
    });
}

fn swarm_of(seeds: u64, expected: &[Mark], options: impl Fn(u64) -> Options) {
    let marks = Marks::default();
    for seed in 0..seeds.max(1) {
        let options = options(seed);
        let report = simulate(options.clone(), &Run::default());
        marks.add(&report.marks);
        if let Some(violation) = report.violation {
            panic!(
                "{options}\n{violation}\nreplay: {}",
                replay_command(&options)
            );
        }
    }
    let never = marks.missing(expected);
    assert!(seeds < 40 || never.is_empty(), "never met: {never:?}");
}

#[test]
fn groups_of_keys_change_as_one() {
    // Together these are all marks there are.
    swarm(Workload::Pairs, seeds(), Mark::IN_MEMORY);
}

/// Nothing that was acknowledged is lost, no transaction is there in part, and no crash keeps a node from starting.
#[test]
fn crashes_lose_nothing_that_was_acknowledged() {
    swarm_of(seeds() * 2, Mark::ON_DISK, |seed| {
        Options::from_seed(seed, None).with_disk()
    });
}

#[test]
fn transfers_keep_their_sum() {
    swarm(Workload::Transfers, seeds() / 4, &[Mark::LockContended]);
}

#[test]
fn moved_values_are_neither_lost_nor_doubled() {
    swarm(Workload::Moves, seeds() / 4, &[Mark::TransactionOrdered]);
}

#[test]
fn replies_come_in_the_order_of_requests() {
    swarm(Workload::Strings, seeds() / 4, &[Mark::PartialRead]);
}

#[test]
fn single_keys_are_linearizable() {
    swarm(Workload::Registers, seeds() / 4, &[Mark::QueueFull]);
}

#[test]
fn keys_expire_at_their_moment_on_all_shards() {
    swarm(Workload::Expiry, seeds(), &[Mark::TransactionTried]);
}

#[test]
fn scans_miss_nothing() {
    swarm(Workload::Scan, seeds() / 4, &[Mark::PartialWrite]);
}

#[test]
fn queues_lose_nothing_and_deliver_nothing_twice() {
    swarm(Workload::Queues, seeds() / 2, &[Mark::LockContended]);
}

#[test]
fn clients_that_vanish_leave_nothing_behind() {
    swarm(
        Workload::Vanish,
        seeds() / 4,
        &[Mark::VanishedMidPipeline, Mark::ClosedMidTransaction],
    );
}

fn run(seed: u64, run: &Run) -> Report {
    simulate(Options::from_seed(seed, None), run)
}

#[test]
fn a_seed_gives_the_same_trace_every_time_and_another_seed_another_one() {
    let mut hashes = Vec::new();
    for seed in 0..16 {
        let first = run(seed, &Run::default());
        let second = run(seed, &Run::default());
        assert_eq!(first.hash, second.hash, "seed {seed}");
        assert_eq!(first.events, second.events, "seed {seed}");
        assert!(!hashes.contains(&first.hash), "seed {seed} is like another");
        hashes.push(first.hash);
    }
}

#[test]
fn keeping_the_text_changes_nothing() {
    let with_text = Run {
        keep_text: true,
        ..Run::default()
    };
    let kept = run(4, &with_text);
    assert_eq!(kept.hash, run(4, &Run::default()).hash);
    let lines = kept.text.unwrap_or_default().lines().count();
    assert_eq!(lines as u64, kept.events);
}

/// Which checks find what the mesh does wrong, over some seeds of a workload.
fn found_under(sabotage: Sabotage, workload: Workload) -> Vec<&'static str> {
    let run = Run {
        sabotage: Some(sabotage),
        ..Run::default()
    };
    let violations = (0..24).filter_map(|seed| {
        let options = Options::from_seed(seed, Some(workload));
        simulate(options, &run).violation
    });
    violations.map(|violation| violation.check).collect()
}

#[test]
fn the_checks_find_a_mesh_that_loses_replies() {
    let found = found_under(Sabotage::LostReplies, Workload::Strings);
    assert!(found.contains(&"liveness"), "{found:?}");
}

#[test]
fn the_checks_find_a_mesh_that_loses_releases() {
    let found = found_under(Sabotage::LostReleases, Workload::Pairs);
    assert!(found.contains(&"liveness"), "{found:?}");
}

#[test]
fn the_checks_find_a_mesh_that_loses_order() {
    let found = found_under(Sabotage::Unordered, Workload::Strings);
    assert!(found.contains(&"reply order"), "{found:?}");
    let found = found_under(Sabotage::Unordered, Workload::Registers);
    assert!(found.contains(&"linearizability"), "{found:?}");
}

#[test]
fn the_checks_find_locks_that_nobody_holds() {
    let found = found_under(Sabotage::ForgedGrants, Workload::Pairs);
    assert!(found.contains(&"atomicity"), "{found:?}");
    let found = found_under(Sabotage::ForgedGrants, Workload::Transfers);
    assert!(found.contains(&"constant sum"), "{found:?}");
}

#[test]
fn the_checks_find_entries_that_are_lost() {
    let found = found_under(Sabotage::LostEntries, Workload::Queues);
    assert!(found.contains(&"queues"), "{found:?}");
}
