"""Batches of ``cifar-*-python`` without trust: an unpickler that can make byte arrays and plain containers, no more.

A pickle is a program that may call anything it can name. This one can name three things, those that numpy writes for an
array, and gets stand-ins for them, so that no foreign code runs, numpy's own included.
"""

import io
import math
import pickle
from typing import Any

import torch
from torch import Tensor


class ByteArray:
    """What a pickled numpy array of bytes turns into: its shape and its raw content."""

    shape: tuple[int, ...] = ()
    content: bytes = b""

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, column_major, content = state
        if not isinstance(dtype, _DType) or dtype.name != b"u1" or column_major or not isinstance(content, bytes):
            raise pickle.UnpicklingError("an array of anything but bytes in row order")
        if math.prod(shape) != len(content):
            raise pickle.UnpicklingError(f"an array of shape {shape} with {len(content)} bytes")
        self.shape, self.content = tuple(shape), content

    def tensor(self) -> Tensor:
        """A uint8 tensor of the array's shape."""
        return torch.frombuffer(bytearray(self.content), dtype=torch.uint8).view(self.shape)


class _DType:
    def __init__(self, name: bytes, *_: Any) -> None:
        self.name = name

    def __setstate__(self, state: Any) -> None:
        """Byte order and the like mean nothing for bytes."""


def _reconstruct(*_: Any) -> ByteArray:
    return ByteArray()


_ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): ByteArray,
    ("numpy", "dtype"): _DType,
}


class _Restricted(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no image batch needs") from None


def load_batch(content: bytes, owner: str) -> dict[bytes, Any]:
    """The dictionary of a batch file, with bytes for strings and :class:`ByteArray` for arrays; ``owner`` names the file."""
    try:
        batch = _Restricted(io.BytesIO(content), encoding="bytes").load()
    # A damaged pickle can fail in any of these ways; none of them is worth telling apart.
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise ValueError(
            f"{owner} was refused: {error}. It is damaged or not the official file; fetch it again."
        ) from error
    if not isinstance(batch, dict):
        raise ValueError(f"{owner} was refused: it holds {type(batch).__name__} and not a dictionary.")
    return batch
