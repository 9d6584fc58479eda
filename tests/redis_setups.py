"""Redis on more than one server: a cluster of six nodes, and a master with replica and sentinels."""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

import pytest
from redis_server import RedisServer, free_port

if TYPE_CHECKING:
    from collections.abc import Callable

redis = pytest.importorskip("redis", reason="the extra 'redis' is not installed")

SLOTS = 16384
_REPLICATES_AS = ("--masteruser", "repl", "--masterauth", "pass")


def until(true: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 60
    while True:
        with suppress(redis.RedisError):
            if true():
                return
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


class Setup:
    """Servers of which one is killed and another takes its place.

    ``url`` is for a store there. ``cut`` keeps what the master is told from its replica, and
    ``kill_master`` kills the one that has the queue of the prefix "p".
    """

    url: str

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._clients: dict[RedisServer, redis.Redis] = {}

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def _start(self, *options: str, config: str | None = None) -> RedisServer:
        server = RedisServer(*options, port=free_port(), config=config)
        self._stack.enter_context(server)
        client = self._stack.enter_context(redis.Redis(port=server.port))
        if "--sentinel" not in options:
            client.execute_command("ACL SETUSER repl on >pass +@all ~* &*")
        self._clients[server] = client
        return server

    def _info(self, server: RedisServer, name: str) -> object:
        return self._clients[server].info("replication").get(name)

    def master(self) -> RedisServer:
        raise NotImplementedError

    def cut(self) -> None:
        client = self._clients[self.master()]
        client.execute_command("ACL SETUSER repl off")
        client.client_kill_filter(_type="replica")

    def kill_master(self) -> None:
        self.master().kill()


class Cluster(Setup):
    """Three masters, each with a replica."""

    def __enter__(self) -> Cluster:  # noqa: PYI034 - typing.Self is Python 3.11
        options = ("--cluster-enabled", "yes", "--cluster-node-timeout", "1000")
        options += ("--cluster-replica-validity-factor", "0", *_REPLICATES_AS)
        servers = [self._start(*options) for _ in range(6)]
        masters, replicas = servers[:3], servers[3:]
        first = self._clients[masters[0]]
        for number, server in enumerate(masters):
            ends = (SLOTS * number // 3, SLOTS * (number + 1) // 3 - 1)
            self._clients[server].execute_command("CLUSTER ADDSLOTSRANGE", *ends)
        for number, server in enumerate(servers):
            self._clients[server].execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
            first.execute_command("CLUSTER MEET", "127.0.0.1", server.port)
        until(lambda: all(self._knows_all(server) for server in servers), "the nodes meet")
        for master, replica in zip(masters, replicas, strict=True):
            number = self._clients[master].execute_command("CLUSTER MYID")
            self._clients[replica].execute_command("CLUSTER REPLICATE", number)
        until(
            lambda: all(self._info(r, "master_link_status") == "up" for r in replicas), "replicas"
        )
        until(lambda: all(self._is_ok(server) for server in servers), "the cluster is up")
        self.url = f"redis+cluster://127.0.0.1:{masters[1].port}"
        return self

    def _knows_all(self, server: RedisServer) -> bool:
        return len(self._clients[server].cluster("nodes")) == 6

    def _is_ok(self, server: RedisServer) -> bool:
        client = self._clients[server]
        return client.cluster("info")["cluster_state"] == "ok" and any(
            "slave" in node["flags"] for node in client.cluster("nodes").values()
        )

    def master(self) -> RedisServer:
        slot = next(iter(self._clients.values())).cluster("keyslot", "{p:queue}")
        for server, client in self._clients.items():
            with suppress(redis.ConnectionError):
                for (first, last), where in _slots(client):
                    if first <= slot <= last and where == server.port:
                        return server
        raise AssertionError("nobody has the slot")


def _slots(client: redis.Redis) -> list[tuple[tuple[int, int], int]]:
    found = client.execute_command("CLUSTER SLOTS")
    if isinstance(found, dict):
        return [(slots, node["primary"][1]) for slots, node in found.items()]
    return [((first, last), int(node[1])) for first, last, node, *_ in found]


class Sentinels(Setup):
    """A master, a replica, and three sentinels who watch them."""

    def __enter__(self) -> Sentinels:  # noqa: PYI034 - typing.Self is Python 3.11
        self._servers = [self._start(*_REPLICATES_AS) for _ in range(2)]
        master, replica = self._servers
        self._clients[replica].replicaof("127.0.0.1", master.port)
        until(lambda: self._info(replica, "master_link_status") == "up", "the replica")
        watch = (
            f"sentinel monitor frontier 127.0.0.1 {master.port} 2\n"
            "sentinel down-after-milliseconds frontier 1000\n"
            "sentinel failover-timeout frontier 5000\n"
        )
        sentinels = [self._start("--sentinel", config=watch) for _ in range(3)]
        for sentinel in sentinels:
            until(lambda s=sentinel: self._sees_all(s), "the sentinels meet")
        places = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in sentinels)
        self.url = f"redis+sentinel://{places}/frontier"
        return self

    def _sees_all(self, sentinel: RedisServer) -> bool:
        state = self._clients[sentinel].sentinel_master("frontier")
        return (state["num-other-sentinels"], state["num-slaves"]) == (2, 1)

    def master(self) -> RedisServer:
        for server in self._servers:
            with suppress(redis.ConnectionError):
                if self._info(server, "role") == "master":
                    return server
        raise AssertionError("there is no master")


SETUPS = {"cluster": Cluster, "sentinels": Sentinels}
