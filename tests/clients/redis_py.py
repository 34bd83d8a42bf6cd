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
    equal(r.rpush("w", "a", "b", "c"), 3)
    equal(r.blpop("w"), (b"w", b"a"))
    equal(r.brpop(["w"], timeout=1), (b"w", b"c"))
    equal(r.brpoplpush("w", "w", timeout=1), b"b")
    equal(r.blmove("w", "w", 1, "LEFT", "RIGHT"), b"b")
    equal(r.blpop("w"), (b"w", b"b"))
    equal(r.blpop("w", timeout=0.01), None)
    equal(r.bzpopmin("w", timeout=0.01), None)
    pusher = threading.Thread(target=lambda: new_client().rpush("w", "later"))
    pusher.start()
    equal(r.blpop("w", timeout=10), (b"w", b"later"))
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
    pipelines(r)
    many_keys(r, cluster)
    blocking(r, lambda: connect(mode, port, protocol))
    keyspace(r, cluster)
    if cluster:
        print(f"nodes {len(r.get_nodes())}")
    r.close()
    print("passed")


main()
