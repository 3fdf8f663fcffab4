"""``torchrun`` for tests: several agents on loopback, their workers found and killed."""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

PATIENCE = 240  # seconds: a machine that is busy with other tests imports torch slowly, five times


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextmanager
def agents(*launches):
    """One ``torchrun`` process a launch (a list of its arguments), all of them gone afterwards."""
    started = []
    try:
        for arguments in launches:
            # A group of its own, so that whatever is left can be ended together; one thread, as CONTRIBUTING has it.
            started.append(
                subprocess.Popen(
                    [sys.executable, "-m", "torch.distributed.run", *map(str, arguments)],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
                    start_new_session=True,
                )
            )
        yield started
    finally:
        for agent in started:
            for pid in (*workers(agent.pid).values(), agent.pid):
                _kill(pid)
            agent.communicate()


def finish(*started):
    """Wait until all agents are done; what they printed, if all is well."""
    printed = [agent.communicate(timeout=PATIENCE)[0] for agent in started]
    for agent, text in zip(started, printed, strict=True):
        assert agent.returncode == 0, text
    return printed


def nodes(number, *program):
    """The arguments of the agents of a static rendezvous on loopback, one worker each."""
    port = free_port()
    place = ["--nnodes", number, "--nproc-per-node", 1, "--master-addr", "127.0.0.1", "--master-port", port]
    return [[*place, "--node-rank", rank, *program] for rank in range(number)]


def workers(agent):
    """Process ids of an agent's workers by their rank, from /proc."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == agent:
                environment = dict(
                    entry.split("=", 1) for entry in (folder / "environ").read_text().split("\0") if "=" in entry
                )
                if "RANK" in environment:
                    found[int(environment["RANK"])] = int(folder.name)
        except (OSError, ValueError, UnicodeDecodeError):  # it has ended while we looked
            continue
    return found


def wait_for(condition, agent):
    """Until ``condition()`` holds, while the agent lives."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert agent.poll() is None, agent.communicate()[0]
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.01)


def _kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
