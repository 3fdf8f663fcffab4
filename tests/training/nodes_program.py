"""What each worker of a launch runs: several configs one after the other in one process group, which it holds open."""

import json
import sys
import warnings
from pathlib import Path

import torch
import torch.distributed as dist

from ncmi.training.config import make_config
from ncmi.training.loop import train
from ncmi.training.run_folder import RunFolder

if __name__ == "__main__":
    warnings.simplefilter("error")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for folder, values in json.loads(Path(sys.argv[1]).read_text()).items():
        train(make_config(values), RunFolder(folder), quiet=True)
    assert dist.is_initialized(), "train must leave the caller's process group alone"
    dist.destroy_process_group()
