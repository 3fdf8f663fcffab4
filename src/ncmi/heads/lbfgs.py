"""``minimize``: a smooth function to its minimum by L-BFGS, with the settings that reach it."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

_MAX_ITERATIONS = 2000
# torch's L-BFGS learns no curvature from a step whose length times change of gradient is below 1e-10, and crawls from there
# on. Near the minimum all steps are; minimising a large multiple of the objective keeps them above.
_MULTIPLE = 1e8

Objective = Callable[[Sequence[Tensor]], tuple[Tensor, Sequence[Tensor]]]


def minimize(
    objective: Objective, start: Sequence[Tensor], units: Sequence[Tensor], tolerance: float
) -> tuple[list[Tensor], float]:
    """The point where ``objective`` is smallest, and the largest entry of the gradient there, both by tensors.

    Args:
        objective: a value and its gradients at a point.
        start: where to begin.
        units: in which each number, and with it the gradient, is measured: one over the square root of its curvature makes
            the problem nearly round, tens of steps instead of thousands.
        tolerance: it ends when no entry of the gradient, in those units, exceeds this.
    """
    scaled = [tensor.div(unit).requires_grad_() for tensor, unit in zip(start, units, strict=True)]
    optimizer = torch.optim.LBFGS(
        scaled,
        max_iter=_MAX_ITERATIONS,
        max_eval=2 * _MAX_ITERATIONS,
        history_size=20,
        tolerance_grad=tolerance * _MULTIPLE,
        tolerance_change=0.0,
        line_search_fn="strong_wolfe",
    )

    def point() -> list[Tensor]:
        return [tensor.detach() * unit for tensor, unit in zip(scaled, units, strict=True)]

    @torch.no_grad()
    def closure() -> Tensor:
        value, gradients = objective(point())
        for tensor, gradient, unit in zip(scaled, gradients, units, strict=True):
            tensor.grad = gradient * unit * _MULTIPLE
        return value * _MULTIPLE

    optimizer.step(closure)  # pyright: ignore[reportArgumentType]
    closure()
    largest = max(float(tensor.grad.abs().max()) for tensor in scaled if tensor.grad is not None)
    return point(), largest / _MULTIPLE
