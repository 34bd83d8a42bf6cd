"""redis-py against a running server: every reply is checked against the value Redis gives.

usage: redis_py.py plain|cluster PORT PROTOCOL

In plain mode PORT is the main port. In cluster mode it is the port of one shard: RedisCluster learns the
others from it and sends each command to the shard that owns its key.
"""

import sys
import threading
import time

import redis
from redis.cluster import ClusterNode, RedisCluster

MANY = 500
FAR = 4_102_444_800  # 2100-01-01, in seconds


def equal(actual, expected):
    if actual != expected:
        raise AssertionError(f"expected {expected!r}, got {actual!r}")


def everywhere(actual, expected):
    """A cluster client of several nodes gives the answer of each."""
    for answer in actual.values() if isinstance(actual, dict) else [actual]:
        equal(answer, expected)


def refused(call, text):
    try:
        answer = call()
    except redis.ResponseError as error:
        equal(str(error), text)
    else:
        raise AssertionError(f"expected the error {text!r}, got {answer!r}")


def strings(r):
    equal(r.set("s", "one"), True)
    equal(r.get("s"), b"one")
    equal(r.get("absent"), None)
    equal(r.set("s", "two", nx=True), None)
    equal(r.set("s", "two", xx=True, get=True), b"one")
    equal(r.append("s", "-three"), 9)
    equal(r.strlen("s"), 9)
    equal(r.getrange("s", 0, 2), b"two")
    equal(r.setrange("s", 4, "THREE"), 9)
    equal(r.getdel("s"), b"two-THREE")
    equal(r.setnx("s", b"\x00\xff\r\n"), True)
    equal(r.getset("s", "10"), b"\x00\xff\r\n")
    equal(r.incr("s"), 11)
    equal(r.decrby("s", 21), -10)
    equal(r.incrbyfloat("s", 0.5), -9.5)
    refused(lambda: r.incr("s"), "value is not an integer or out of range")
    equal(r.setbit("bits", 7, 1), 0)
    equal(r.getbit("bits", 7), 1)
    equal(r.bitcount("bits"), 1)
    equal(r.bitpos("bits", 1), 7)


def generic(r):
    r.set("g{1}", "v")
    equal(r.exists("g{1}"), 1)
    equal(r.type("g{1}"), b"string")
    equal(r.touch("g{1}"), 1)
    equal(r.rename("g{1}", "h{1}"), True)
    equal(r.renamenx("h{1}", "g{1}"), True)
    equal(r.copy("g{1}", "h{1}"), True)
    equal(r.copy("g{1}", "h{1}"), False)
    equal(r.object("encoding", "h{1}"), b"embstr")
    payload = r.dump("h{1}")
    equal(r.restore("i{1}", 0, payload), b"OK")
    equal(r.get("i{1}"), b"v")
    equal(r.unlink("i{1}"), 1)
    equal(r.delete("h{1}"), 1)
    refused(lambda: r.rename("h{1}", "g{1}"), "no such key")


def expiry(r):
    r.set("e", "v", ex=100)
    assert 90 <= r.ttl("e") <= 100
    equal(r.persist("e"), True)
    equal(r.ttl("e"), -1)
    equal(r.pexpire("e", 100_000), True)
    assert 90_000 <= r.pttl("e") <= 100_000
    equal(r.expireat("e", FAR), True)
    equal(r.expiretime("e"), FAR)
    equal(r.expire("e", 10, gt=True), False)
    equal(r.getex("e", persist=True), b"v")
    equal(r.ttl("e"), -1)
    equal(r.expire("e", -1), True)
    equal(r.get("e"), None)
    equal(r.ttl("e"), -2)
    # A key does end by itself: wait for that, however slow the machine is.
    r.set("short", "v", px=20)
    for _ in range(1_000):
        if r.get("short") is None:
            break
        time.sleep(0.02)
    else:
        raise AssertionError("a key of 20 ms is still there")


def pipelines(r):
    pipe = r.pipeline(transaction=False)
    for n in range(MANY):
        pipe.set(f"many:{n}", n)
        pipe.incrby(f"many:{n}", 1)
        pipe.get(f"many:{n}")
    expected = [reply for n in range(MANY) for reply in (True, n + 1, str(n + 1).encode())]
    equal(pipe.execute(), expected)


def lists(r):
    equal(r.rpush("l{1}", "a", "b", "c"), 3)
    equal(r.lpush("l{1}", b"\x00", "z"), 5)
    equal(r.lrange("l{1}", 0, -1), [b"z", b"\x00", b"a", b"b", b"c"])
    equal(r.lindex("l{1}", -1), b"c")
    equal(r.lpos("l{1}", "a"), 2)
    equal(r.lpos("l{1}", "a", count=0), [2])
    equal(r.linsert("l{1}", "before", "a", "y"), 6)
    equal(r.lset("l{1}", 0, "x"), True)
    equal(r.lrem("l{1}", 1, "y"), 1)
    equal(r.ltrim("l{1}", 0, 3), True)
    equal(r.llen("l{1}"), 4)
    equal(r.lmove("l{1}", "m{1}", "LEFT", "RIGHT"), b"x")
    equal(r.rpoplpush("l{1}", "m{1}"), b"b")
    equal(r.lmpop(2, "none{1}", "m{1}", direction="RIGHT", count=5), [b"m{1}", [b"x", b"b"]])
    equal(r.lpop("l{1}"), b"\x00")
    equal(r.rpop("l{1}", 5), [b"a"])
    equal(r.lpop("l{1}"), None)
    refused(lambda: r.lset("l{1}", 0, "x"), "no such key")
    big = [f"element {n}" for n in range(MANY)]
    equal(r.rpush("l{1}", *big), MANY)
    equal(r.lrange("l{1}", 100, 101), [b"element 100", b"element 101"])
    equal(r.sort("l{1}", start=0, num=2, alpha=True), [b"element 0", b"element 1"])


def hashes(r):
    equal(r.hset("h", mapping={"a": 1, "b": "two", "c": b"\xff"}), 3)
    equal(r.hset("h", "a", 10), 0)
    equal(r.hgetall("h"), {b"a": b"10", b"b": b"two", b"c": b"\xff"})
    equal(r.hget("h", "b"), b"two")
    equal(r.hmget("h", ["a", "none"]), [b"10", None])
    equal(r.hincrby("h", "a", 5), 15)
    equal(r.hincrbyfloat("h", "a", 0.5), 15.5)
    equal(r.hsetnx("h", "a", 1), False)
    equal(r.hexists("h", "c"), True)
    equal(r.hdel("h", "c", "none"), 1)
    equal(set(r.hkeys("h")), {b"a", b"b"})
    equal(set(r.hvals("h")), {b"15.5", b"two"})
    equal(r.hlen("h"), 2)
    equal(r.hstrlen("h", "b"), 3)
    assert r.hrandfield("h") in (b"a", b"b")
    many = {f"field {n}".encode(): str(n).encode() for n in range(MANY)}
    equal(r.hset("large", mapping=many), MANY)
    equal(dict(r.hscan_iter("large", count=50)), many)
    refused(lambda: r.hincrby("h", "b", 1), "hash value is not an integer")


def sets(r):
    equal(r.sadd("s{2}", "a", "b", "c"), 3)
    equal(r.sadd("t{2}", "b", "c", "d"), 3)
    equal(set(r.smembers("s{2}")), {b"a", b"b", b"c"})
    equal(set(r.sinter("s{2}", "t{2}")), {b"b", b"c"})
    equal(set(r.sunion("s{2}", "t{2}")), {b"a", b"b", b"c", b"d"})
    equal(set(r.sdiff("s{2}", "t{2}")), {b"a"})
    equal(r.sinterstore("u{2}", "s{2}", "t{2}"), 2)
    equal(r.sintercard(2, ["s{2}", "t{2}"], limit=1), 1)
    equal(bool(r.sismember("u{2}", "b")), True)
    equal(r.smismember("u{2}", ["a", "b"]), [0, 1])
    equal(r.smove("s{2}", "u{2}", "a"), True)
    equal(r.scard("u{2}"), 3)
    assert r.spop("u{2}") in (b"a", b"b", b"c")
    equal(len(r.srandmember("u{2}", 5)), 2)
    equal(r.srem("t{2}", "b", "none"), 1)
    equal(set(r.sscan_iter("s{2}")), {b"b", b"c"})


def sorted_sets(r, protocol):
    equal(r.zadd("z{3}", {"a": 1, "b": 2, "c": 3.5}), 3)
    equal(r.zadd("z{3}", {"a": 0.5}, lt=True, ch=True), 1)
    equal(r.zscore("z{3}", "a"), 0.5)
    equal(r.zmscore("z{3}", ["a", "none"]), [0.5, None])
    equal(r.zincrby("z{3}", 1, "a"), 1.5)
    equal(r.zrank("z{3}", "c"), 2)
    equal(r.zrange("z{3}", 0, -1), [b"a", b"b", b"c"])
    entries = [tuple(entry) for entry in r.zrange("z{3}", 0, -1, withscores=True)]
    equal(entries, [(b"a", 1.5), (b"b", 2.0), (b"c", 3.5)])
    equal(r.zrange("z{3}", "(2", "+inf", byscore=True), [b"c"])
    equal(r.zrevrangebyscore("z{3}", "+inf", 2), [b"c", b"b"])
    equal(r.zcount("z{3}", 1, 2), 2)
    equal(r.zadd("y{3}", {"b": 10, "d": 4}), 2)
    equal(r.zunionstore("w{3}", {"z{3}": 2, "y{3}": 1}, aggregate="MAX"), 4)
    equal(r.zscore("w{3}", "b"), 10)
    equal(r.zinter(["z{3}", "y{3}"]), [b"b"])
    equal(r.zdiff(["z{3}", "y{3}"]), [b"a", b"c"])
    # One entry is a pair by itself in RESP3.
    equal(r.zpopmin("z{3}"), [b"a", 1.5] if protocol == 3 else [(b"a", 1.5)])
    equal(r.zremrangebyscore("z{3}", 3, 4), 1)
    equal(r.zcard("z{3}"), 1)
    equal(dict(r.zscan_iter("w{3}")), {b"a": 3.0, b"b": 10.0, b"c": 7.0, b"d": 4.0})
    equal(r.geoadd("geo", (13.361389, 38.115556, "Palermo", 15.087269, 37.502669, "Catania")), 2)
    equal(r.geodist("geo", "Palermo", "Catania"), 166274.1516)
    equal(r.geosearch("geo", longitude=15, latitude=37, radius=100, unit="km"), [b"Catania"])
    equal(r.pfadd("hll", "a", "b", "a"), 1)
    equal(r.pfcount("hll"), 2)


def streams(r):
    equal(r.xadd("x", {"f": "1"}, id="1-1"), b"1-1")
    equal(r.xadd("x", {"f": "2"}, id="1-*"), b"1-2")
    refused(
        lambda: r.xadd("x", {"f": "0"}, id="1-1"),
        "The ID specified in XADD is equal or smaller than the target stream top item",
    )
    equal(r.xlen("x"), 2)
    equal(r.xrange("x"), [(b"1-1", {b"f": b"1"}), (b"1-2", {b"f": b"2"})])
    equal(r.xrevrange("x", count=1), [(b"1-2", {b"f": b"2"})])
    equal(r.xgroup_create("x", "g", id="0"), True)
    read = r.xreadgroup("g", "alice", {"x": ">"}, count=1)
    entries = read[b"x"] if isinstance(read, dict) else read[0][1]
    assert b"1-1" in str(entries).encode() and b"1-2" not in str(entries).encode(), entries
    equal(r.xpending("x", "g")["pending"], 1)
    equal(r.xclaim("x", "g", "bob", 0, ["1-1"]), [(b"1-1", {b"f": b"1"})])
    equal(r.xack("x", "g", "1-1"), 1)
    equal(r.xinfo_stream("x")["length"], 2)
    equal(r.xinfo_groups("x")[0]["consumers"], 2)
    equal(r.xdel("x", "1-1"), 1)
    equal(r.xtrim("x", maxlen=0, approximate=False), 1)
    assert b"-" in r.xadd("x", {"f": "3"})


def transactions(r):
    pipe = r.pipeline(transaction=True)
    pipe.set("t{4}", 1).incr("t{4}").rpush("u{4}", "a").lrange("u{4}", 0, -1)
    replies = pipe.execute()
    # A cluster client does not turn OK into True inside a transaction.
    assert replies[0] in (True, b"OK"), replies
    equal(replies[1:], [2, 1, [b"a"]])
    pipe = r.pipeline(transaction=True)
    pipe.set("t{4}", "x").incr("t{4}").set("t{4}", "y")
    replies = pipe.execute(raise_on_error=False)
    equal(len(replies), 3)
    assert isinstance(replies[1], redis.ResponseError), replies
    equal(r.get("t{4}"), b"y")


def across_shards(r):
    """What only the main port does: transactions and moves over keys of any slot."""
    keys = [f"any:{n}" for n in range(20)]
    pipe = r.pipeline(transaction=True)
    for key in keys:
        pipe.rpush(key, key)
    equal(pipe.execute(), [1] * 20)
    with r.pipeline() as watching:
        watching.watch(*keys)
        r.rpush(keys[7], "meanwhile")
        watching.multi()
        watching.delete(*keys)
        try:
            watching.execute()
        except redis.WatchError:
            pass
        else:
            raise AssertionError("a watched key changed unnoticed")
    r.transaction(lambda pipe: (pipe.multi(), pipe.delete(*keys)), *keys)
    equal(r.exists(*keys), 0)
    r.sadd("any:s", "a", "b")
    r.sadd("any:t", "b")
    equal(r.sdiffstore("any:u", "any:s", "any:t"), 1)
    equal(r.smove("any:s", "any:t", "a"), True)
    r.rpush("any:l", "a", "b")
    equal(r.lmove("any:l", "any:m", "LEFT", "LEFT"), b"a")
    equal(r.rename("any:m", "any:n"), True)
    equal(r.lrange("any:n", 0, -1), [b"a"])


def messages(pubsub, count):
    """The next `count` messages, confirmations included."""
    found = []
    for _ in range(1_000):
        message = pubsub.get_message(timeout=0.05)
        if message is not None:
            found.append((message["type"], message["channel"], message["data"]))
        if len(found) == count:
            return found
    raise AssertionError(f"{count} messages expected, got {found}")


def publish_subscribe(r):
    with r.pubsub() as pubsub:
        pubsub.subscribe("news", "other")
        equal(messages(pubsub, 2), [("subscribe", b"news", 1), ("subscribe", b"other", 2)])
        pubsub.psubscribe("n*")
        equal(messages(pubsub, 1), [("psubscribe", b"n*", 3)])
        equal(r.publish("news", b"\x00hello"), 2)
        kinds = sorted(messages(pubsub, 2))
        equal(kinds, [("message", b"news", b"\x00hello"), ("pmessage", b"news", b"\x00hello")])
        equal(r.pubsub_numsub("news", "none"), [(b"news", 1), (b"none", 0)])
        equal(sorted(r.pubsub_channels()), [b"news", b"other"])
        equal(r.pubsub_numpat(), 1)
        pubsub.unsubscribe("news")
        equal(messages(pubsub, 1), [("unsubscribe", b"news", 2)])
        equal(r.publish("other", "last"), 1)
        equal(messages(pubsub, 1), [("message", b"other", b"last")])
    equal(r.publish("nobody", "hears"), 0)


def many_keys(r, cluster):
    """Commands on keys of many slots: whole on the main port, split by the client in cluster mode."""
    pairs = {f"multi:{n}": f"value {n}".encode() for n in range(MANY)}
    mset, mget = (r.mset_nonatomic, r.mget_nonatomic) if cluster else (r.mset, r.mget)
    mset(pairs)
    equal(mget(list(pairs) + ["absent"]), list(pairs.values()) + [None])
    equal(r.exists(*pairs, "absent"), MANY)
    equal(r.touch(*pairs, "absent"), MANY)
    half = list(pairs)[: MANY // 2]
    equal(r.delete(*half), MANY // 2)
    equal(r.exists(*pairs), MANY - MANY // 2)
    if not cluster:
        equal(r.msetnx({"multi:0": "a", f"multi:{MANY - 1}": "b"}), False)
        equal(r.exists("multi:0"), 0)


def keyspace(r, cluster):
    everywhere(r.flushall(), True)
    names = {f"scan:{n}".encode() for n in range(MANY)}
    for name in names:
        r.set(name, "v")
    equal(set(r.scan_iter(count=7)), names)
    equal(set(r.scan_iter(match="scan:1*", count=50)), {n for n in names if n.startswith(b"scan:1")})
    if not cluster:
        # A cluster client adds up what each node says, but each shard's port speaks for all.
        equal(set(r.keys("*")), names)
        equal(r.dbsize(), MANY)
        assert r.randomkey() in names
    everywhere(r.flushall(), True)
    equal(r.exists(*names), 0)


def blocking(r, new_client):
    """Pops that find something, time out, and wait for another client."""

    def popped(pair):
        # A tuple in RESP2, a list in RESP3.
        return None if pair is None else tuple(pair)

    equal(r.rpush("w", "a", "b", "c"), 3)
    equal(popped(r.blpop("w")), (b"w", b"a"))
    equal(popped(r.brpop(["w"], timeout=1)), (b"w", b"c"))
    equal(r.brpoplpush("w", "w", timeout=1), b"b")
    equal(r.blmove("w", "w", 1, "LEFT", "RIGHT"), b"b")
    equal(popped(r.blpop("w")), (b"w", b"b"))
    equal(popped(r.blpop("w", timeout=0.01)), None)
    equal(popped(r.bzpopmin("w", timeout=0.01)), None)
    pusher = threading.Thread(target=lambda: new_client().rpush("w", "later"))
    pusher.start()
    equal(popped(r.blpop("w", timeout=10)), (b"w", b"later"))
    pusher.join()


def connect(mode, port, protocol):
    if mode == "plain":
        return redis.Redis(host="127.0.0.1", port=port, protocol=protocol)
    return RedisCluster(startup_nodes=[ClusterNode("127.0.0.1", port)], protocol=protocol)


def main():
    mode, port, protocol = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    cluster = mode == "cluster"
    r = connect(mode, port, protocol)
    equal(r.ping(), True)
    everywhere(r.flushall(), True)
    strings(r)
    generic(r)
    expiry(r)
    lists(r)
    hashes(r)
    everywhere(r.flushall(), True)
    sets(r)
    sorted_sets(r, protocol)
    streams(r)
    transactions(r)
    if not cluster:
        across_shards(r)
    publish_subscribe(r)
    pipelines(r)
    many_keys(r, cluster)
    blocking(r, lambda: connect(mode, port, protocol))
    keyspace(r, cluster)
    if cluster:
        print(f"nodes {len(r.get_nodes())}")
    r.close()
    print("passed")


main()
