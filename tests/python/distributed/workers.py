"""Several workers of one cluster, each in a process of its own, on the loopback."""

from __future__ import annotations

import json
import socket
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from forked import Fork
from patience import HANGS

# What the programs of workers begin with.
BEGIN = """
import json, os, sys, warnings
import lms, numpy as np, tensorflow as tf

RANK = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)
RING = tf.distribute.experimental.CommunicationOptions(
    implementation=tf.distribute.experimental.CollectiveCommunication.RING)

def say(value):
    print("SAYS " + json.dumps(value), flush=True)
"""


def free_addresses(count: int) -> list[str]:
    """Nobody else is given one of these ports before the workers take them, as a rule."""
    with ExitStack() as open_ones:
        sockets = [open_ones.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]


def cluster_of(**jobs: int) -> dict[str, list[str]]:
    """Addresses for so many tasks of each job."""
    addresses = iter(free_addresses(sum(jobs.values())))
    return {job: [next(addresses) for _ in range(count)] for job, count in jobs.items()}


class Workers:
    """Processes that run `code`, one for each task of the cluster, in forks as of run_forked().

    `until`: the job whose first task ends it all; None: all tasks are waited for.
    """

    def __init__(self, code: str, cluster: dict[str, list[str]], until: str | None = None):
        self._code, self._cluster, self._until = code, cluster, until
        self.statuses: dict[str, int | None] = {}
        self.outputs: dict[str, str] = {}

    def run(self, seconds: float = HANGS) -> None:
        """Fills in how each task ended, by names such as "worker 1": None, it had to be killed."""
        with tempfile.TemporaryDirectory(prefix="lms-workers-") as directory:
            children = {}
            for job, addresses in self._cluster.items():
                for index in range(len(addresses)):
                    task = {"cluster": self._cluster, "task": {"type": job, "index": index}}
                    name = f"{job} {index}"
                    environment = {"TF_CONFIG": json.dumps(task)}
                    children[name] = Fork(self._code, Path(directory) / name, environment)
            for name, child in children.items():
                if self._until is None or name == f"{self._until} 0":
                    child.wait(seconds)
            for name, child in children.items():
                self.statuses[name] = child.status
                if child.status is None:
                    child.kill()
                self.outputs[name] = child.output

    def said(self, name: str) -> list[Any]:
        """What a task has said, in the order in which it did."""
        lines = self.outputs[name].splitlines()
        return [json.loads(line[5:]) for line in lines if line.startswith("SAYS ")]


def run_workers(code: str, count: int = 2) -> list[list[Any]]:
    """What each of `count` workers has said."""
    workers = Workers(BEGIN + code, cluster_of(worker=count))
    workers.run()
    assert set(workers.statuses.values()) == {0}, workers.outputs
    return [workers.said(f"worker {rank}") for rank in range(count)]
