"""Focal loss for many classes.

Shapes: B samples, C classes.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ncmi.baselines.base import LogitsLoss
from ncmi.baselines.inputs import check_number
from ncmi.baselines.sums import own_class
from ncmi.weighting import class_vector


class Focal(LogitsLoss):
    r"""Focal loss :math:`-\alpha_y (1-p_y)^\gamma \ln p_y` (Lin et al., 2017), with softmax probabilities p.

    The gradient flows through :math:`(1-p_y)^\gamma` too. ln p_y and ln(1 − p_y) both come from the odds against y, so nothing
    cancels where p_y is near one, and every γ ≥ 0, also one below 1, has finite gradients however certain the network is.

    Args:
        num_classes: C.
        gamma: γ; 2 is the original (detection) value, recalled and not checked again. Classification papers use 1 to 3.
        alpha: α (C,), one number a class; ``None`` (default) for ones. The 0.25 of detection splits two classes and has no
            meaning here. A mean divides by the number of samples, as the formula does, not by the sum of α.
        settings: ``ignore_index`` and ``reduction``; see :class:`ncmi.baselines.base.Baseline`.

    >>> Focal(num_classes=2, gamma=0.5)(torch.tensor([[0.0, 0.0]]), torch.tensor([0]))
    tensor(0.4901)
    """

    alpha: Tensor | None

    def __init__(self, num_classes: int, *, gamma: float = 2.0, alpha: Tensor | None = None, **settings: Any):
        if settings.get("weight") is not None:
            raise ValueError("Focal: class weights are what alpha is; got weight. Pass alpha=weight.")
        super().__init__(num_classes, **settings)
        self.gamma = check_number("Focal", "gamma", gamma, at_least=0)
        self.register_buffer("alpha", class_vector("Focal", "alpha", alpha, num_classes))

    def losses(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The loss (B,) of each sample."""
        against = log_odds_against(logits)
        focal = -(self.gamma * F.logsigmoid(against)).exp() * F.logsigmoid(-against)
        if self.alpha is not None:
            focal = focal * self.alpha.to(focal.dtype)
        return own_class(focal, targets)


def log_odds_against(logits: Tensor) -> Tensor:
    """ln((1 − p)/p) (B, C): how much likelier all other classes together are than the class.

    For a row's largest logit that is the logsumexp of the others minus the logit itself. All other p are at most a half,
    where 1 − p is exact enough.

    >>> log_odds_against(torch.tensor([[50.0, 0.0]]))
    tensor([[-50.,  50.]])
    """
    top = logits.argmax(dim=1, keepdim=True)
    against_top = logits.scatter(1, top, -torch.inf).logsumexp(dim=1, keepdim=True) - logits.gather(1, top)
    # A row's largest entry is set to zero before the logarithm, so that no infinity meets the gradient.
    log_probs = F.log_softmax(logits, dim=1)
    small = log_probs.exp().scatter(1, top, 0.0)
    return (torch.log1p(-small) - log_probs).scatter(1, top, against_top)
