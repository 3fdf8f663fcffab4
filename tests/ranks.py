"""Processes for tests of several ranks."""

import os
import sys

import torch.multiprocessing as mp


def spawn(worker, *args, ranks=2):
    """Run ``worker(rank, *args)`` in as many processes; an error in one of them is raised here."""
    mp.spawn(_run, args=(worker, args), nprocs=ranks)


def _run(rank, worker, args):
    worker(rank, *args)
    sys.stdout.flush()
    sys.stderr.flush()
    # What a process wrote counts. The end of Python itself now and then aborts one whose gloo threads still hold tensors
    # (https://github.com/pytorch/pytorch/pull/179291).
    os._exit(0)
