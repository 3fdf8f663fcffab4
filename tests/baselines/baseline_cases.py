"""Every baseline with every setting that changes its formula: the list that each test of the harness runs over.

Shapes: B samples, C classes, D feature width, V views.
"""

from dataclasses import dataclass, field
from typing import Any

import baseline_oracle as oracle
import torch
from batches import hard_labels, normal, soft_labels

from ncmi.baselines import BASELINES, make_baseline

B, C, D, V = 8, 4, 6, 2
WEIGHT = torch.tensor([0.5, 2.0, 1.0, 1.5])
RULES = {name: getattr(oracle, name) for name in ("ce", "focal", "poly1", "squentropy", "square", "anticlass")}


@dataclass(frozen=True)
class Case:
    """A baseline with settings, and the batch to try it on."""

    name: str
    settings: dict[str, Any] = field(default_factory=dict)
    soft: bool = False
    ignored: bool = False
    is_derivative: bool = True  # False where the gradient leaves out a term on purpose

    @property
    def takes(self):
        return BASELINES[self.name].takes

    def build(self, num_classes=C, num_features=D, dtype=torch.float64, seed=0):
        """The loss with moved state, so that nothing in it is zero or uniform."""
        torch.manual_seed(seed)
        loss = make_baseline(self.name, num_classes, num_features, **self.settings).to(dtype)
        if "centers" in loss._buffers:
            loss.centers.copy_(normal(num_classes, num_features, seed=seed + 100))
        if "centroids" in loss._buffers:
            loss.centroids.copy_(torch.softmax(normal(num_classes, num_classes, seed=seed + 100), dim=1))
            loss.updates.copy_(normal(num_classes, seed=seed + 101).exp())
        return loss

    def inputs(self, batch=B, seed=0, num_classes=C, num_features=D, scale=1.0):
        """What the loss takes before the targets, in float64."""
        logits = scale * normal(batch, num_classes, seed=seed)
        features = scale * normal(batch, num_features, seed=seed + 1)
        views = scale * normal(batch, V, num_features, seed=seed + 2)
        return {"logits": (logits,), "logits and features": (logits, features), "views": (views,)}[self.takes]

    def targets(self, batch=B, seed=0, num_classes=C):
        if self.soft:
            return soft_labels(batch, num_classes, seed)
        targets = hard_labels(batch, num_classes, seed)
        if self.ignored:
            targets[[2, 5]] = -100
        return targets

    def expected(self, loss, inputs, targets):
        """The loss by loops, as a function of the inputs and the loss's own centres."""
        settings = dict(self.settings)
        if self.name == "label-smoothing":
            return oracle.label_smoothing(*inputs, targets, **settings)
        if self.name == "center":
            settings.pop("center_lr", None)
            return oracle.center(*inputs, targets, loss.centers.clone(), **settings)
        if self.name == "contrastive-center":
            return oracle.contrastive_center(*inputs, targets, loss.centers, **settings)
        if self.name == "opl":
            return oracle.opl(*inputs, targets, **settings)
        if self.name == "supcon":
            return oracle.supcon(*inputs, targets, **settings)
        if self.name == "cmic":
            return oracle.cmic(*inputs, targets, loss.centroids.clone(), **settings)[0]
        common = {key: settings.pop(key) for key in ("weight", "ignore_index", "reduction") if key in settings}
        rule = RULES[self.name]
        return oracle.over_samples(
            lambda row, y: rule(row, y, **settings), *inputs, targets, loss.num_classes, **common
        )


CMIC = {"cmi_weight": 0.4, "separation_weight": 0.3}
CASES = {
    "ce": Case("ce"),
    "ce weighted": Case("ce", {"weight": WEIGHT}),
    "ce weighted soft": Case("ce", {"weight": WEIGHT}, soft=True),
    "ce ignored sum": Case("ce", {"reduction": "sum"}, ignored=True),
    "ce weighted ignored none": Case("ce", {"weight": WEIGHT, "reduction": "none"}, ignored=True),
    "label-smoothing": Case("label-smoothing"),
    "label-smoothing soft": Case("label-smoothing", {"smoothing": 0.3}, soft=True),
    "label-smoothing weighted ignored": Case("label-smoothing", {"weight": WEIGHT}, ignored=True),
    "label-smoothing weighted soft": Case("label-smoothing", {"weight": WEIGHT}, soft=True),
    "label-smoothing weighted none": Case("label-smoothing", {"weight": WEIGHT, "reduction": "none"}, ignored=True),
    "focal": Case("focal"),
    "focal gamma 0.5 alpha": Case("focal", {"gamma": 0.5, "alpha": WEIGHT}),
    "focal gamma 3 soft": Case("focal", {"gamma": 3.0, "alpha": WEIGHT}, soft=True),
    "focal ignored": Case("focal", {"gamma": 0.0}, ignored=True),
    "poly1": Case("poly1"),
    "poly1 soft": Case("poly1", {"epsilon": -1.0}, soft=True),
    "poly1 weighted ignored": Case("poly1", {"epsilon": 1.0, "weight": WEIGHT}, ignored=True),
    "squentropy": Case("squentropy"),
    "squentropy weighted soft": Case("squentropy", {"weight": WEIGHT}, soft=True),
    "squentropy ignored": Case("squentropy", ignored=True),
    "square": Case("square"),
    "square scaled soft": Case("square", {"true_class_weight": 15.0, "target_value": 30.0}, soft=True),
    "square weighted ignored": Case("square", {"weight": WEIGHT}, ignored=True),
    "anticlass": Case("anticlass"),
    "anticlass weighted soft": Case("anticlass", {"gamma": 0.1, "ce_weight": 2.0, "weight": WEIGHT}, soft=True),
    "anticlass published ignored": Case("anticlass", {"epsilon": 1e-7}, ignored=True),
    "supcon": Case("supcon"),
    "supcon inside": Case("supcon", {"summation": "inside", "scale": "temperature"}),
    "supcon ignored": Case("supcon", {"temperature": 0.07, "scale": "base_temperature"}, ignored=True),
    "supcon inside ignored": Case("supcon", {"summation": "inside", "temperature": 0.5}, ignored=True),
    "opl": Case("opl"),
    "opl mean": Case("opl", {"negative": "mean", "gamma": 2.0, "opl_weight": 0.1}),
    "opl mean_abs": Case("opl", {"negative": "mean_abs"}),
    "opl mean_abs ignored": Case("opl", {"negative": "mean_abs"}, ignored=True),
    "opl ignored": Case("opl", ignored=True),
    "cmic": Case("cmic", CMIC),
    "cmic pairs": Case("cmic", {**CMIC, "normalize": "pairs", "momentum": 0.9}),
    "cmic detached": Case("cmic", {**CMIC, "detach_log": True}, is_derivative=False),
    "cmic soft": Case("cmic", {**CMIC, "normalize": "pairs", "momentum": 0.5}, soft=True),
    "cmic ignored": Case("cmic", {**CMIC, "momentum": 0.0}, ignored=True),
    "center": Case("center", {"center_weight": 0.5}),
    "center weighted": Case("center", {"weight": WEIGHT, "center_lr": 0.3}),
    "center ignored none": Case("center", {"center_weight": 0.5, "reduction": "none"}, ignored=True),
    "contrastive-center": Case("contrastive-center"),
    "contrastive-center weighted": Case("contrastive-center", {"weight": WEIGHT, "delta": 0.1}),
    "contrastive-center ignored sum": Case(
        "contrastive-center", {"center_weight": 0.3, "reduction": "sum"}, ignored=True
    ),
}
# One case for each baseline, for what does not depend on its settings.
PLAIN = {name: CASES[name] for name in BASELINES}
