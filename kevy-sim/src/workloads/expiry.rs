//! Keys on several shards with one deadline, looked at until it is over.

use crate::client::{Failure, Player};
use crate::reply::{Request, request};
use crate::turmoil_host::simulated_time;

/// Keys that share a deadline.
const KEYS: usize = 3;
/// A deadline is at most so far away, in milliseconds.
const DEADLINE_MAX_MILLIS: u64 = 80;
/// How long after the deadline the keys are still looked at, in milliseconds.
const LOOKED_AT_AFTER_MILLIS: i64 = 20;

pub(super) async fn play(mut player: Player) -> Result<(), Failure> {
    for batch in 0..=player.context.options.batches / 4 {
        let name = format!("e{}.{batch}", player.number);
        let keys: [String; KEYS] = std::array::from_fn(|part| format!("{name}.{part}"));
        let deadline = now_millis(&player) + player.rng.below(DEADLINE_MAX_MILLIS) as i64;
        let text = deadline.to_string();
        let sets = keys
            .iter()
            .map(|key| request(["SET", key, "v", "PXAT", &text]));
        player.batch(sets.collect()).await?;
        while now_millis(&player) < deadline + LOOKED_AT_AFTER_MILLIS {
            let look = look(&mut player, &keys);
            player.batch(vec![look]).await?;
        }
    }
    Ok(())
}

fn look(player: &mut Player, keys: &[String; KEYS]) -> Request {
    let any = &keys[player.rng.below(KEYS as u64) as usize];
    match player.rng.below(4) {
        0 => request(["GET", any]),
        1 => request(["PTTL", any]),
        _ => request(["MGET"].into_iter().chain(keys.iter().map(String::as_str))),
    }
}

fn now_millis(player: &Player) -> i64 {
    player.context.clock.at(simulated_time()).unix.0
}
