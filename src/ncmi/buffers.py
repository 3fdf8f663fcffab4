"""Writing to the buffers of a module in eager and in compiled steps."""

import torch
from torch import Tensor, nn


def set_buffers(module: nn.Module, **values: Tensor) -> None:
    """Give buffers new values: in place in eager mode, so that whoever holds a buffer sees it move.

    In a compiled step they are replaced instead. There a buffer that the forward reads and then writes in place is read
    again by the backward, after the write, and the gradient is silently wrong (seen with torch 2.13).
    """
    for name, value in values.items():
        if torch.compiler.is_compiling():
            setattr(module, name, value)
        else:
            getattr(module, name).copy_(value)
