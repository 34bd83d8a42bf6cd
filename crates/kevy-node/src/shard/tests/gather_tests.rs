//! `SORT` with patterns: what it looks at may be anywhere, and is seen at one moment.

use super::*;

const SETUP: &[&str] = &[
    "MSET w1 30 w2 10 w3 20 w4 40 n1 one n2 two n3 three",
    "HSET h1 f a g b\r\nHSET h2 f c\r\nHSET h3 f 0",
    "RPUSH list 1 2 3\r\nSADD set 1 2 3\r\nZADD zset 1 3 2 1 3 2\r\nSET text x\r\nRPUSH n4 list",
];

const SORTS: &[&str] = &[
    "SORT list BY w*",
    "SORT list BY w* DESC LIMIT 1 2",
    "SORT set BY w* GET # GET n* GET h*->f GET h*->g GET nothing",
    "SORT zset BY nosort GET n* GET w*",
    "SORT_RO list BY h*->f ALPHA GET n*",
    "SORT list BY n*",
    "SORT list BY w* GET n* STORE list2\r\nLRANGE list2 0 -1",
    "SORT list BY w* GET missing* STORE list\r\nLRANGE list 0 -1\r\nDEL list\r\nRPUSH list 4 1 2",
    "SORT list GET n* GET w*",
    "SORT text BY w*\r\nSORT missing BY w* GET n*\r\nSORT missing BY w* STORE list2\r\nEXISTS list2",
    "SORT_RO list BY w* STORE list2\r\nSORT list BY w* GET",
    "MULTI\r\nSET w1 100\r\nSORT list BY w*\r\nSORT_RO list GET n* LIMIT 0 1\r\nGET w1\r\nEXEC",
    "SORT list BY w*\r\nCLIENT REPLY SKIP\r\nSORT list BY w*\r\nPING",
    "DBSIZE",
];

fn answers(shards: u16, seed: u64) -> Vec<String> {
    let mut process = Process::new(shards, seed);
    let client = process.connect(0, 0, Door::Main);
    let mut replies = Vec::new();
    for request in SETUP.iter().chain(SORTS) {
        replies.push(process.ask(client, request));
        process.assert_nothing_is_left();
    }
    replies
}

#[test]
fn patterns_lead_to_keys_of_all_shards() {
    let alone = answers(1, 3);
    assert_eq!(alone[3], "*3\r\n$1\r\n2\r\n$1\r\n3\r\n$1\r\n1\r\n");
    for shards in 2..6 {
        assert_eq!(answers(shards, 7), alone, "{shards} shards");
    }
}

#[test]
fn a_watched_key_that_is_stored_to_is_noticed() {
    let mut process = Process::new(4, 9);
    let client = process.connect(0, 0, Door::Main);
    let other = process.connect(1, 0, Door::Main);
    process.ask(
        client,
        "RPUSH list 1 2\r\nMSET w1 2 w2 1\r\nWATCH stored w1",
    );
    process.ask(other, "SORT list BY w* STORE stored");
    assert_eq!(process.ask(client, "MULTI\r\nEXEC"), "+OK\r\n*-1\r\n");
    process.ask(client, "WATCH w1 list");
    process.ask(other, "SORT list BY w*");
    assert_eq!(process.ask(client, "MULTI\r\nEXEC"), "+OK\r\n*0\r\n");
    process.assert_nothing_is_left();
}

#[test]
fn weights_are_seen_at_one_moment() {
    let (up, down) = (
        "*2\r\n$1\r\na\r\n$1\r\nb\r\n",
        "*2\r\n$1\r\nb\r\n$1\r\na\r\n",
    );
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..40 {
        let mut process = Process::new(4, seed);
        let client = process.connect(0, 0, Door::Main);
        let other = process.connect(2, 0, Door::Main);
        process.ask(client, "RPUSH list a b\r\nMSET wa 1 wb 2");
        process.send(client, b"SORT list BY w*\r\n");
        // Between the two lies only the change of both weights.
        process.send(other, b"MSET wa 4 wb 3\r\nMSET wa 5 wb 6\r\n");
        process.settle();
        let reply = process.received.remove(&client).expect("a reply");
        let reply = String::from_utf8(reply).expect("text");
        assert!(reply == up || reply == down, "{reply}");
        seen.insert(reply);
        process.assert_nothing_is_left();
    }
    assert_eq!(seen.len(), 2, "the requests did not meet: {seen:?}");
}

#[test]
fn without_memory_it_is_refused_as_a_command_of_its_own() {
    let mut process = Process::new(3, 11);
    let client = process.connect(0, 0, Door::Main);
    process.ask(client, "RPUSH list 1 2\r\nCONFIG SET maxmemory 1");
    let reply = process.ask(client, "SORT list BY w* STORE stored");
    assert!(reply.starts_with("-OOM "), "{reply}");
    process.assert_nothing_is_left();
}

#[test]
fn a_shard_port_redirects_to_the_collection_only() {
    let mut process = Process::new(2, 13);
    let (here, there) = (key_on("l", 0, 2), key_on("l", 1, 2));
    let client = process.connect(0, 0, Door::Shard(ShardId(0)));
    let weight = format!("w{}", key_on("", 1, 2));
    let reply = process.ask(
        client,
        &format!("RPUSH {here} 1\r\nSORT {here} GET {weight}*"),
    );
    assert_eq!(reply, ":1\r\n*1\r\n$-1\r\n");
    let reply = process.ask(client, &format!("SORT {there} GET w*"));
    assert!(reply.starts_with("-MOVED "), "{reply}");
}
