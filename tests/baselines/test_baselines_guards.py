"""Sentences for what cannot work: each guard is seen to fire."""

import pytest
import torch
from baseline_cases import WEIGHT, B, C, D

from ncmi.baselines import (
    Baseline,
    CenterLoss,
    ContrastiveCenterLoss,
    Focal,
    LogitsLoss,
    ProjectionHead,
    SquareLoss,
    Squentropy,
    make_baseline,
)

LOGITS, FEATURES, LABELS = torch.zeros(B, C), torch.zeros(B, D), torch.zeros(B, dtype=torch.long)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Squentropy(1), r"Squentropy: num_classes must be at least 2, .*; got 1"),
        (lambda: CenterLoss(C, 0), r"CenterLoss: num_features must be at least 1; got 0"),
        (lambda: Focal(C, gamma=-1.0), r"Focal: gamma must be at least 0 and finite; got -1\.0"),
        (lambda: Focal(C, gamma=float("nan")), r"Focal: gamma must be at least 0 and finite; got nan"),
        (
            lambda: Focal(C, alpha=torch.tensor(0.25)),
            r"Focal: alpha must have shape \(4,\), one number a class; got \(\)",
        ),
        (lambda: Focal(C, alpha=torch.tensor([1, 1, 1, -1])), r"Focal: alpha must be finite and not negative"),
        (lambda: Focal(C, weight=WEIGHT), r"Focal: class weights are what alpha is; .* Pass alpha=weight"),
        (lambda: SquareLoss(C, weight=torch.ones(5)), r"SquareLoss: weight must have shape \(4,\).*got \(5,\)"),
        (lambda: make_baseline("poly1", C, D, epsilon=float("inf")), r"Poly1: epsilon must be finite; got inf"),
        (lambda: SquareLoss(C, target_value=0.0), r"SquareLoss: target_value must be above 0 and finite; got 0\.0"),
        (lambda: make_baseline("ce", C, D, reduction="max"), r"CrossEntropy: reduction must be one of .*got 'max'"),
        (
            lambda: make_baseline("label-smoothing", C, D, smoothing=1.0),
            r"smoothing must be at least 0 and below 1; got 1",
        ),
        (lambda: make_baseline("opl", C, D, negative="abs"), r"OPL: negative must be one of .* Did you mean"),
        (
            lambda: make_baseline("supcon", C, D, temperature=0),
            r"SupCon: temperature must be above 0 and finite; got 0",
        ),
        (lambda: make_baseline("supcon", C, D, scale="tau"), r"SupCon: scale must be one of"),
        (lambda: make_baseline("cmic", C, D, cmi_weight=1, separation_weight=1, momentum=1), r"CMIC: momentum must be"),
        (lambda: ContrastiveCenterLoss(C, D, delta=0), r"ContrastiveCenterLoss: delta must be above 0"),
        (lambda: ProjectionHead(16, 0), r"ProjectionHead: num_projections must be at least 1"),
        (
            lambda: make_baseline("ce", C, D)(LOGITS[:, :3], LABELS),
            r"logits must have shape \(B, 4\) because num_classes=4",
        ),
        (lambda: make_baseline("ce", C, D)(LOGITS, LABELS + 4), r"CrossEntropy: targets must lie in \[0, 3\].*got 4"),
        (lambda: make_baseline("ce", C, D)(LOGITS, LABELS[:3]), r"CrossEntropy: .*same length; got 8 and \(3,\)"),
        (lambda: make_baseline("ce", C, D)(LOGITS / 0, LABELS), r"logits must be finite; 8 of 8 rows .*first at row 0"),
        (lambda: make_baseline("ce", C, D)(LOGITS, LABELS - 100), r"no sample with a positive weight"),
        (
            lambda: CenterLoss(C, D)(LOGITS, FEATURES[:, :2], LABELS),
            r"features must have shape \(B, 6\) .*num_features=6",
        ),
        (lambda: CenterLoss(C, D)(LOGITS, FEATURES[:2], LABELS), r"logits and features .* got 8 and 2 rows"),
        (lambda: CenterLoss(C, D)(LOGITS, FEATURES, LOGITS + 1 / C), r"CenterLoss: targets must be class indices"),
        (lambda: make_baseline("opl", C, D)(LOGITS, FEATURES[0], LABELS), r"OPL: features must have shape \(B, D\)"),
        (lambda: make_baseline("supcon", C, D)(FEATURES, LABELS), r"SupCon: projections must have shape \(B, V, P\)"),
        (lambda: make_baseline("supcon", C, D)(FEATURES[:, None], LABELS), r"V ≥ 2 .*torch\.stack"),
        (lambda: LogitsLoss(C)(LOGITS, LABELS), r"^$"),
        (lambda: Baseline(C)._evaluate(LABELS, LOGITS), r"^$"),
    ],
)
def test_guards_fire(make, sentence):
    with pytest.raises((ValueError, NotImplementedError), match=sentence):
        make()


def test_arrays_and_integers_are_told_to_become_real_tensors():
    loss = make_baseline("ce", C, D)
    with pytest.raises(TypeError, match=r"CrossEntropy: logits must be a torch tensor; got ndarray"):
        loss(LOGITS.numpy(), LABELS)
    with pytest.raises(TypeError, match=r"CrossEntropy: logits must be real numbers .*got torch\.int64"):
        loss(LOGITS.long(), LABELS)
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'label_smoothing'"):
        make_baseline("ce", C, D, label_smoothing=0.1)
