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
await pipelines(r, cluster);
await manyKeys(r);
await blocking(r, connect());
await keyspace(r, cluster);
if (cluster) console.log(`nodes ${r.nodes("master").length}`);
await r.quit();
console.log("passed");
