//! Single keys that everybody reads and writes, and a mixture of everything for clients that vanish.

use super::atomicity::{budget, pipeline, value};
use crate::client::{Failure, Player};
use crate::reply::{Request, request};

pub(super) async fn play_registers(mut player: Player) -> Result<(), Failure> {
    let mut left = budget(&player);
    for _ in 0..player.context.options.batches {
        let count = (1 + player.rng.below(pipeline(&player))).min(left.into());
        left -= count as u32;
        let requests = (0..count).map(|_| register_request(&mut player)).collect();
        player.batch(requests).await?;
    }
    Ok(())
}

fn register_request(player: &mut Player) -> Request {
    let key = format!("r{}", player.rng.below(player.context.options.keys.into()));
    let value = value(player);
    match player.rng.below(12) {
        0..=2 => request(["SET", &key, &value]),
        3..=5 => request(["GET", &key]),
        6 | 7 => request(["INCR", &key]),
        8 => request(["SETNX", &key, &value]),
        9 => request(["GETSET", &key, &value]),
        10 => request(["EXISTS", &key]),
        _ => request(["DEL", &key]),
    }
}

/// How many keys the mixture uses.
const MIXED_KEYS: u64 = 12;

pub(super) async fn play_vanish(mut player: Player) -> Result<(), Failure> {
    for _ in 0..player.context.options.batches {
        let count = 1 + player.rng.below(player.context.options.pipeline.into());
        let requests = (0..count).map(|_| mixed_request(&mut player)).collect();
        player.batch(requests).await?;
    }
    Ok(())
}

fn mixed_request(player: &mut Player) -> Request {
    let rng = &mut player.rng;
    let [first, second, third] = [(); 3].map(|()| format!("m{}", rng.below(MIXED_KEYS)));
    match rng.below(10) {
        0 => request(["SET", &first, &second]),
        1 => request(["GET", &first]),
        2 => request(["MSET", &first, "1", &second, "2", &third, "3"]),
        3 => request(["MGET", &first, &second, &third]),
        4 => request(["DEL", &first, &second]),
        5 => request(["RENAME", &first, &second]),
        6 => request(["COPY", &first, &second]),
        7 => request(["DBSIZE"]),
        8 => request(["EXISTS", &first, &second, &third]),
        _ => request(["MSETNX", &first, "1", &second, "2"]),
    }
}
