"""The processes that train together: who they are, where they compute, and what they agree on."""

import os
import secrets
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

_PATIENCE = timedelta(hours=2)  # the others wait while the main process fits a probe at the end of a run


@dataclass(frozen=True)
class Processes:
    """This process among those that ``torchrun`` started; alone by default.

    Args:
        rank: number of this process.
        size: how many there are.
        device: where this one computes.
    """

    rank: int
    size: int
    device: torch.device

    @property
    def main(self) -> bool:
        """Whether this process writes files and speaks."""
        return self.rank == 0

    @property
    def place(self) -> dict[str, Any]:
        """Arguments of a loader: which share of the data this process takes, and where to."""
        return {"rank": self.rank, "num_ranks": self.size, "device": self.device}

    def agree(self, *wishes: bool) -> tuple[bool, ...]:
        """Each wish, true everywhere if it is true on some process."""
        if self.size == 1:
            return wishes
        votes = torch.tensor([int(wish) for wish in wishes], device=self.device)
        dist.all_reduce(votes, dist.ReduceOp.MAX)
        return tuple(bool(vote) for vote in votes.tolist())

    def wait(self) -> None:
        """Until every process is here."""
        if self.size > 1:
            dist.barrier()


@contextmanager
def join_processes(device: str | None = None) -> Iterator[Processes]:
    """This process as part of what ``torchrun`` started or of the process group it is in already, or alone.

    Args:
        device: as torch names it; by default a CUDA device for each process if there is one, else the CPU.
    """
    size, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    place = _device(device, int(os.environ.get("LOCAL_RANK", "0")))
    if dist.is_available() and dist.is_initialized():  # the caller's own group: it is used, and left to the caller
        yield Processes(dist.get_rank(), dist.get_world_size(), place)
        return
    if size == 1:
        yield Processes(0, 1, place)
        return
    backend = "nccl" if place.type == "cuda" else "gloo"
    dist.init_process_group(backend, timeout=_PATIENCE, store=_own_store(), rank=rank, world_size=size)
    try:
        yield Processes(rank, size, place)
    finally:
        dist.destroy_process_group()


def _own_store() -> dist.Store:
    """The launcher's store, behind a prefix that only this start of the processes knows.

    torchrun keeps its store when it starts workers again, and in it the addresses of the dead ones: without a prefix, a
    process that is faster than another would connect to those (https://github.com/pytorch/pytorch/issues/167288).
    Its count of restarts is no such prefix, since the agents of several machines can disagree about it.
    """
    store, rank, size = next(rendezvous("env://", timeout=_PATIENCE))
    word = secrets.token_hex(8)
    if rank == 0:
        missing = set(range(1, size))
        while missing:
            # An old greeting may be answered too; only its sender, who is gone, would hear it.
            for other in missing:
                if store.check([f"ncmi/greeting/{other}"]):
                    store.set(f"ncmi/answer/{store.get(f'ncmi/greeting/{other}').decode()}", word)
            missing = {other for other in missing if not store.check([f"ncmi/{word}/{other}"])}
            time.sleep(0.01)
    else:
        store.set(f"ncmi/greeting/{rank}", word)
        word = store.get(f"ncmi/answer/{word}").decode()
        store.set(f"ncmi/{word}/{rank}", "here")
    return dist.PrefixStore(f"ncmi/{word}", store)


def was_restarted() -> bool:
    """Whether torchrun has started this process again after a failure."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def _device(name: str | None, local_rank: int) -> torch.device:
    if name is None:
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        if device.type == "cuda" and device.index is None:
            device = torch.device("cuda", local_rank)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(
            f"device: {name!r} cannot be used here ({str(error).splitlines()[0]}). Try --device cpu."
        ) from error
    if device.type == "cuda":
        torch.cuda.set_device(device)
    return device


class StopSignal:
    """Remembers SIGINT and SIGTERM, so that the loop can save before it leaves; a second SIGINT interrupts at once.

    >>> with StopSignal() as stop:
    ...     signal.raise_signal(signal.SIGTERM)
    ...     stop.received == signal.SIGTERM
    True
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict[int, object] = {}

    def __enter__(self) -> "StopSignal":
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                self._before[number] = signal.signal(number, self._remember)
            except ValueError:  # not in the main thread, where signals do not arrive
                break
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # pyright: ignore[reportArgumentType]

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.received = number
