//! A primary and a replica over a wire that breaks, with crashes on both sides: whatever happens, the replica's state is the
//! beginning of what some branch wrote, memory stays bounded, and when the wire holds they become the same.

mod world;

use kevy_proto::replication::Epoch;
use proptest::prelude::*;
use std::time::Duration;
use world::{BACKLOG_BYTES, WIRE_BYTES, World};

#[derive(Clone, Debug)]
enum Step {
    Append(usize, usize),
    Flow(usize),
    Carry(usize),
    Pass(u64),
    Cut,
    Unreachable,
    Reachable,
    /// The replica does not learn of the ends of connections, for as long as it is unlucky.
    HalfOpen(bool),
    /// The replica takes its time to apply what it was given.
    Lazy(bool),
    Persist,
    CrashPrimary(bool),
    CrashReplica,
    /// The primary is elected anew without having crashed.
    Elect,
    Retarget,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (1..30_usize, 0..200_usize).prop_map(|(count, padding)| Step::Append(count, padding)),
        10 => (1..40_usize).prop_map(Step::Flow),
        4 => (1..300_usize).prop_map(Step::Carry),
        6 => (1..3000_u64).prop_map(Step::Pass),
        2 => Just(Step::Cut),
        1 => Just(Step::Unreachable),
        2 => Just(Step::Reachable),
        1 => any::<bool>().prop_map(Step::HalfOpen),
        2 => any::<bool>().prop_map(Step::Lazy),
        3 => Just(Step::Persist),
        1 => any::<bool>().prop_map(Step::CrashPrimary),
        1 => Just(Step::CrashReplica),
        1 => Just(Step::Elect),
        1 => Just(Step::Retarget),
    ];
    prop::collection::vec(step, 1..120)
}

fn run(world: &mut World, step: &Step, epoch: &mut u64) {
    match step {
        Step::Append(count, padding) => (0..*count).for_each(|_| world.append(*padding)),
        Step::Flow(times) => {
            for _ in 0..*times {
                world.send();
                world.carry(WIRE_BYTES);
            }
        }
        Step::Carry(bytes) => {
            world.send();
            world.carry(*bytes);
        }
        Step::Pass(millis) => world.pass(Duration::from_millis(*millis)),
        Step::Cut => world.cut(),
        Step::Unreachable => {
            world.reachable = false;
            world.cut();
        }
        Step::Reachable => world.reachable = true,
        Step::HalfOpen(unlucky) => world.half_open = *unlucky,
        Step::Lazy(lazy) => world.replica.lazy = *lazy,
        Step::Persist => world.persist(),
        Step::CrashPrimary(elected) => {
            *epoch += u64::from(*elected);
            world.crash_primary(Epoch(*epoch));
        }
        Step::CrashReplica => world.crash_replica(),
        Step::Elect => {
            *epoch += 1;
            world.lead(Epoch(*epoch));
        }
        Step::Retarget => {
            world.replica.sink.retarget(world.now);
            world.drain_replica();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn a_replica_is_always_a_prefix_and_converges(steps in steps()) {
        let (mut world, mut epoch) = (World::new(BACKLOG_BYTES), 0);
        for step in &steps {
            run(&mut world, step, &mut epoch);
            world.check();
            world.check_acknowledged();
            prop_assert!(world.acked() <= world.primary.source.last_offset());
            prop_assert!(world.wire.to_replica.len() <= WIRE_BYTES);
            prop_assert!(world.replica.sink.status(world.now).held_bytes <= WIRE_BYTES + BACKLOG_BYTES);
        }
        world.reachable = true;
        world.replica.lazy = false;
        for _ in 0..60 {
            world.live(1);
            let good = world.primary.source.good_replicas(world.now, Duration::from_secs(3));
            if world.converged() && good == 1 { break; }
        }
        prop_assert!(world.converged(), "{:?}", world.replica.sink.status(world.now));
        world.live(3);
        prop_assert_eq!(world.acked(), world.primary.source.last_offset());
        prop_assert_eq!(world.primary.source.good_replicas(world.now, Duration::from_secs(3)), 1);
    }
}

/// What the steps are for does happen: continued streams, snapshots, forks, and replicas that fall out.
#[test]
fn the_steps_reach_what_they_are_for() {
    use kevy_replicate::SourceEvent;
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut continued, mut replaced, mut forked, mut fell, mut aborted) = (0, 0, 0, 0, 0);
    for _ in 0..200 {
        let steps = steps().new_tree(&mut runner).expect("steps").current();
        let (mut world, mut epoch) = (World::new(BACKLOG_BYTES), 0);
        for step in &steps {
            run(&mut world, step, &mut epoch);
            aborted += std::mem::take(&mut world.replica.aborted);
        }
        for event in &world.primary.events {
            match event {
                SourceEvent::Attached {
                    continues, offset, ..
                } if *offset > 0 => {
                    continued += usize::from(*continues);
                    replaced += usize::from(!continues);
                }
                SourceEvent::Forked { .. } => forked += 1,
                SourceEvent::FellOut { .. } => fell += 1,
                SourceEvent::Attached { .. }
                | SourceEvent::Close { .. }
                | SourceEvent::SnapshotOutrun { .. }
                | SourceEvent::Acknowledged
                | SourceEvent::Detached { .. } => {}
            }
        }
    }
    let seen = [continued, replaced, forked, fell, aborted];
    assert!(seen.iter().all(|count| *count > 5), "{seen:?}");
}
