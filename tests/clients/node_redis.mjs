// node-redis against a running server in cluster mode: every reply is checked against the value Redis gives.
//
// usage: node_redis.mjs PORT PROTOCOL
//
// PORT is any port of the cluster, from which node-redis learns the others.

import assert from "node:assert/strict";
import process from "node:process";
import { createCluster } from "redis";

const MANY = 500;

async function types(r) {
  assert.equal(await r.set("s", "v"), "OK");
  assert.equal(await r.get("s"), "v");
  assert.equal(await r.get("absent"), null);
  assert.equal(await r.incrBy("n", 41), 41);
  assert.equal(await r.rPush("l", ["a", "b"]), 2);
  assert.deepEqual(await r.lRange("l", 0, -1), ["a", "b"]);
  assert.equal(await r.hSet("h", { f: "1", g: "2" }), 2);
  assert.deepEqual({ ...(await r.hGetAll("h")) }, { f: "1", g: "2" });
  assert.equal(await r.sAdd("{t}1", ["a", "b"]), 2);
  assert.equal(await r.sAdd("{t}2", ["b", "c"]), 2);
  assert.deepEqual(await r.sInter(["{t}1", "{t}2"]), ["b"]);
  assert.equal(await r.zAdd("z", [{ score: 1.5, value: "a" }, { score: 2, value: "b" }]), 2);
  assert.deepEqual(await r.zRangeWithScores("z", 0, -1), [
    { score: 1.5, value: "a" },
    { score: 2, value: "b" },
  ]);
  assert.equal(await r.xAdd("x", "1-1", { f: "v" }), "1-1");
  assert.equal(await r.xLen("x"), 1);
  assert.equal(await r.pfAdd("p", ["a", "b"]), 1);
  assert.equal(await r.expire("s", 100), 1);
  assert.ok((await r.ttl("s")) > 90);
  await assert.rejects(r.incr("l"), /^SimpleError: WRONGTYPE|WRONGTYPE/);
}

// What is sent without waiting becomes one pipeline for each node.
async function pipelines(r) {
  const replies = [];
  const expected = [];
  for (let n = 0; n < MANY; n++) {
    replies.push(r.set(`many:${n}`, String(n)), r.incr(`many:${n}`));
    expected.push("OK", n + 1);
  }
  assert.deepEqual(await Promise.all(replies), expected);
}

// node-redis sends a command to the owner of its first key; that shard answers for all.
async function manyKeys(r) {
  const names = Array.from({ length: MANY }, (_, n) => `many:${n}`);
  assert.equal(await r.mSet(names.map((name) => [name, `value of ${name}`])), "OK");
  const values = await r.mGet([...names, "absent"]);
  assert.deepEqual(values, [...names.map((name) => `value of ${name}`), null]);
  for (const { client } of r.masters.map((master) => ({ client: r.nodeClient(master) }))) {
    const found = new Set();
    for await (const keys of (await client).scanIterator({ MATCH: "many:*", COUNT: 50 })) {
      keys.forEach((key) => found.add(key));
    }
    assert.deepEqual(found, new Set(names));
  }
  assert.equal(await r.del(names), MANY);
}

async function transactions(r) {
  const replies = await r.multi().set("{t}a", "1").incr("{t}a").rPush("{t}l", "x").exec();
  assert.deepEqual(replies, ["OK", 2, 1]);
}

async function publishSubscribe(r) {
  const heard = new Promise((resolve) => {
    r.subscribe("news", (message, channel) => resolve([channel, message])).then(() => {
      r.publish("news", "hello").then((count) => assert.equal(count, 1));
    });
  });
  assert.deepEqual(await heard, ["news", "hello"]);
  await r.unsubscribe("news");
}

const port = Number(process.argv[2]);
const r = createCluster({
  rootNodes: [{ socket: { host: "127.0.0.1", port } }],
  RESP: Number(process.argv[3]),
});
r.on("error", (error) => console.error(error));
await r.connect();
for (const master of r.masters) await (await r.nodeClient(master)).flushAll();
await types(r);
await pipelines(r);
await manyKeys(r);
await transactions(r);
await publishSubscribe(r);
console.log(`nodes ${r.masters.length}`);
await r.close();
console.log("passed");
