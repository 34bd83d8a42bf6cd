//! Commands over several shards that must look like one step (spec C4).

use crate::checks::moves::{COPY, ORIGINAL};
use crate::client::{Client, Failure, Player};
use crate::reply::{Request, request};
use kevy_proto::rng::Rng;

/// How many operations one group of keys takes: the search for an order needs small histories.
pub(super) const OPERATIONS_PER_GROUP: u32 = 300;

/// How many requests each client may send so that no group gets more than its share.
pub(super) fn budget(player: &Player) -> u32 {
    let options = &player.context.options;
    OPERATIONS_PER_GROUP * options.keys / options.clients
}

/// How many requests a client sends at once at most: too many at once on one group give too many orders to search.
pub(super) fn pipeline(player: &Player) -> u64 {
    let options = &player.context.options;
    options.pipeline.min(4 * options.keys).into()
}

// ---- pairs: groups of keys that are always touched together -------------------------------------------------------------

/// Parts of a group; their keys lie on different shards mostly.
const PARTS: [&str; 3] = ["a", "b", "c"];

pub(super) async fn play_pairs(mut player: Player) -> Result<(), Failure> {
    let mut left = budget(&player);
    for _ in 0..player.context.options.batches {
        let count = (1 + player.rng.below(pipeline(&player))).min(left.into());
        left -= count as u32;
        let requests = (0..count).map(|_| pairs_request(&mut player)).collect();
        player.batch(requests).await?;
    }
    Ok(())
}

fn pairs_request(player: &mut Player) -> Request {
    let group = player.rng.below(player.context.options.keys.into());
    let keys = PARTS.map(|part| format!("p{group}:{part}"));
    let value = value(player);
    let name = match player.rng.below(12) {
        0..=3 => "MSET",
        4..=7 => "MGET",
        8 => "MSETNX",
        9 => "DEL",
        10 => "EXISTS",
        _ => "UNLINK",
    };
    let takes_values = name.starts_with("MSET");
    let mut args = vec![name.to_owned()];
    for key in keys {
        args.push(key);
        if takes_values {
            args.push(value.clone());
        }
    }
    request(args)
}

/// A value that is nearly always new.
pub(super) fn value(player: &mut Player) -> String {
    (player.rng.below(1 << 40) * 16 + u64::from(player.number)).to_string()
}

// ---- transfers: a constant sum ------------------------------------------------------------------------------------------

/// Owners of accounts: clients with these numbers transfer, all read.
const OWNERS: u32 = 3;
/// Accounts of one owner.
const ACCOUNTS: u32 = 3;
/// What one owner has in all accounts together.
const WEALTH: i64 = 300;
/// What all have.
pub(super) const TOTAL: i64 = WEALTH * OWNERS as i64;

pub(super) async fn prepare_transfers(client: &mut Client) -> Result<(), Failure> {
    for owner in 0..OWNERS {
        client.insist(distribution(owner, [WEALTH, 0])).await?;
    }
    Ok(())
}

pub(super) async fn play_transfers(mut player: Player) -> Result<(), Failure> {
    for _ in 0..player.context.options.batches {
        let count = 1 + player.rng.below(player.context.options.pipeline.into());
        let requests = (0..count).map(|_| transfer_or_read(&mut player)).collect();
        player.batch(requests).await?;
    }
    Ok(())
}

fn transfer_or_read(player: &mut Player) -> Request {
    if player.number < OWNERS && player.rng.below(2) == 0 {
        let first = player.rng.below(WEALTH as u64) as i64;
        let second = player.rng.below((WEALTH - first) as u64) as i64;
        return distribution(player.number, [first, second]);
    }
    let accounts = (0..OWNERS).flat_map(|owner| (0..ACCOUNTS).map(move |n| account(owner, n)));
    request(["MGET".to_owned()].into_iter().chain(accounts))
}

/// All accounts of an owner at once, the last one with what is left.
fn distribution(owner: u32, [first, second]: [i64; 2]) -> Request {
    let mut args = vec!["MSET".to_owned()];
    let amounts = [first, second, WEALTH - first - second];
    for (number, amount) in (0..ACCOUNTS).zip(amounts) {
        args.push(account(owner, number));
        args.push(amount.to_string());
    }
    request(args)
}

fn account(owner: u32, number: u32) -> String {
    format!("account:{owner}:{number}")
}

// ---- moves: nothing lost, nothing doubled -------------------------------------------------------------------------------

/// What is moved around, in byte order.
pub(super) const TOKENS: [&str; 3] = ["t0", "t1", "t2"];
/// Places where a token can be.
const PLACES: u64 = 7;
/// Keys that there always are: a token each, the original and its copy.
pub(super) const MOVES_KEYS: i64 = TOKENS.len() as i64 + 2;

pub(super) async fn prepare_moves(client: &mut Client) -> Result<(), Failure> {
    let mut args = vec!["MSET".to_owned()];
    for (number, token) in (0..).zip(TOKENS) {
        args.extend([place(number), token.to_owned()]);
    }
    args.extend([ORIGINAL, "0", COPY, "0"].map(str::to_owned));
    client.insist(request(args)).await?;
    Ok(())
}

pub(super) async fn play_moves(mut player: Player) -> Result<(), Failure> {
    let mut version = 0;
    for _ in 0..player.context.options.batches {
        let count = 1 + player.rng.below(player.context.options.pipeline.into());
        let mut requests = Vec::new();
        for _ in 0..count {
            version += 1;
            // One connection writes the original, ever newer: requests of a second one could be overtaken by late ones.
            let writes = player.number == 0 && player.generation() == 0;
            requests.push(moves_request(&mut player.rng, writes, version));
        }
        player.batch(requests).await?;
    }
    Ok(())
}

fn moves_request(rng: &mut Rng, writes: bool, version: u32) -> Request {
    let from = place(rng.below(PLACES));
    let to = place(rng.below(PLACES));
    match rng.below(10) {
        0 if writes => request(["SET", ORIGINAL, &version.to_string()]),
        0 | 1 => request(["COPY", ORIGINAL, COPY, "REPLACE"]),
        2 => request(["MGET", ORIGINAL, COPY]),
        3 => request(["DBSIZE"]),
        4 | 5 => {
            let places = (0..PLACES).map(place);
            request(["MGET".to_owned()].into_iter().chain(places))
        }
        _ => request(["RENAMENX", &from, &to]),
    }
}

fn place(number: u64) -> String {
    format!("place:{number}")
}
