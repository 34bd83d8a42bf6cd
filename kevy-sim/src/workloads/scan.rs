//! Scans over all shards while other clients add and remove keys.

use crate::checks::scan::{CHURN, page};
use crate::client::{Client, Failure, Player};
use crate::reply::{Request, request};
use std::collections::BTreeSet;

/// Keys that are always there.
const STABLE_KEYS: u32 = 60;
/// Keys that come and go are counted modulo this.
const CHURN_KEYS: u64 = 500;
/// Calls after which an iteration must have ended.
const CALLS_MAX: u32 = 2000;

pub(super) fn stable_keys() -> BTreeSet<String> {
    (0..STABLE_KEYS)
        .map(|key| format!("stable:{key}"))
        .collect()
}

pub(super) async fn prepare(client: &mut Client) -> Result<(), Failure> {
    let pairs = stable_keys()
        .into_iter()
        .flat_map(|key| [key, "v".to_owned()]);
    let args = ["MSET".to_owned()].into_iter().chain(pairs);
    client.call(request(args)).await?;
    Ok(())
}

/// Even clients scan, odd ones let keys come and go.
pub(super) async fn play(mut player: Player) -> Result<(), Failure> {
    for _ in 0..=player.context.options.batches / 4 {
        if player.number.is_multiple_of(2) {
            iterate(&mut player).await?;
        } else {
            let requests = (0..20).map(|_| come_or_go(&mut player)).collect();
            player.batch(requests).await?;
        }
    }
    Ok(())
}

fn come_or_go(player: &mut Player) -> Request {
    let key = format!("{CHURN}{}", player.rng.below(CHURN_KEYS));
    if player.rng.below(3) == 0 {
        request(["DEL", &key])
    } else {
        request(["SET", &key, "v"])
    }
}

async fn iterate(player: &mut Player) -> Result<(), Failure> {
    let mut cursor = "0".to_owned();
    let count = (1 + player.rng.below(40)).to_string();
    for _ in 0..CALLS_MAX {
        let call = request(["SCAN", &cursor, "COUNT", &count]);
        let Some(replies) = player.batch(vec![call]).await? else {
            return Ok(());
        };
        let Some((next, _)) = replies.first().and_then(page) else {
            // The check says what is wrong with it.
            return Ok(());
        };
        if next == "0" {
            return Ok(());
        }
        cursor = next;
    }
    let request = format!("SCAN has not ended after {CALLS_MAX} calls");
    Err(Failure::Unanswered { request })
}
