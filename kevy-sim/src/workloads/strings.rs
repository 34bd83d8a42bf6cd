//! Pipelines of everyday commands over all shards, each connection with keys of its own, so that every reply can be predicted.

use crate::client::{Failure, Player};
use crate::reply::{Request, request};
use kevy_proto::rng::Rng;

/// How many keys a connection has.
const KEYS: u64 = 6;

pub(super) async fn play(mut player: Player) -> Result<(), Failure> {
    for _ in 0..player.context.options.batches {
        let prefix = format!("s{}.{}", player.number, player.generation());
        let count = 1 + player.rng.below(player.context.options.pipeline.into());
        let rng = &mut player.rng;
        let requests = (0..count).map(|_| any(rng, &prefix)).collect();
        player.batch(requests).await?;
    }
    Ok(())
}

fn any(rng: &mut Rng, prefix: &str) -> Request {
    let mut key = || format!("{prefix}.{}", rng.below(KEYS));
    let (first, second) = (key(), key());
    let value = rng.below(1000).to_string();
    match rng.below(14) {
        0 => request(["PING", &value]),
        1 => request(["ECHO", &value]),
        2 | 3 => request(["SET", &first, &value]),
        4 | 5 => request(["GET", &first]),
        6 => request(["INCR", &first]),
        7 => request(["APPEND", &first, &value[..1]]),
        8 => request(["STRLEN", &first]),
        9 => request(["DEL", &first]),
        10 => request(["EXISTS", &first, &second]),
        11 => request(["MSET", &first, &value, &second, "7"]),
        12 => request(["MGET", &first, &second]),
        _ => request(["NOSUCH", &value]),
    }
}
