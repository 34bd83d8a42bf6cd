//! Lists over all shards as queues: producers push numbered elements, consumers wait for them, move them on, and vanish.

use crate::client::{Client, Failure, Player};
use crate::reply::{Request, request};

/// Lists that producers push to; each is named `q<n>`. Elements are moved to as many lists `r<n>`.
pub(super) const LISTS: usize = 4;
/// Timeouts of consumers, in seconds.
const TIMEOUTS: [&str; 3] = ["0.001", "0.02", "0.3"];

pub(super) async fn play(mut player: Player) -> Result<(), Failure> {
    let produces = player.number.is_multiple_of(2);
    let mut pushed = 0;
    for _ in 0..=player.context.options.batches {
        let requests = if produces {
            push(&mut player, &mut pushed)
        } else {
            vec![wait(&mut player)]
        };
        player.batch(requests).await?;
    }
    Ok(())
}

/// One or two elements, each for a list of its own, at once or one after the other.
fn push(player: &mut Player, pushed: &mut u64) -> Vec<Request> {
    let mut push = |player: &mut Player| {
        let list = player.rng.below(LISTS as u64);
        let element = format!("{}.{pushed}", player.number);
        *pushed += 1;
        request(["RPUSH", &format!("q{list}"), &element])
    };
    let (one, two) = (push(player), push(player));
    match player.rng.below(3) {
        0 => vec![request(["MULTI"]), one, two, request(["EXEC"])],
        1 => vec![one, two],
        _ => vec![one],
    }
}

fn wait(player: &mut Player) -> Request {
    let any = |player: &mut Player| player.rng.below(LISTS as u64);
    let (one, two) = (any(player), any(player));
    let timeout = TIMEOUTS[player.rng.below(3) as usize];
    let (one, two, moved) = (format!("q{one}"), format!("q{two}"), format!("r{two}"));
    match player.rng.below(5) {
        0 | 1 => request(["BLPOP", &one, &two, timeout]),
        2 => request(["BLPOP", &moved, &one, timeout]),
        3 => request(["BLMPOP", timeout, "2", &one, &moved, "LEFT", "COUNT", "2"]),
        _ => request(["BLMOVE", &one, &moved, "LEFT", "RIGHT", timeout]),
    }
}

/// Looks at what is left.
pub(super) async fn conclude(client: &mut Client) -> Result<(), Failure> {
    for kind in ["q", "r"] {
        for list in 0..LISTS {
            let list = format!("{kind}{list}");
            client.call(request(["LRANGE", &list, "0", "-1"])).await?;
        }
    }
    Ok(())
}
