"""Look at this machine: versions, devices, which data are there and whole, and how long the small recipes take."""

import subprocess
import sys
from typing import Any

_OPTIONAL = {
    "sklearn": "the digits, t-SNE",
    "matplotlib": "curves",
    "jinja2": "pages about runs",
    "PIL": "folders of images",
    "h5py": "bags of slide features",
    "safetensors": "weights as safetensors",
    "tensorboard": "trackers: [tensorboard]",
    "wandb": "trackers: [wandb]",
    "timm": "timm:<name> networks",
}


def add_arguments(parser: Any) -> None:
    """Arguments of the command."""
    parser.add_argument("--data-dir", type=str, help="look for data there, and nowhere else")
    parser.add_argument("--device", type=str, help="such as cpu or cuda:1 (by default a GPU if there is one)")
    parser.add_argument("--no-timing", action="store_true", help="leave out the timing, which takes some seconds")


def run(arguments: Any) -> int:
    """Print what was found; 1 if a data file is damaged."""
    from ncmi.training.processes import join_processes

    with join_processes(arguments.device) as processes:
        _print_environment(processes.device)
        damaged = _print_data(arguments.data_dir)
        if not arguments.no_timing:
            _print_times(arguments.data_dir, processes)
    return 1 if damaged else 0


def _print_environment(device: Any) -> None:
    from importlib.util import find_spec

    from ncmi.training.environment import describe_environment

    print("environment")
    for name, value in describe_environment(device).items():
        print(f"  {name}: {value}")
    missing = [f"{name} ({use})" for name, use in _OPTIONAL.items() if find_spec(name) is None]
    print(f"  not installed: {', '.join(missing) or 'nothing'}")
    if device.type == "cpu" and not _bf16_works():
        print(
            "  bf16: matrix products crash here; set ONEDNN_MAX_CPU_ISA=AVX512_CORE, or take engine.precision=float32"
        )


def _bf16_works() -> bool:
    """Whether a matrix product in bfloat16 survives: some processors announce instructions that they then refuse."""
    program = "import torch; x = torch.ones(64, 64, dtype=torch.bfloat16); x @ x"
    return subprocess.run([sys.executable, "-c", program], capture_output=True).returncode == 0


def _print_data(data_dir: str | None) -> bool:
    from ncmi.data import DATA_SETS, check_data, find_data
    from ncmi.data.bags import BAG_SETS, find_bags

    print("data")
    damaged = False
    for name in DATA_SETS:
        print(f"  {find_data(name, data_dir)}")
        for check in check_data(name, data_dir):
            damaged = damaged or bool(check.problem)
            print(f"    {check.path.name}: {check.problem or 'size and checksum are right'}")
            sys.stdout.flush()
    print("bags")
    for name in BAG_SETS:
        print(f"  {find_bags(name, data_dir)}")
    return damaged


def _print_times(data_dir: str | None, processes: Any) -> None:
    from ncmi.recipes import list_recipes, read_recipe
    from ncmi.training.config import make_config
    from ncmi.training.timing import expected_minutes

    print("expected time of training, from a few steps of each recipe on this device")
    for name in list_recipes():
        config = make_config(read_recipe(name), owner=name)
        if config.scale == "full":
            continue
        config.data.folder = data_dir
        if not _is_there(config.data.name, data_dir):
            print(f"  {name}: its data are not there")
            continue
        minutes = expected_minutes(config, processes)
        duration = f"{minutes:.1f} minutes" if minutes >= 1 else f"{60 * minutes:.0f} seconds"
        print(f"  {name}: {duration}", flush=True)


def _is_there(name: str, data_dir: str | None) -> bool:
    from ncmi.data import find_data
    from ncmi.data.bags import find_bags

    if name.startswith("bags:"):
        return find_bags(name.removeprefix("bags:"), data_dir).layout is not None
    return find_data(name, data_dir).complete
