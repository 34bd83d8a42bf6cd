// ioredis against a running server: every reply is checked against the value Redis gives.
//
// usage: ioredis.mjs plain|cluster PORT
//
// In plain mode PORT is the main port; in cluster mode it is the port of one shard, from which ioredis
// learns the others.

import assert from "node:assert/strict";
import process from "node:process";
import { Cluster, Redis } from "ioredis";

const MANY = 500;
const FAR = 4_102_444_800; // 2100-01-01, in seconds

async function refused(promise, text) {
  await assert.rejects(promise, (error) => {
    assert.equal(error.message, text);
    return true;
  });
}

async function strings(r) {
  assert.equal(await r.set("s", "one"), "OK");
  assert.equal(await r.get("s"), "one");
  assert.equal(await r.get("absent"), null);
  assert.equal(await r.set("s", "two", "NX"), null);
  assert.equal(await r.set("s", "two", "XX", "GET"), "one");
  assert.equal(await r.append("s", "-three"), 9);
  assert.equal(await r.getrange("s", 0, 2), "two");
  assert.equal(await r.getdel("s"), "two-three");
  const binary = Buffer.from([0, 255, 13, 10]);
  assert.equal(await r.set("s", binary), "OK");
  assert.deepEqual(await r.getBuffer("s"), binary);
  assert.equal(await r.getset("s", "10"), binary.toString());
  assert.equal(await r.incr("s"), 11);
  assert.equal(await r.decrby("s", 21), -10);
  assert.equal(await r.incrbyfloat("s", 0.5), "-9.5");
  await refused(r.incr("s"), "ERR value is not an integer or out of range");
  assert.deepEqual(await r.bitfield("bits", "SET", "u8", 0, 200, "GET", "u4", 0), [0, 12]);
}

async function generic(r) {
  await r.set("g{1}", "v");
  assert.equal(await r.type("g{1}"), "string");
  assert.equal(await r.rename("g{1}", "h{1}"), "OK");
  assert.equal(await r.copy("h{1}", "g{1}"), 1);
  assert.equal(await r.exists("g{1}", "h{1}"), 2);
  assert.equal(await r.del("g{1}", "h{1}"), 2);
  await refused(r.rename("g{1}", "h{1}"), "ERR no such key");
}

async function expiry(r) {
  await r.set("e", "v", "EX", 100);
  const left = await r.ttl("e");
  assert.ok(left >= 90 && left <= 100, `${left} s`);
  assert.equal(await r.expireat("e", FAR), 1);
  assert.equal(await r.pexpiretime("e"), FAR * 1000);
  assert.equal(await r.persist("e"), 1);
  assert.equal(await r.pttl("e"), -1);
  assert.equal(await r.expire("e", 0), 1);
  assert.equal(await r.ttl("e"), -2);
}

// A cluster's pipeline must keep to one node, so there the commands are only sent without waiting.
async function pipelines(r, cluster) {
  const expected = [];
  const replies = [];
  const pipe = r.pipeline();
  for (let n = 0; n < MANY; n++) {
    const to = cluster ? r : pipe;
    replies.push(to.set(`many:${n}`, n), to.incrby(`many:${n}`, 1), to.get(`many:${n}`));
    expected.push("OK", n + 1, String(n + 1));
  }
  if (cluster) {
    assert.deepEqual(await Promise.all(replies), expected);
  } else {
    assert.deepEqual(await pipe.exec(), expected.map((reply) => [null, reply]));
  }
}

async function lists(r) {
  assert.equal(await r.rpush("l{1}", "a", "b", "c"), 3);
  assert.equal(await r.lpush("l{1}", "y", "z"), 5);
  assert.deepEqual(await r.lrange("l{1}", 0, -1), ["z", "y", "a", "b", "c"]);
  assert.equal(await r.lindex("l{1}", -1), "c");
  assert.deepEqual(await r.lpos("l{1}", "a", "COUNT", 0), [2]);
  assert.equal(await r.linsert("l{1}", "AFTER", "a", "a2"), 6);
  assert.equal(await r.lrem("l{1}", 0, "a2"), 1);
  assert.equal(await r.lmove("l{1}", "m{1}", "LEFT", "RIGHT"), "z");
  assert.deepEqual(await r.lmpop(2, "none{1}", "m{1}", "LEFT"), ["m{1}", ["z"]]);
  assert.equal(await r.ltrim("l{1}", 1, 2), "OK");
  assert.deepEqual(await r.lpop("l{1}", 5), ["a", "b"]);
  assert.equal(await r.rpop("l{1}"), null);
  const big = Array.from({ length: MANY }, (_, n) => `element ${n}`);
  assert.equal(await r.rpush("l{1}", ...big), MANY);
  assert.deepEqual(await r.lrange("l{1}", 0, -1), big);
  await refused(r.lset("l{1}", MANY, "x"), "ERR index out of range");
}

async function hashes(r) {
  assert.equal(await r.hset("h", { a: 1, b: "two" }), 2);
  assert.deepEqual(await r.hgetall("h"), { a: "1", b: "two" });
  assert.deepEqual(await r.hmget("h", "b", "none"), ["two", null]);
  assert.equal(await r.hincrby("h", "a", 5), 6);
  assert.equal(await r.hincrbyfloat("h", "a", 0.25), "6.25");
  assert.equal(await r.hdel("h", "b", "none"), 1);
  assert.equal(await r.hlen("h"), 1);
  const many = Object.fromEntries(Array.from({ length: MANY }, (_, n) => [`field ${n}`, String(n)]));
  assert.equal(await r.hset("large", many), MANY);
  assert.deepEqual(await r.hgetall("large"), many);
}

async function sets(r) {
  assert.equal(await r.sadd("s{2}", "a", "b", "c"), 3);
  assert.equal(await r.sadd("t{2}", "b", "c", "d"), 3);
  assert.deepEqual(new Set(await r.smembers("s{2}")), new Set(["a", "b", "c"]));
  assert.deepEqual(new Set(await r.sinter("s{2}", "t{2}")), new Set(["b", "c"]));
  assert.equal(await r.sunionstore("u{2}", "s{2}", "t{2}"), 4);
  assert.deepEqual(await r.smismember("u{2}", "a", "none"), [1, 0]);
  assert.ok(["a", "b", "c", "d"].includes(await r.spop("u{2}")));
  assert.equal(await r.scard("u{2}"), 3);
  assert.equal(await r.smove("s{2}", "t{2}", "a"), 1);
}

async function sortedSets(r) {
  assert.equal(await r.zadd("z{3}", 1, "a", 2, "b", 3.5, "c"), 3);
  assert.equal(await r.zscore("z{3}", "c"), "3.5");
  assert.equal(await r.zincrby("z{3}", 0.5, "a"), "1.5");
  assert.deepEqual(await r.zrange("z{3}", 0, -1, "WITHSCORES"), ["a", "1.5", "b", "2", "c", "3.5"]);
  assert.deepEqual(await r.zrangebyscore("z{3}", "(1.5", "+inf", "LIMIT", 0, 1), ["b"]);
  assert.equal(await r.zrevrank("z{3}", "a"), 2);
  assert.equal(await r.zadd("y{3}", 10, "b"), 1);
  assert.equal(await r.zinterstore("w{3}", 2, "z{3}", "y{3}", "WEIGHTS", 2, 1), 1);
  assert.deepEqual(await r.zpopmax("w{3}"), ["b", "14"]);
  assert.equal(await r.zrem("z{3}", "a", "none"), 1);
  assert.equal(await r.zcard("z{3}"), 2);
  assert.equal(await r.geoadd("geo", 13.361389, 38.115556, "Palermo", 15.087269, 37.502669, "Catania"), 2);
  assert.equal(await r.geodist("geo", "Palermo", "Catania", "km"), "166.2742");
  assert.equal(await r.pfadd("hll", "a", "b"), 1);
  assert.equal(await r.pfcount("hll"), 2);
}

async function streams(r) {
  assert.equal(await r.xadd("x", "1-1", "f", "1"), "1-1");
  assert.equal(await r.xadd("x", "1-*", "f", "2"), "1-2");
  assert.deepEqual(await r.xrange("x", "-", "+"), [["1-1", ["f", "1"]], ["1-2", ["f", "2"]]]);
  assert.deepEqual(await r.xread("STREAMS", "x", "1-1"), [["x", [["1-2", ["f", "2"]]]]]);
  assert.equal(await r.xgroup("CREATE", "x", "g", "0"), "OK");
  const read = await r.xreadgroup("GROUP", "g", "alice", "COUNT", 1, "STREAMS", "x", ">");
  assert.deepEqual(read, [["x", [["1-1", ["f", "1"]]]]]);
  assert.deepEqual(await r.xpending("x", "g"), [1, "1-1", "1-1", [["alice", "1"]]]);
  assert.equal(await r.xack("x", "g", "1-1"), 1);
  assert.equal(await r.xtrim("x", "MAXLEN", 1), 1);
  assert.equal(await r.xlen("x"), 1);
}

async function transactions(r, cluster) {
  const replies = await r.multi().set("t{4}", 1).incr("t{4}").rpush("u{4}", "a").exec();
  assert.deepEqual(replies, [[null, "OK"], [null, 2], [null, 1]]);
  if (cluster) return;
  // Over keys of any slot, and given up when a watched key changes.
  const names = Array.from({ length: 20 }, (_, n) => `any:${n}`);
  const multi = r.multi();
  names.forEach((name) => multi.set(name, name));
  assert.deepEqual(await multi.exec(), names.map(() => [null, "OK"]));
  assert.equal(await r.watch(...names), "OK");
  const other = r.duplicate();
  assert.equal(await other.set("any:7", "changed"), "OK");
  assert.equal(await r.multi().del(...names).exec(), null);
  assert.equal(await r.multi().del(...names).exec().then(([[, count]]) => count), names.length);
  await other.quit();
}

async function publishSubscribe(r) {
  const subscriber = r.duplicate();
  const heard = [];
  const all = new Promise((resolve) => {
    const hear = (...words) => {
      heard.push(words.join(" "));
      if (heard.length === 3) resolve();
    };
    subscriber.on("message", (channel, message) => hear("message", channel, message));
    subscriber.on("pmessage", (pattern, channel, message) => hear("pmessage", pattern, channel, message));
  });
  assert.equal(await subscriber.subscribe("news", "other"), 2);
  assert.equal(await subscriber.psubscribe("n*"), 3);
  assert.equal(await r.publish("news", "hello"), 2);
  assert.equal(await r.publish("other", "bye"), 1);
  await all;
  assert.deepEqual(heard.sort(), ["message news hello", "message other bye", "pmessage n* news hello"]);
  assert.deepEqual(await r.pubsub("NUMSUB", "news"), ["news", 1]);
  assert.equal(await subscriber.unsubscribe("news", "other"), 1);
  assert.equal(await r.publish("other", "nobody"), 0);
  await subscriber.quit();
}

// ioredis sends a multi-key command to the owner of its first key; that shard answers for all.
async function manyKeys(r) {
  const names = Array.from({ length: MANY }, (_, n) => `multi:${n}`);
  assert.equal(await r.mset(...names.flatMap((name, n) => [name, `value ${n}`])), "OK");
  assert.deepEqual(await r.mget(...names, "absent"), [...names.map((_, n) => `value ${n}`), null]);
  assert.equal(await r.exists(...names, "absent"), MANY);
  assert.equal(await r.del(...names.slice(0, 100)), 100);
  assert.equal(await r.msetnx("multi:0", "a", "multi:499", "b"), 0);
  assert.equal(await r.exists(...names), MANY - 100);
}

async function scanned(node) {
  const found = new Set();
  let cursor = "0";
  do {
    const [next, keys] = await node.scan(cursor, "COUNT", 7);
    keys.forEach((key) => found.add(key));
    cursor = next;
  } while (cursor !== "0");
  return found;
}

async function keyspace(r, cluster) {
  assert.equal(await r.flushall(), "OK");
  const names = Array.from({ length: MANY }, (_, n) => `scan:${n}`);
  await Promise.all(names.map((name) => r.set(name, "v")));
  for (const node of cluster ? r.nodes("master") : [r]) {
    assert.deepEqual(await scanned(node), new Set(names));
    assert.equal(await node.dbsize(), MANY);
    assert.deepEqual(new Set(await node.keys("*")), new Set(names));
  }
  assert.equal(await r.flushall(), "OK");
  assert.equal(await r.dbsize(), 0);
}

async function blocking(r, other) {
  assert.equal(await r.rpush("w", "a", "b"), 2);
  assert.deepEqual(await r.blpop("w", 0), ["w", "a"]);
  assert.equal(await r.blmove("w", "w", "LEFT", "RIGHT", 1), "b");
  assert.deepEqual(await r.blmpop(1, 1, "w", "LEFT", "COUNT", 2), ["w", ["b"]]);
  assert.equal(await r.blpop("w", 0.01), null);
  const [popped] = await Promise.all([r.brpop("w", 10), other.rpush("w", "later")]);
  assert.deepEqual(popped, ["w", "later"]);
  other.disconnect();
}

const [mode, port] = [process.argv[2], Number(process.argv[3])];
const cluster = mode === "cluster";
const connect = () =>
  cluster ? new Cluster([{ host: "127.0.0.1", port }]) : new Redis({ host: "127.0.0.1", port });
const r = connect();
r.on("error", (error) => console.error(error.message));
assert.equal(await r.ping(), "PONG");
assert.equal(await r.flushall(), "OK");
await strings(r);
await generic(r);
await expiry(r);
await lists(r);
await hashes(r);
assert.equal(await r.flushall(), "OK");
await sets(r);
await sortedSets(r);
await streams(r);
await transactions(r, cluster);
await publishSubscribe(r);
await pipelines(r, cluster);
await manyKeys(r);
await blocking(r, connect());
await keyspace(r, cluster);
if (cluster) console.log(`nodes ${r.nodes("master").length}`);
await r.quit();
console.log("passed");
