"""Buffers of a module: how they are written to, and what they must not be converted to."""

from collections.abc import Callable

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


def keep_precision(convert: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """``convert`` for ``nn.Module._apply``, except that no tensor falls below float32: it only moves to the new device.

    Divergences are about 1e-3, and a moving average in half precision stops moving.
    """

    def keep(tensor: Tensor) -> Tensor:
        converted = convert(tensor)
        if converted.is_floating_point() and torch.finfo(converted.dtype).bits < 32 <= torch.finfo(tensor.dtype).bits:
            return tensor.to(converted.device)
        return converted

    return keep
