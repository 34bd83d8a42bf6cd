"""valkey-glide against a running server in cluster mode: every reply is checked against the value Redis gives.

usage: valkey_glide.py PORT

PORT is any port of the cluster, from which glide learns the others.
"""

import asyncio
import sys

from glide import (
    ClusterBatch,
    ClusterScanCursor,
    GlideClusterClient,
    GlideClusterClientConfiguration,
    NodeAddress,
    RequestError,
)

MANY = 500


def equal(actual, expected):
    if actual != expected:
        raise AssertionError(f"expected {expected!r}, got {actual!r}")


async def types(r):
    equal(await r.set("s", "v"), "OK")
    equal(await r.get("s"), b"v")
    equal(await r.get("absent"), None)
    equal(await r.incrby("n", 41), 41)
    equal(await r.rpush("l", ["a", "b"]), 2)
    equal(await r.lrange("l", 0, -1), [b"a", b"b"])
    equal(await r.hset("h", {"f": "1", "g": "2"}), 2)
    equal(await r.hgetall("h"), {b"f": b"1", b"g": b"2"})
    equal(await r.sadd("{t}1", ["a", "b"]), 2)
    equal(await r.sadd("{t}2", ["b", "c"]), 2)
    equal(await r.sinter(["{t}1", "{t}2"]), {b"b"})
    equal(await r.zadd("z", {"a": 1.5, "b": 2}), 2)
    equal(await r.zscore("z", "a"), 1.5)
    equal(await r.xlen("x"), 0)
    equal(await r.custom_command(["XADD", "x", "1-1", "f", "v"]), b"1-1")
    equal(await r.pfadd("p", ["a", "b"]), 1)
    equal(await r.expire("s", 100), True)
    assert 90 <= await r.ttl("s") <= 100
    try:
        await r.incr("l")
    except RequestError as error:
        assert "WRONGTYPE" in str(error) or "wrong kind" in str(error), error
    else:
        raise AssertionError("a list was incremented")


async def batches(r):
    """Not atomic: over many slots. Atomic: a transaction, with a hash tag."""
    batch = ClusterBatch(is_atomic=False)
    for n in range(MANY):
        batch.set(f"many:{n}", str(n))
        batch.incr(f"many:{n}")
    expected = [reply for n in range(MANY) for reply in ("OK", n + 1)]
    equal(await r.exec(batch, raise_on_error=True), expected)
    batch = ClusterBatch(is_atomic=True)
    batch.set("{t}a", "1")
    batch.incr("{t}a")
    batch.rpush("{t}l", ["x"])
    equal(await r.exec(batch, raise_on_error=True), ["OK", 2, 1])


async def many_keys(r):
    """Glide parts these by slots itself."""
    names = [f"many:{n}" for n in range(MANY)]
    equal(await r.mset({name: f"value of {name}" for name in names}), "OK")
    expected = [f"value of {name}".encode() for name in names]
    equal(await r.mget(names + ["absent"]), expected + [None])
    equal(await r.exists(names + ["absent"]), MANY)
    found = set()
    cursor = ClusterScanCursor()
    while not cursor.is_finished():
        cursor, keys = await r.scan(cursor, match="many:*", count=50)
        found.update(keys)
    equal(found, {name.encode() for name in names})
    equal(await r.delete(names), MANY)


async def publish_subscribe(addresses, r):
    modes = GlideClusterClientConfiguration.PubSubChannelModes
    subscriptions = GlideClusterClientConfiguration.PubSubSubscriptions(
        channels_and_patterns={modes.Exact: {"news"}}, callback=None, context=None
    )
    subscriber = await GlideClusterClient.create(
        GlideClusterClientConfiguration(addresses, pubsub_subscriptions=subscriptions)
    )
    for _ in range(500):
        # The subscription is made behind the scenes: publish until it is there.
        if await r.publish("hello", "news"):
            break
        await asyncio.sleep(0.02)
    message = await subscriber.get_pubsub_message()
    equal((message.channel, message.message), (b"news", b"hello"))
    await subscriber.close()


async def main():
    addresses = [NodeAddress("127.0.0.1", int(sys.argv[1]))]
    r = await GlideClusterClient.create(GlideClusterClientConfiguration(addresses))
    equal(await r.flushall(), "OK")
    await types(r)
    await batches(r)
    await many_keys(r)
    await publish_subscribe(addresses, r)
    await r.close()
    print("passed")


asyncio.run(main())
