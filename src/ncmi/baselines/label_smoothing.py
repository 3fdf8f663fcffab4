"""Cross-entropy with smoothed labels.

Shapes: B samples, C classes.
"""

from typing import Any

import torch.nn.functional as F
from torch import Tensor

from ncmi.baselines.base import LogitsLoss
from ncmi.baselines.inputs import check_number
from ncmi.baselines.sums import own_class
from ncmi.weighting import WeightedTargets


class LabelSmoothing(LogitsLoss):
    r"""Cross-entropy with targets :math:`(1-\varepsilon)\,\mathrm{onehot}(y) + \varepsilon/C` (Szegedy et al., 2016).

    Equal to ``nn.CrossEntropyLoss(label_smoothing=ε)``, class weights included: each class's logarithm has the weight of that
    class, and both parts are divided by the sum of the samples' weights.

    Args:
        num_classes: C.
        smoothing: ε; 0.1 is the original ImageNet value (recalled, not checked again). To put ε on the wrong classes alone,
            ε/(C−1) each, pass ε·C/(C−1).
        settings: ``weight``, ``ignore_index`` and ``reduction``; see :class:`ncmi.baselines.base.Baseline`.

    >>> import torch
    >>> LabelSmoothing(num_classes=4, smoothing=0.2)(torch.tensor([[2.0, 0.0, 0.0, 0.0]]), torch.tensor([0]))
    tensor(0.6408)
    """

    def __init__(self, num_classes: int, *, smoothing: float = 0.1, **settings: Any):
        super().__init__(num_classes, **settings)
        self.smoothing = check_number("LabelSmoothing", "smoothing", smoothing, at_least=0, below=1)

    def losses(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The loss (B,) of each sample, before weights."""
        negative = -F.log_softmax(logits, dim=1)
        return (1 - self.smoothing) * own_class(negative, targets) + self.smoothing * negative.mean(dim=1)

    def _compute(self, labels: WeightedTargets, *inputs: Tensor) -> Tensor:
        weight = self.weighting.weight
        if weight is None:
            return super()._compute(labels, *inputs)
        negative = -F.log_softmax(inputs[0], dim=1)
        own = own_class(negative, labels.targets)  # soft labels hold the weights already
        own = own if labels.weight is None else own * labels.weight
        spread = (negative * weight.to(negative.dtype)).mean(dim=1)
        spread = spread if labels.valid is None else spread * labels.valid
        losses = (1 - self.smoothing) * own + self.smoothing * spread
        return self._reduce(losses, labels._replace(weight=None))
