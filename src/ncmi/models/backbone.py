"""``Backbone``: what training asks of a network, named as in timm.

Shapes: B samples, D feature width, C classes.
"""

from typing import ClassVar

from torch import Tensor, nn


class Backbone(nn.Module):
    """Features (B, D) and, with ``num_classes`` > 0, logits (B, C) of a batch.

    A network says ``num_features`` and ``num_classes``, writes ``forward_features`` and ``pool``, and registers its head
    last, under the name that published weights give it.

    Attributes:
        num_features: D, the width of the pooled features.
        num_classes: C; 0 for a network without a head, whose ``forward`` returns features.
        head_name: name of the head in the ``state_dict``.
    """

    head_name: ClassVar[str] = "fc"
    num_features: int
    num_classes: int

    def forward(self, images: Tensor) -> Tensor:
        """Logits (B, C), or features (B, D) where ``num_classes`` is 0."""
        return self.forward_head(self.forward_features(images))

    def forward_features(self, images: Tensor) -> Tensor:
        """What comes before pooling: a map (B, D, H, W), or (B, D) of a network without places."""
        raise NotImplementedError

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        """Logits (B, C) of what :meth:`forward_features` gave; with ``pre_logits`` the features (B, D)."""
        features = self.pool(x)
        return features if pre_logits else self.get_classifier()(features)

    def pool(self, x: Tensor) -> Tensor:
        """Features (B, D): the mean over all places."""
        return x.mean(dim=(2, 3))

    def get_classifier(self) -> nn.Module:
        """The head: one linear layer, or ``nn.Identity`` where ``num_classes`` is 0."""
        return getattr(self, self.head_name)


def make_head(owner: str, num_features: int, num_classes: int) -> nn.Module:
    """A linear layer from D to C; nothing for ``num_classes=0``."""
    if num_classes == 0:
        return nn.Identity()
    if num_classes < 2:
        raise ValueError(
            f"{owner}: num_classes must be 0 (the network returns features) or at least 2 (it returns logits); "
            f"got {num_classes}."
        )
    return nn.Linear(num_features, num_classes)
