"""``torchrun`` for tests: several agents on loopback, their workers found and killed."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

PATIENCE = 240  # seconds: a machine that is busy with other tests imports torch slowly, five times


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Agent:
    """A ``torchrun`` process; what it and its workers print goes to a file, so that nobody waits for a reader."""

    def __init__(self, arguments):
        self.file = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 (close() closes it)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=self.file,
            stderr=subprocess.STDOUT,
            env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
        )

    def printed(self):
        self.file.seek(0)
        return self.file.read()

    def wait_until(self, condition):
        """Until ``condition()`` holds; what was printed if the agent ends before, or takes too long."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert self.process.poll() is None or condition(), self.printed()
            assert time.monotonic() < deadline, self.printed()
            time.sleep(0.01)

    def wait(self):
        """Until it is done: the exit code, and what was printed."""
        self.wait_until(lambda: self.process.poll() is not None)
        return self.process.returncode, self.printed()

    def workers(self):
        """Process ids of its workers by their rank, from /proc."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == self.process.pid:
                    pairs = (entry.partition("=") for entry in (folder / "environ").read_text().split("\0"))
                    environment = {name: value for name, _, value in pairs}
                    found[int(environment["RANK"])] = int(folder.name)
            except (OSError, ValueError, KeyError):  # it has ended while we looked, or is no worker
                continue
        return found

    def close(self):
        """End it and its workers, if they are still there."""
        for pid in (*self.workers().values(), self.process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        self.file.close()


@contextmanager
def agents(*launches):
    """One agent for each list of arguments, all of them gone afterwards."""
    with ExitStack() as stack:
        yield [stack.enter_context(closing(Agent(arguments))) for arguments in launches]


def finish(*started):
    """Wait until all agents are done; what they printed, if all is well."""
    printed = []
    for agent in started:
        code, text = agent.wait()
        assert code == 0, text
        printed.append(text)
    return printed


def nodes(number, *program):
    """The arguments of the agents of a static rendezvous on loopback, one worker each."""
    place = ["--nnodes", number, "--nproc-per-node", 1, "--master-addr", "127.0.0.1", "--master-port", free_port()]
    return [[*place, "--node-rank", rank, *program] for rank in range(number)]
