"""``as_bag_model``: any attention model of the user's, as a bag model.

Shapes: G bags, N instances of a bag, ΣN instances of all bags, F width of an instance, D width of a bag's vector, H heads.
"""

from typing import Any

import torch
from torch import Tensor, nn

from ncmi.checks import choose
from ncmi.models.mil.base import BagModel, BagOutput

_OWNER = "as_bag_model"


class WrappedBagModel(BagModel):
    """A user's module ``body`` as a bag model; it sees the bags of a group one by one."""

    def __init__(
        self, body: nn.Module, in_features: int, num_features: int, parts: tuple[str, str] | None, batched: bool
    ):
        super().__init__()
        self.body = body
        self.in_features = in_features
        self.num_features = num_features
        self.parts = parts
        self.batched = batched

    def forward_bags(self, instances: Tensor, sizes: list[int]) -> BagOutput:
        """Features (G, D), attention logits (ΣN, H) and the mean of the body's own auxiliary terms."""
        outputs = [self._one_bag(bag) for bag in instances.split(sizes)]
        features, attention, auxiliary = zip(*outputs, strict=True)
        return BagOutput(torch.stack(features), torch.cat(attention), torch.stack(auxiliary).mean())

    def _one_bag(self, bag: Tensor) -> BagOutput:
        entering = bag.unsqueeze(0) if self.batched else bag
        features, attention, auxiliary = (
            _unpacked(self.body(entering)) if self.parts is None else _listen(self.body, entering, self.parts)
        )
        features = _vector(features, self.num_features)
        attention = _columns(attention, len(bag))
        return BagOutput(features, attention, features.new_zeros(()) if auxiliary is None else auxiliary)


def as_bag_model(
    module: nn.Module,
    in_features: int | None = None,
    num_features: int | None = None,
    *,
    pooling: str | None = None,
    attention: str | None = None,
    batched: bool = False,
) -> BagModel:
    """``module`` as a bag model: checked input, groups of bags, :class:`BagOutput`.

    A bag model is returned as it is. Another must return a pair of bag vector (D,) and attention logits (N, H), or a
    :class:`BagOutput`; or, for a module that returns something else, as the logits of a classifier, ``pooling`` and
    ``attention`` name the submodules whose outputs these are.

    Args:
        module: the network; it is given one bag (N, F) at a time.
        in_features: F; by default the module's attribute of that name.
        num_features: D; by default the module's attribute of that name.
        pooling: name of the submodule that returns the bag vector, as in ``module.named_modules()``.
        attention: name of the submodule that returns the attention logits (before any softmax).
        batched: the module wants a batch of one bag, (1, N, F).

    Shape:
        the vector as (D,) or (1, D); the logits as (N,), (N, H), (1, N) or (1, N, H).

    >>> class MaxLogit(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.score = nn.Linear(6, 1)
    ...     def forward(self, bag):
    ...         logits = self.score(bag)
    ...         return bag[logits.argmax()], logits
    >>> as_bag_model(MaxLogit(), in_features=6, num_features=6)(torch.randn(9, 6)).attention.shape
    torch.Size([9, 1])
    """
    if isinstance(module, BagModel):
        return module
    if (pooling is None) != (attention is None):
        raise ValueError(
            f"{_OWNER}: pooling and attention must be named together; got pooling={pooling!r} and "
            f"attention={attention!r}. Name the submodules that return the bag vector and the attention logits."
        )
    for what, part in (("pooling", pooling), ("attention", attention)):
        if part is not None:
            choose(_OWNER, what, part, [name for name, _ in module.named_modules() if name])
    parts = None if pooling is None or attention is None else (pooling, attention)
    widths = _width(module, "in_features", in_features), _width(module, "num_features", num_features)
    return WrappedBagModel(module, *widths, parts, batched)


def _width(module: nn.Module, name: str, given: int | None) -> int:
    """The width that was given, or the module's attribute of that name; they must not contradict each other."""
    own = getattr(module, name, None)
    own = own if isinstance(own, int) else None
    if given is None and own is None:
        raise ValueError(f"{_OWNER}: the {name} of {type(module).__name__} is not known. Pass {name}=….")
    if None not in (given, own) and given != own:
        raise ValueError(
            f"{_OWNER}: {name}={given} contradicts the module's own {name}={own}. Leave {name} out, or set the attribute "
            "right."
        )
    return given or own or 0


def _unpacked(output: Any) -> tuple[Any, Any, Tensor | None]:
    """Vector, attention and auxiliary term that a module returned."""
    if isinstance(output, BagOutput):
        return output.features, output.attention, output.auxiliary
    if isinstance(output, tuple) and len(output) == 2:
        return (*output, None)
    raise TypeError(
        f"{_OWNER}: the module must return a pair of bag vector and attention logits; got {type(output).__name__}. Name "
        "the submodules that return them: pooling='…', attention='…'."
    )


def _listen(body: nn.Module, entering: Tensor, parts: tuple[str, str]) -> tuple[Any, Any, None]:
    """What the two submodules returned while the module ran."""
    heard: dict[str, Any] = {}
    handles = []
    for part in parts:

        def keep(module: nn.Module, inputs: Any, output: Any, part: str = part) -> None:
            heard[part] = output

        handles.append(body.get_submodule(part).register_forward_hook(keep))
    try:
        body(entering)
    finally:
        for handle in handles:
            handle.remove()
    for part in parts:
        if part not in heard:
            raise ValueError(f"{_OWNER}: the submodule {part!r} took no part in the forward pass. Name one that does.")
    return heard[parts[0]], heard[parts[1]], None


def _vector(features: Any, num_features: int) -> Tensor:
    """The bag vector (D,)."""
    if not isinstance(features, Tensor):
        raise TypeError(
            f"{_OWNER}: the bag vector must be one tensor; got {type(features).__name__}. Name another part."
        )
    shape = tuple(features.shape)
    if shape not in ((num_features,), (1, num_features)):
        is_vector = len(shape) == 1 or (len(shape) == 2 and shape[0] == 1)
        remedy = f"Pass num_features={shape[-1]}." if is_vector else "Pool the instances."
        raise ValueError(
            f"{_OWNER}: the bag vector must have shape ({num_features},) or (1, {num_features}) because "
            f"num_features={num_features}; got {shape}. {remedy}"
        )
    return features.reshape(num_features)


def _columns(attention: Any, count: int) -> Tensor:
    """Attention logits (N, H)."""
    if not isinstance(attention, Tensor):
        raise TypeError(f"{_OWNER}: attention must be one tensor; got {type(attention).__name__}. Name another part.")
    shape = tuple(attention.shape)
    if shape in ((count,), (1, count)):
        return attention.reshape(count, 1)
    if shape[:-1] in ((count,), (1, count)):
        return attention.reshape(count, -1)
    # (H, N) is not turned around: where N equals H nobody could tell.
    raise ValueError(
        f"{_OWNER}: attention logits must have shape ({count},), ({count}, H), (1, {count}) or (1, {count}, H) for a bag of "
        f"{count} instances; got {shape}. Put the instances before the heads."
    )
