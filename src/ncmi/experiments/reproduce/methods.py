"""``Method`` and ``Network``: lines and columns of the paper's tables of losses, filled from rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ncmi.experiments.reproduce.parts import FITTED, PROBE, Part, mean, standing
from ncmi.experiments.table import markdown_table

LARGE = "supcon, large batch"


class Method(NamedTuple):
    """A line of a table.

    Args:
        title: as the paper has it.
        loss: as a comparison has it; ``LARGE`` for SupCon with a large batch.
        own: the decision in the columns of own decisions, if any.
        probe: whether the linear probe is shown.
    """

    title: str
    loss: str
    own: str | None = "own"
    probe: bool = True

    @property
    def ours(self) -> bool:
        """Whether it is NCMI."""
        return self.loss.startswith("ncmi")


METHODS = (
    Method("CE", "ce"),
    Method("LS", "label-smoothing"),
    Method("AntiClass", "anticlass"),
    Method("Squentropy", "squentropy"),
    Method("SquareLoss", "square"),
    Method("PolyLoss", "poly1"),
    Method("SupCon", "supcon", None),
    Method("SupCon (large batch)", LARGE, None),
    Method("Focal Loss", "focal"),
    Method("NCMI-CC", "ncmi", "own", probe=False),
    Method("NCMI-CC (fitted)", "ncmi", FITTED, probe=False),
    Method("NCMI-LP", "ncmi", None),
    Method("NCMI-CC, preset paper", "ncmi:preset=paper", "own", probe=False),
    Method("NCMI-LP, preset paper", "ncmi:preset=paper", None),
    Method("NCMI-CC, preset released", "ncmi:preset=released", "own", probe=False),
    Method("NCMI-LP, preset released", "ncmi:preset=released", None),
)


@dataclass(frozen=True)
class Network:
    """The columns of a network: where its rows are.

    Args:
        name: of the network.
        part: with its losses.
        large: with SupCon at a large batch, if it was run.
        factors: what its groups have in common.
    """

    name: str
    part: Part
    large: Part | None
    factors: Mapping[str, str]

    def cell(self, method: Method, decision: str | None, score: str) -> str:
        """A cell of the table."""
        part, factors = self._group(method)
        return "–" if decision is None or part is None else part.cell(decision, score, **factors)

    def share(self, method: Method, decision: str) -> float | None:
        """The mean top-1, if there are rows."""
        part, factors = self._group(method)
        return None if part is None else mean(part.spread(decision, "top1", **factors))

    def standings(self) -> list[str]:
        """Sentences about NCMI among the other losses, by own decision and by what is fitted after training."""
        others = [method for method in METHODS if not method.ours]
        owns = {method.title: self.share(method, "own") for method in others if method.own}
        probes = {method.title: self.share(method, PROBE) for method in others}
        found = []
        for method in METHODS:
            if method.ours:
                value, rivals = self.share(method, method.own or PROBE), owns if method.own == "own" else probes
                found.append(standing(method.title, value, rivals, self.part.samples))
        return [f"{self.name}: {sentence}" for sentence in found if sentence]

    def _group(self, method: Method) -> tuple[Part | None, dict[str, str]]:
        if method.loss == LARGE:
            return self.large, {**self.factors, "loss": "supcon"}
        return self.part, {**self.factors, "loss": method.loss}


def method_table(
    networks: Sequence[Network], scores: Mapping[str, str], paper: Callable[[Network, Method], list[str]]
) -> str:
    """A line for each method that has a number, and for each network its scores by own decision, by probe and in the paper.

    Args:
        networks: the columns.
        scores: titles of the scores, by their names in the rows.
        paper: the paper's cells for a network and a method, one for each score.
    """
    header = ["method"]
    for network in networks:
        for about in (f"{network.name}, own", "LP", "paper"):
            header += [f"{about}{title and f', {title}'}" for title in scores.values()]
    body = []
    for method in METHODS:
        cells = [method.title]
        for network in networks:
            for decision in (method.own, PROBE if method.probe else None):
                cells += [network.cell(method, decision, score) for score in scores]
            cells += paper(network, method)
        if any(cell != "–" for cell in cells[1:]):
            body.append(cells)
    return markdown_table(header, body)


OWN_AND_PROBE = (
    "*Own* is the head of a loss that has one and the nearest centroid (CC) for NCMI, whose objective is the "
    "default unless another or a preset is named; LP is a linear probe on frozen features. Centroids that were fitted on "
    "frozen features after training, where there are some, are judged beside the probes."
)


def count_seeds(part: Part) -> str:
    """Over how many seeds a table is, in words."""
    seeds = part.comparison.seeds
    return "one seed" if seeds == 1 else f"mean ± standard deviation over {seeds} seeds"
