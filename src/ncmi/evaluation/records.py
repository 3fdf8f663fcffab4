"""``Evaluation``: what was measured of a trained network, as plain numbers that JSON can hold.

No tensor enters here: a report reads these records long after the network is gone.
"""

from dataclasses import asdict, dataclass
from typing import Any

from ncmi.checks import choose

PARTS = ("train", "validation", "test")

# Of data whose samples come from patients.
_SLIDE_COLUMNS = (
    ("test macro F1", "test", "macro_f1"),
    ("test macro AUC", "test", "macro_auc"),
    ("test micro F1", "test", "top1"),
    ("test balanced accuracy", "test", "balanced_accuracy"),
    ("validation macro F1", "validation", "macro_f1"),
)
_COLUMNS = (
    ("test top-1", "test", "top1"),
    ("test top-5", "test", "top5"),
    ("test ECE", "test", "ece"),
    ("validation top-1", "validation", "top1"),
    ("train top-1", "train", "top1"),
)


@dataclass(frozen=True)
class Score:
    """One decision on one part of the data.

    Args:
        n: number of samples.
        top1: share of right decisions, in [0, 1].
        top5: share with the right class among the five best (all, with five classes or fewer).
        nll: mean negative log-likelihood of the right class; ``None`` where it is infinite.
        ece: expected calibration error, 15 bins.
        macro_f1: mean F1 of the classes; this and the next two are ``None`` for very large sets.
        macro_auc: mean one-versus-rest AUC of the classes that occur.
        balanced_accuracy: mean recall of the classes that occur.
        intervals: lower and upper end of the 95 % bootstrap interval over patients, by the name of the number, where samples
            come from patients.
    """

    n: int
    top1: float
    top5: float
    nll: float | None
    ece: float
    macro_f1: float | None = None
    macro_auc: float | None = None
    balanced_accuracy: float | None = None
    intervals: dict[str, tuple[float, float]] | None = None

    def __post_init__(self) -> None:
        if self.intervals is not None:  # lists, where the record was read from JSON
            object.__setattr__(self, "intervals", {name: tuple(ends) for name, ends in self.intervals.items()})


@dataclass(frozen=True)
class Information:
    """CMI, Γ and NCMI of one part under the criterion's map; ``ncmi`` is ``None`` where Γ is zero."""

    n: int
    cmi: float
    gamma: float
    ncmi: float | None


@dataclass(frozen=True)
class DecisionResult:
    """One way to decide, on every part.

    Args:
        name: ``"own"``, ``"class means"``, ``"linear probe"`` or ``"knn"``.
        source: what decides, in words; for ``"own"`` the criterion's ``decision``.
        seconds: to fit it and to decide on all parts.
        note: what a reader of the numbers must know.
        parts: scores by the name of the part.
    """

    name: str
    source: str
    seconds: float
    note: str
    parts: dict[str, Score]


@dataclass(frozen=True)
class Evaluation:
    """Decisions and information of a trained network.

    Args:
        num_classes: C.
        num_features: D.
        seed: of the held-out part and subsets of the fits.
        decisions: one result for each way to decide.
        information: CMI, Γ and NCMI by the name of the part.

    >>> score = Score(n=200, top1=0.75, top5=1.0, nll=0.5, ece=0.031)
    >>> row = DecisionResult("own", "learned q", seconds=0.1, note="", parts={"test": score})
    >>> evaluation = Evaluation(10, 64, 0, (row,), {"test": Information(200, 0.01, 0.05, 0.2)})
    >>> print(evaluation.table())
    | decision (%) | test top-1 | test top-5 | test ECE | validation top-1 | train top-1 |
    |--------------|-----------:|-----------:|---------:|-----------------:|------------:|
    | learned q    |      75.00 |     100.00 |     3.10 |                – |           – |
    <BLANKLINE>
    test: CMI 0.01, Γ 0.05, NCMI 0.2, 200 samples
    >>> Evaluation.from_dict(evaluation.to_dict()) == evaluation
    True
    """

    num_classes: int
    num_features: int
    seed: int
    decisions: tuple[DecisionResult, ...]
    information: dict[str, Information]

    def decision(self, name: str) -> DecisionResult:
        """The result of one way to decide."""
        return {row.name: row for row in self.decisions}[
            choose("Evaluation", "a decision", name, [row.name for row in self.decisions])
        ]

    @property
    def of_patients(self) -> bool:
        """Whether the samples come from patients, so that there are intervals over them."""
        return any(score.intervals is not None for row in self.decisions for score in row.parts.values())

    def to_dict(self) -> dict[str, Any]:
        """Everything as dicts, lists and finite numbers or ``None``, ready for JSON."""
        return {**asdict(self), "decisions": [asdict(row) for row in self.decisions]}

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> "Evaluation":
        """The evaluation that :meth:`to_dict` made this record of; keys added beside its own are left alone."""
        try:
            rows = tuple(
                DecisionResult(**{**row, "parts": {part: Score(**score) for part, score in row["parts"].items()}})
                for row in record["decisions"]
            )
            information = {part: Information(**values) for part, values in record["information"].items()}
            return cls(record["num_classes"], record["num_features"], record["seed"], rows, information)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"Evaluation: from_dict needs a record that to_dict made; this one does not fit ({error}). It may come from "
                "another version: evaluate again."
            ) from error

    def table(self) -> str:
        """A Markdown table that reads well as plain text: accuracies and ECE in percent, then information and notes."""
        columns = _SLIDE_COLUMNS if self.of_patients else _COLUMNS
        if self.num_classes <= 5:  # the right class is always among the five best
            columns = [column for column in columns if column[2] != "top5"]
        header = ["decision (%)", *(title for title, _, _ in columns)]
        body = [
            [row.source, *(_cell(row.parts.get(part), field) for _, part, field in columns)] for row in self.decisions
        ]
        widths = [max(len(line[column]) for line in (header, *body)) for column in range(len(header))]
        rule = ["-" * (widths[0] + 2), *("-" * (width + 1) + ":" for width in widths[1:])]
        lines = [_line(header, widths), f"|{'|'.join(rule)}|", *(_line(row, widths) for row in body)]
        facts = [_fact(part, self.information[part]) for part in reversed(PARTS) if part in self.information]
        notes = ["In brackets: 95 % bootstrap intervals over patients."] if self.of_patients else []
        notes += [f"{row.source}: {row.note}" for row in self.decisions if row.note]
        return "\n\n".join("\n".join(block) for block in (lines, facts, notes) if block)


def _line(cells: list[str], widths: list[int]) -> str:
    first, *rest = zip(cells, widths, strict=True)
    return "| " + " | ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)]) + " |"


def _cell(score: Score | None, field: str) -> str:
    value = None if score is None else getattr(score, field)
    if score is None or value is None:
        return "–"
    if score.intervals is None or field not in score.intervals:
        return f"{100 * value:.2f}"
    low, high = score.intervals[field]
    return f"{100 * value:.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def _fact(part: str, information: Information) -> str:
    ratio = "has no value (Γ is zero)" if information.ncmi is None else f"{information.ncmi:.4g}"
    return f"{part}: CMI {information.cmi:.4g}, Γ {information.gamma:.4g}, NCMI {ratio}, {information.n} samples"
