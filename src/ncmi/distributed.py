"""Sums over ranks with a gradient, so that a distributed step equals the one-process step on the whole batch.

Outside an initialised process group, or with one rank, every function here returns what it was given.

The contract with DistributedDataParallel: it averages gradients over W ranks. A loss formed from sums over all ranks is
the same number on each of them; the backward of such a sum is again a sum over ranks, W times the gradient of the local
share, and the average takes the W away. So the parameters get the gradient of the whole batch's loss, exactly, whatever
the shards' sizes.
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


def world_size() -> int:
    """Number of ranks that train together; 1 outside a process group."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def sum_over_ranks(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Each tensor summed over all ranks, with one message and a gradient (which is summed over ranks too)."""
    if world_size() == 1:
        return tensors
    flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
    summed: Tensor = _SumOverRanks.apply(flat)  # pyright: ignore[reportAssignmentType]
    parts = summed.split([tensor.numel() for tensor in tensors])
    return tuple(part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True))


@torch.no_grad()
def max_over_ranks(tensor: Tensor) -> Tensor:
    """The elementwise maximum over all ranks, without a gradient."""
    if world_size() == 1:
        return tensor
    largest = tensor.clone()
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    return largest


def equal_gradient(tensor: Tensor) -> Tensor:
    """``tensor`` itself; its gradient is averaged over ranks, so that copies outside DDP stay equal.

    Inside DDP the average of equal gradients changes nothing.
    """
    if world_size() == 1 or not tensor.requires_grad:
        return tensor
    return _EqualGradient.apply(tensor)  # pyright: ignore[reportReturnType]


def gather_labels(targets: Tensor) -> tuple[Tensor, slice]:
    """The labels (B,), or soft labels (B, C), of all ranks in rank order, and where this rank's own stand among them."""
    ranks = world_size()
    if ranks == 1:
        return targets, slice(0, len(targets))
    sizes = [torch.zeros(1, dtype=torch.long, device=targets.device) for _ in range(ranks)]
    dist.all_gather(sizes, torch.tensor([len(targets)], device=targets.device))
    lengths = torch.cat(sizes).tolist()
    padded = targets.new_zeros(max(lengths), *targets.shape[1:])
    padded[: len(targets)] = targets
    gathered = [torch.empty_like(padded) for _ in range(ranks)]
    dist.all_gather(gathered, padded)
    start = sum(lengths[: dist.get_rank()])
    everyone = torch.cat([part[:length] for part, length in zip(gathered, lengths, strict=True)])
    return everyone, slice(start, start + len(targets))


def gather_rows(rows: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, slice]:
    """The rows (N, K) and labels of all ranks, and where this rank's own stand; with a gradient for every rank's rows.

    Each rank adds its rows to zeros at a place of its own, so the sum over ranks is the gathering, and the sum's gradient
    is the gathering's.
    """
    if world_size() == 1:
        return rows, targets, slice(0, len(targets))
    everyone, own = gather_labels(targets)
    placed = F.pad(rows, (0, 0, own.start, len(everyone) - own.stop))
    return sum_over_ranks(placed)[0], everyone, own


@torch.no_grad()
def broadcast_state(module: nn.Module) -> None:
    """Give every rank the parameters and buffers of rank 0."""
    if world_size() > 1:
        for tensor in (*module.parameters(), *module.buffers()):
            dist.broadcast(tensor, src=0)


class _SumOverRanks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor: Tensor) -> Tensor:
        total = tensor.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx, *grad_outputs: Tensor):
        total = grad_outputs[0].clone()
        dist.all_reduce(total)
        return total


class _EqualGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor: Tensor) -> Tensor:
        return tensor.view_as(tensor)

    @staticmethod
    @once_differentiable
    def backward(ctx, *grad_outputs: Tensor):
        mean = grad_outputs[0].clone()
        dist.all_reduce(mean)
        return mean.div_(world_size())
