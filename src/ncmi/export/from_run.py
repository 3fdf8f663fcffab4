"""``classifier_of``: a trained task as a classifier, with the decision and the temperature that its evaluation uses."""

import sys
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from ncmi.criteria import Criterion, HeadCriterion, NCMICriterion
from ncmi.data import FolderSet
from ncmi.evaluation import LabelledFeatures
from ncmi.evaluation.temperature import fit_temperature
from ncmi.export.classifier import BagClassifier, Classifier, ImageClassifier
from ncmi.export.description import Description
from ncmi.heads import CentroidClassifier, LinearProbe
from ncmi.models.mil.base import BagModel
from ncmi.training.setup import Setup
from ncmi.training.sources.images import ImageSource
from ncmi.training.task import Task

_CHUNK = 4096  # samples that are decided on at a time


class _Decision(NamedTuple):
    name: str
    module: nn.Module
    needs_temperature: bool


@torch.no_grad()
def classifier_of(setup: Setup, task: Task) -> tuple[Classifier, Description]:
    """The task as one module on the CPU, and what it takes and means.

    Divergences become probabilities with a temperature fitted on the validation part, or, without one, on the training part;
    logits need none. A loss without a decision of its own (SupCon) gets the linear probe that it is judged by.

    Args:
        setup: the run's data.
        task: the trained network and criterion, in evaluation mode.
    """
    decision = _decision(setup, task)
    temperature, source = 1.0, "not needed: the scores are logits"
    if decision.needs_temperature:
        part = "train" if setup.source.validation is None else "validation"
        features = setup.own_features(task, getattr(setup.source, part))
        scores = torch.cat([decision.module(rows) for rows in _rows(features, task)])
        temperature, problem = fit_temperature(scores.cpu(), features.targets)
        source = f"fitted on the {part} part, {len(features)} samples{f'; {problem}' if problem else ''}"
    classifier, takes, shape, crop = _classifier(setup, task, decision.module, temperature)
    config = setup.config
    description = Description(
        takes=takes,
        shape=shape,
        crop=crop,
        classes=tuple(setup.source.class_names),
        data=config.data.name,
        model=config.model.name,
        loss=config.loss.name,
        decision=decision.name,
        temperature=temperature,
        temperature_source=source,
        # Not imported by name: the package's own __init__ stands above this module.
        version=sys.modules["ncmi"].__version__,
    )
    return classifier.float().cpu(), description  # from float64 too, which few runtimes take


def _decision(setup: Setup, task: Task) -> _Decision:
    criterion: Criterion = task.criterion
    if isinstance(criterion, NCMICriterion):
        return _Decision(criterion.decision, CentroidClassifier.from_loss(criterion.loss), True)
    if isinstance(criterion, HeadCriterion):
        return _Decision(criterion.decision, criterion.head, False)
    train = setup.own_features(task, setup.source.train)
    probe = LinearProbe(criterion.num_classes, criterion.num_features).fit(train.features, train.targets)
    return _Decision("linear probe", probe.to(setup.processes.device), False)


def _rows(features: LabelledFeatures, task: Task) -> list[Tensor]:
    device = next(task.parameters()).device
    return [rows.to(device) for rows, _ in features.chunks(_CHUNK)]


def _classifier(
    setup: Setup, task: Task, decision: nn.Module, temperature: float
) -> tuple[Classifier, Literal["images", "bag"], tuple[int, ...], Literal["center", "none"]]:
    network, source = task.network, setup.source
    if isinstance(network, BagModel):
        return BagClassifier(network, decision, temperature), "bag", (network.in_features,), "none"
    assert isinstance(source, ImageSource)
    from_files = isinstance(source.train, FolderSet)
    side = setup.config.data.test_resolution
    shape = (3, side, side) if from_files else source.train.image_shape
    mean, std = source.statistics
    classifier = ImageClassifier(network, decision, temperature, shape=shape, mean=mean, std=std)
    return classifier, "images", shape, "center" if from_files else "none"
