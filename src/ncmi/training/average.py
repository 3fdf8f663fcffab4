"""``WeightAverage``: an exponential moving average of everything a task holds."""

import copy
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

Module = TypeVar("Module", bound=nn.Module)


class WeightAverage(Generic[Module]):
    """A copy of a module that follows it slowly; evaluated and saved in its place.

    Parameters and running statistics are averaged, counters are copied. The decay rises as (1 + t) / (10 + t) to its value,
    so that the random start is forgotten.

    Args:
        module: what to follow.
        decay: weight of the past, such as 0.999.
    """

    def __init__(self, module: Module, decay: float):
        self.module: Module = copy.deepcopy(module).requires_grad_(False)
        self.decay = decay
        self.updates = 0

    @torch.no_grad()
    def update(self, module: nn.Module) -> None:
        """Follow ``module`` by one step."""
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        self.updates += 1
        for mean, value in zip(_state(self.module), _state(module), strict=True):
            if mean.is_floating_point():
                mean.lerp_(value, 1 - decay)
            else:
                mean.copy_(value)

    def state_dict(self) -> dict[str, object]:
        """What a checkpoint keeps."""
        return {"module": self.module.state_dict(), "updates": self.updates}

    def load_state_dict(self, state: dict) -> None:
        """Go on from a checkpoint."""
        self.module.load_state_dict(state["module"])
        self.updates = state["updates"]


def _state(module: nn.Module) -> list[Tensor]:
    return [*module.parameters(), *module.buffers()]
