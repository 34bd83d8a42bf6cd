//! Whoever has the reply of a push finds those served whom it woke, wherever they wait.

use super::*;

/// Sends `request` and carries messages until its reply, or those of several requests, is complete: `replies` bytes of it.
fn ask_only(process: &mut Process, client: Client, request: &str, reply: &str) {
    process.send(client, format!("{request}\r\n").as_bytes());
    let complete = |process: &Process| {
        let received = process.received.get(&client);
        received.is_some_and(|received| received.len() >= reply.len())
    };
    while !complete(process) && process.step() {}
    let received = process.received.remove(&client).unwrap_or_default();
    assert_eq!(
        String::from_utf8(received).expect("text"),
        reply,
        "{request}"
    );
}

fn is_blocked(process: &Process, client: Client) -> bool {
    let session = process.shards[usize::from(client.0)].session(client.1);
    session.is_some_and(Session::is_blocked)
}

/// Pushers and waiters on all shards; a fresh seed for each.
fn everywhere(test: impl Fn(&mut Process, Client, Client, Client, u16)) {
    for seed in 0..12 {
        for shards in 1..4_u16 {
            for owner in 0..shards {
                let mut process = Process::new(shards, seed * 10 + u64::from(owner));
                let home = |n: u64| (u64::from(owner) + n + seed) as u16 % shards;
                let clients = [0, 1, 2].map(|n| process.connect(home(n), n as u32, Door::Main));
                let [pusher, first, second] = clients;
                test(&mut process, pusher, first, second, owner);
                process.settle();
                process.assert_nobody_waits();
                let left = |shard: &Shard| !shard.blocking.concluding_is_empty();
                assert!(!process.shards.iter().any(left));
            }
        }
    }
}

/// Ways to push an element: the request and its reply.
fn pushes(k: &str, elsewhere: &str) -> Vec<(String, String)> {
    let inserted = "+QUEUED\r\n+QUEUED\r\n*2\r\n:1\r\n+OK\r\n";
    vec![
        (format!("RPUSH {k} x"), ":1\r\n".to_owned()),
        (
            format!("MULTI\r\nRPUSH {k} x\r\nEXEC"),
            "+OK\r\n+QUEUED\r\n*1\r\n:1\r\n".to_owned(),
        ),
        (
            format!("MULTI\r\nRPUSH {k} x\r\nSET {elsewhere} 1\r\nEXEC"),
            format!("+OK\r\n{inserted}"),
        ),
        (
            format!("RPUSH s{elsewhere} x\r\nLMOVE s{elsewhere} {k} LEFT RIGHT"),
            ":1\r\n$1\r\nx\r\n".to_owned(),
        ),
    ]
}

#[test]
fn nobody_is_blocked_any_more_when_the_reply_is_there() {
    everywhere(|process, pusher, first, _, owner| {
        let shards = process.shards.len() as u16;
        let k = key_on("k", owner, shards);
        let elsewhere = key_on("e", (owner + 1) % shards, shards);
        for (request, reply) in pushes(&k, &elsewhere) {
            process.ask(first, &format!("BLPOP {k} 0"));
            assert!(is_blocked(process, first));
            ask_only(process, pusher, &request, &reply);
            assert!(!is_blocked(process, first), "{request}");
            process.settle();
            process.received.clear();
        }
    });
}

#[test]
fn a_circle_of_moves_is_over_when_the_reply_is_there() {
    everywhere(|process, pusher, first, second, owner| {
        let shards = process.shards.len() as u16;
        let tag = key_on("", owner, shards);
        let (one, two) = (format!("one{{{tag}}}"), format!("two{{{tag}}}"));
        let elsewhere = key_on("e", (owner + 1) % shards, shards);
        for (request, reply) in pushes(&one, &elsewhere) {
            process.ask(first, &format!("BRPOPLPUSH {one} {two} 0"));
            process.ask(second, &format!("BRPOPLPUSH {two} {one} 0"));
            ask_only(process, pusher, &request, &reply);
            let both = format!("LRANGE {one} 0 -1\r\nLRANGE {two} 0 -1\r\nDEL {one}");
            ask_only(process, pusher, &both, "*1\r\n$1\r\nx\r\n*0\r\n:1\r\n");
            process.settle();
            process.received.clear();
        }
    });
}

#[test]
fn replies_keep_their_order_and_later_requests_see_the_move() {
    everywhere(|process, pusher, first, _, owner| {
        let shards = process.shards.len() as u16;
        let k = key_on("k", owner, shards);
        let d = key_on("d", (owner + 1) % shards, shards);
        process.ask(first, &format!("BLMOVE {k} {d} LEFT LEFT 0"));
        let pipeline = format!("SET a 1\r\nRPUSH {k} x\r\nINCR a\r\nLLEN {k}");
        ask_only(process, pusher, &pipeline, "+OK\r\n:1\r\n:2\r\n:0\r\n");
        ask_only(process, pusher, &format!("LLEN {d}"), ":1\r\n");
    });
}

#[test]
fn a_reply_is_not_lost_with_those_who_are_waited_for() {
    everywhere(|process, pusher, first, second, owner| {
        let shards = process.shards.len() as u16;
        let k = key_on("k", owner, shards);
        process.ask(first, &format!("BLPOP {k} 0"));
        process.ask(second, &format!("BLPOP {k} 0"));
        process.send(pusher, format!("RPUSH {k} x\r\n").as_bytes());
        process.disconnect(first);
        process.settle();
        let received = process.received.remove(&pusher);
        assert_eq!(received.as_deref(), Some(&b":1\r\n"[..]));
        process.disconnect(second);
        process.settle();
    });
}
