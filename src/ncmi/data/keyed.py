"""Random numbers that are a function of (seed, epoch, sample index, draw number) and of nothing else.

There is no generator to advance, so what a sample gets does not depend on the batch it is in, on its rank, on the number
of workers, on the device or on the version of torch. The function is the finaliser of splitmix64 (Steele, Lea and Flood
2014), in 64-bit integers that wrap around; :func:`sample_uniforms` is the same function in Python integers.

Shapes: B samples, K draws a sample.
"""

import torch
from torch import Tensor

# What numbers are for; each use has a stream of its own, so that equal seeds do not tie them together.
AUGMENTATION, ORDER, SPLIT, FLIP = 0, 1, 2, 3

_GAMMA = 0x9E3779B97F4A7C15
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_MASK = (1 << 64) - 1
_BITS = 24  # as many as a float32 holds exactly


def sample_hash(indices: Tensor, *, seed: int, epoch: int = 0, purpose: int = AUGMENTATION) -> Tensor:
    """A 64-bit hash (B,) of each sample index (B,), as int64.

    >>> sample_hash(torch.tensor([0, 1]), seed=0).tolist()
    [2558736989570252433, -533072482827883436]
    """
    return _mix_tensor(_times_gamma(indices.long() + 1) + _signed(_key(seed, epoch, purpose)))


def random_bits(indices: Tensor, draws: int, *, seed: int, epoch: int = 0, purpose: int = AUGMENTATION) -> Tensor:
    """Random integers (B, K) in [0, 2²⁴): ``draws`` = K of them for each sample index (B,)."""
    steps = _times_gamma(torch.arange(1, draws + 1, device=indices.device))
    hashes = sample_hash(indices, seed=seed, epoch=epoch, purpose=purpose)
    return _shift(_mix_tensor(hashes.unsqueeze(1) + steps), 64 - _BITS)


def uniform(bits: Tensor) -> Tensor:
    """Numbers in [0, 1) as float32, exactly ``bits`` / 2²⁴."""
    return bits.to(torch.float32) * 2.0**-_BITS


def integers(bits: Tensor, bound: int) -> Tensor:
    """Integers in [0, bound), each equally likely up to ``bound`` / 2²⁴."""
    return (bits * bound) >> _BITS


def sample_uniforms(
    index: int, draws: int, *, seed: int, epoch: int = 0, purpose: int = AUGMENTATION
) -> tuple[float, ...]:
    """The K numbers in [0, 1) that one sample gets: a row of ``uniform(random_bits(...))``, without tensors.

    >>> bits = random_bits(torch.tensor([7]), 3, seed=1, epoch=2)
    >>> sample_uniforms(7, 3, seed=1, epoch=2) == tuple(uniform(bits)[0].tolist())
    True
    """
    start = _mix(_key(seed, epoch, purpose) + _GAMMA * (index + 1))
    return tuple((_mix(start + _GAMMA * step) >> (64 - _BITS)) * 2.0**-_BITS for step in range(1, draws + 1))


def permutation(length: int, *, seed: int, epoch: int = 0, purpose: int = ORDER) -> Tensor:
    """The order (length,) of an epoch: sample indices sorted by their hash.

    >>> permutation(6, seed=0, epoch=3).tolist()
    [3, 2, 5, 1, 0, 4]
    """
    return sample_hash(torch.arange(length), seed=seed, epoch=epoch, purpose=purpose).argsort(stable=True)


def combined_seed(*numbers: int) -> int:
    """A 63-bit seed for a generator of torch, a function of all the numbers and of their order.

    >>> combined_seed(0, 1) == combined_seed(0, 1), combined_seed(0, 1) == combined_seed(1, 0)
    (True, False)
    """
    value = 0
    for number in numbers:
        value = _mix(value + _GAMMA * (number + 1))
    return value >> 1


def _key(seed: int, epoch: int, purpose: int) -> int:
    return _mix(_mix(_mix(seed) + _GAMMA * (epoch + 1)) + _GAMMA * (purpose + 1))


def _mix(value: int) -> int:
    value &= _MASK
    value = ((value ^ (value >> 30)) * _FIRST) & _MASK
    value = ((value ^ (value >> 27)) * _SECOND) & _MASK
    return value ^ (value >> 31)


def _mix_tensor(value: Tensor) -> Tensor:
    value = (value ^ _shift(value, 30)) * _signed(_FIRST)
    value = (value ^ _shift(value, 27)) * _signed(_SECOND)
    return value ^ _shift(value, 31)


def _shift(value: Tensor, places: int) -> Tensor:
    """``value`` shifted right with zeros coming in, as for unsigned integers."""
    return (value >> places) & ((1 << (64 - places)) - 1)


def _times_gamma(value: Tensor) -> Tensor:
    return value * _signed(_GAMMA)


def _signed(value: int) -> int:
    """The int64 with the same 64 bits."""
    return value - (1 << 64) if value >> 63 else value
