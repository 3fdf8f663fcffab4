"""``UpdateCounter``: how many optimiser steps a module went through, seen from the module itself.

Shapes: P parameter tensors.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ncmi.buffers import keep_precision, set_buffers


class UpdateCounter(nn.Module):
    """Counts the calls, in training mode, at which the weights of a module are not those of the call before.

    What goes by optimiser steps (a moving average, an annealed weight) must not go by forward passes: a group of bags taken
    one by one, accumulated gradients and a gradient cache make many for one step. The weights tell: the sum of each tensor
    is kept, and a step moves the sums. All of it is in the ``state_dict``, so a resumed run counts on.

    Args:
        module: what :meth:`forward` will be given.

    >>> layer = nn.Linear(2, 2)
    >>> counter = UpdateCounter(layer)
    >>> counter(layer), counter(layer)
    (tensor(False), tensor(False))
    >>> nn.init.ones_(layer.weight)[0].detach()
    tensor([1., 1.])
    >>> counter(layer), int(counter.steps)
    (tensor(True), 1)
    """

    steps: Tensor
    sums: Tensor
    seen: Tensor

    def __init__(self, module: nn.Module):
        super().__init__()
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.register_buffer("sums", torch.zeros(len(list(module.parameters()))))
        # Weights that are loaded before the first call are no step.
        self.register_buffer("seen", torch.zeros((), dtype=torch.bool))

    @torch.no_grad()
    def forward(self, module: nn.Module) -> Tensor:
        """Whether the weights changed since the last call, a boolean scalar; false and without effect in ``eval()``."""
        if not self.training or not len(self.sums):
            return torch.zeros((), dtype=torch.bool, device=self.steps.device)
        now = torch.stack([parameter.sum(dtype=self.sums.dtype) for parameter in module.parameters()])
        changed = (now != self.sums).any() & self.seen
        set_buffers(self, steps=self.steps + changed, sums=now, seen=torch.ones_like(self.seen))
        return changed

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        return super()._apply(keep_precision(fn), recurse)
