"""``Anchored``: attention that follows a slow copy of the model, the idea of ASMIL (2026).

Shapes: G bags, ΣN instances of all bags, D width of a bag's vector, H heads.
"""

import copy
import math

import torch
import torch.nn.functional as F
from torch import Tensor

from ncmi.models.mil.base import BagModel, BagOutput, check_bag_model
from ncmi.models.mil.pooling import bag_sums, log_attention
from ncmi.models.mil.updates import UpdateCounter


def anchor_divergence(
    anchor: Tensor, attention: Tensor, sizes: list[int], temperature: float, released: bool = False
) -> Tensor:
    """Σ t ln(t / α) of each bag, averaged over heads and bags: a scalar ≥ 0, the KL divergence from anchor to model.

    t is the normalised sigmoid of the anchor's logits, σ(l / temperature) divided by its sum over the bag; α the softmax of
    the model's. With ``released``, the mean of −t ln α over heads and instances instead, as in the published code.

    Args:
        anchor: the anchor's logits (ΣN, H).
        attention: the model's logits (ΣN, H).
        sizes: N of each bag.
        temperature: of the anchor's distribution.
        released: the published code's form.

    >>> anchor_divergence(torch.zeros(4, 1), torch.zeros(4, 1), [4], temperature=0.5)
    tensor(0.)
    >>> anchor_divergence(torch.zeros(4, 1), torch.zeros(4, 1), [4], temperature=0.5, released=True)
    tensor(0.3466)
    """
    # The normalised sigmoid is the softmax of ln σ, which stays finite where σ rounds to zero.
    log_target = log_attention(F.logsigmoid(anchor / temperature), sizes)
    log_weights = log_attention(attention, sizes)
    if not released:
        return bag_sums((log_target.exp() * (log_target - log_weights)).mean(dim=1), sizes).mean()
    sums = bag_sums((log_target.exp() * -log_weights).mean(dim=1), sizes)
    return (sums / torch.tensor(sizes, dtype=sums.dtype, device=sums.device)).mean()


class Anchored(BagModel):
    """Any bag model, with the distance of its attention from that of a slow anchor as its auxiliary loss term.

    The anchor is a copy of the model that moves towards it by 1 − ``decay`` after each optimiser step (seen at the first
    forward pass in training mode that follows it; ``updates.UpdateCounter``). It has no gradient,
    stays in ``eval()`` mode and is part of the ``state_dict``.

    Args:
        model: a bag model.
        decay: weight of the anchor's past; 0.999 in the paper.
        temperature: divides the anchor's logits before the normalised sigmoid; 0.5 in the published commands.
        weight: β of the term. The paper's value is not known to us; 1 is our choice.
        released: as the published code does it: the anchor never moves, so ``anchor`` must be given, a second model of the
            same kind with random weights of its own; and the term is also divided by the number of instances.
        anchor: a model to start the anchor from, instead of a copy of ``model``.

    Shape:
        as the model's; ``auxiliary`` adds the term to the model's own.

    >>> from ncmi.models.mil.abmil import ABMIL
    >>> model = Anchored(ABMIL(8, 4))
    >>> model(torch.randn(5, 8)).auxiliary.shape
    torch.Size([])
    """

    def __init__(
        self,
        model: BagModel,
        *,
        decay: float = 0.999,
        temperature: float = 0.5,
        weight: float = 1.0,
        released: bool = False,
        anchor: BagModel | None = None,
    ):
        super().__init__()
        owner = type(self).__name__
        check_bag_model(owner, model)
        if not 0 <= decay <= 1:
            raise ValueError(f"{owner}: decay must lie in [0, 1]; got {decay}. The default is 0.999.")
        if not 0 < temperature < math.inf:
            raise ValueError(
                f"{owner}: temperature must be positive and finite; got {temperature}. The default is 0.5."
            )
        if not 0 <= weight < math.inf:
            raise ValueError(f"{owner}: weight must be a finite number of at least 0; got {weight}. The default is 1.")
        if released and anchor is None:
            raise ValueError(
                f"{owner}: released=True needs anchor=…, a second model of the same kind with random weights of its own, "
                "because the published code's anchor is no copy. Build the model twice."
            )
        anchor = copy.deepcopy(model) if anchor is None else anchor
        if _shapes(anchor) != _shapes(model):
            raise ValueError(
                f"{owner}: anchor must have the parameters of model, name by name and shape by shape, because it follows "
                "them. Build both with the same arguments."
            )
        self.model = model
        self.anchor = anchor.requires_grad_(False).eval()
        self.in_features = model.in_features
        self.num_features = model.num_features
        self.decay = decay
        self.temperature = temperature
        self.weight = weight
        self.released = released
        self.counter = UpdateCounter(model)

    def forward_bags(self, instances: Tensor, sizes: list[int]) -> BagOutput:
        """The model's output with the weighted anchor term added to ``auxiliary``."""
        with torch.no_grad():
            if self.training and not self.released:
                self._follow(self.counter(self.model))
            target = self.anchor.attention_logits(instances, sizes)
        output = self.model.forward_bags(instances, sizes)
        term = anchor_divergence(target, output.attention, sizes, self.temperature, self.released)
        return output._replace(auxiliary=output.auxiliary + self.weight * term)

    def attention_logits(self, instances: Tensor, sizes: list[int]) -> Tensor:
        """The model's logits (ΣN, H)."""
        return self.model.attention_logits(instances, sizes)

    def train(self, mode: bool = True) -> "Anchored":
        """Training mode for the model; the anchor stays in ``eval()`` mode, without dropout."""
        super().train(mode)
        self.anchor.eval()
        return self

    def _follow(self, changed: Tensor) -> None:
        """Move the anchor by one step if the model's weights changed; a tensor decides, so that no device is waited for."""
        for slow, fast in zip(self.anchor.parameters(), self.model.parameters(), strict=True):
            slow.lerp_(fast, changed.to(slow.dtype) * (1 - self.decay))
        for slow, fast in zip(self.anchor.buffers(), self.model.buffers(), strict=True):
            slow.copy_(fast)

    def extra_repr(self) -> str:
        """Settings for ``print(model)``."""
        settings = f"decay={self.decay}, temperature={self.temperature}, weight={self.weight}"
        return f"{settings}, released={self.released}"


def _shapes(model: BagModel) -> list[tuple[str, torch.Size]]:
    return [(name, parameter.shape) for name, parameter in model.named_parameters()]
