"""``Comparison``: which runs are compared, and the config of each. A cell is one of these runs."""

import hashlib
import itertools
import json
import math
import re
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from ncmi.experiments.kinds import DataKind, data_kind
from ncmi.experiments.losses import loss_overrides, resolved_options
from ncmi.experiments.rates import default_rates
from ncmi.recipes import read_recipe
from ncmi.training.config import Config, make_config


class Cell(NamedTuple):
    """One run of a comparison.

    Args:
        factors: what is compared, by its key in the config: ``{"loss": "ce"}``.
        rate: the learning rate.
        seed: of the run.

    >>> Cell({"loss": "ce"}, 0.1, 0).title
    'ce · rate 0.1 · seed 0'
    """

    factors: dict[str, str]
    rate: float
    seed: int

    @property
    def title(self) -> str:
        """What a cell is called in lines."""
        return " · ".join([*self.factors.values(), f"rate {self.rate:g}", f"seed {self.seed}"])


@dataclass(frozen=True)
class Comparison:
    """Values of factors that are compared on one recipe: same data, network, schedule and budget for all.

    The recipe's own loss keeps its options, those of ``overrides`` included; any other starts with its defaults.

    Args:
        recipe: a recipe's name or file.
        factors: the values of each factor, by its key in the config: ``{"loss": ["ce", "ncmi"]}``. Every combination is a
            group, with a learning rate of its own.
        seeds: every group runs with the seeds 0, …, ``seeds`` − 1.
        rates: learning rates to choose among; by default the recipe's own and its neighbours.
        overrides: ``key=value`` settings for all.
        seed_keys: the settings that a seed goes to; by default those of the kind of data, which can have several splits.
        rate_seeds: how many seeds run at every rate, the first ones, to choose it by their mean. More than one where a
            validation part is small, as those of slides are.

    >>> comparison = Comparison("digits", {"loss": ["ce", "ncmi"]}, seeds=3)
    >>> comparison.groups, comparison.rates
    ([{'loss': 'ce'}, {'loss': 'ncmi'}], [0.03, 0.1, 0.3])
    >>> comparison.cell_overrides(Cell({"loss": "ce"}, rate=0.3, seed=1))
    ['loss=ce', 'optimizer.lr=0.3', 'seed=1']
    """

    recipe: str
    factors: dict[str, list[str]]
    seeds: int
    rates: list[float] = field(default_factory=list)
    overrides: list[str] = field(default_factory=list)
    seed_keys: tuple[str, ...] = ()
    rate_seeds: int = 1

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise ValueError(f"compare: --seeds must be at least 1; got {self.seeds}.")
        if not 1 <= self.rate_seeds <= self.seeds:
            raise ValueError(
                f"compare: --rate-seeds must lie between 1 and the number of seeds, {self.seeds}; got {self.rate_seeds}."
            )
        for rate in self.rates:
            if not 0 < rate < math.inf:
                raise ValueError(f"compare: --rates must be positive and finite; got {rate:g}.")
        # What was not named follows from the recipe; the dataclass is frozen for everyone else.
        object.__setattr__(self, "rates", sorted(set(self.rates)) or default_rates(self.base.optimizer.lr))
        object.__setattr__(self, "seed_keys", self.seed_keys or self.kind.seed_keys)
        for override in self.overrides:
            key = override.partition("=")[0].strip()
            if key in self.seed_keys:
                raise ValueError(f"compare: it sets {key} itself, from 0 on; got --set {override}. Use --seeds.")

    @cached_property
    def values(self) -> dict[str, Any]:
        """The recipe's own settings."""
        return read_recipe(self.recipe)

    @cached_property
    def base(self) -> Config:
        """The config that all cells start from."""
        return make_config(self.values, self.overrides, owner=f"recipe {self.recipe}")

    @cached_property
    def kind(self) -> DataKind:
        """The kind of data."""
        return data_kind(self.base.data.name)

    @cached_property
    def groups(self) -> list[dict[str, str]]:
        """Every combination of the factors' values."""
        return [dict(zip(self.factors, values, strict=True)) for values in itertools.product(*self.factors.values())]

    @property
    def choosing_seeds(self) -> range:
        """The seeds that run at every rate; the first alone where there is nothing to choose."""
        return range(self.rate_seeds if len(self.rates) > 1 else 1)

    @cached_property
    def folder_name(self) -> str:
        """What folders of this recipe are called."""
        return Path(self.recipe).stem if self.recipe.endswith((".yaml", ".yml")) else self.recipe.replace("/", "-")

    @cached_property
    def _group_configs(self) -> dict[tuple[tuple[str, str], ...], Config]:
        return {}

    def cell_overrides(self, cell: Cell) -> list[str]:
        """All that makes a cell out of the recipe, as ``key=value``."""
        numbers = [f"{key}={value!r}" for key, value in self._numbers(cell).items()]
        return [*self.overrides, *self._group_overrides(cell.factors), *numbers]

    def config(self, cell: Cell) -> Config:
        """The whole config of a cell."""
        group = tuple(cell.factors.items())
        if group not in self._group_configs:
            # In two steps: options set for the recipe's own loss must be gone once a cell has another.
            own = self._group_overrides(cell.factors)
            self._group_configs[group] = make_config(self.base.to_dict(), own, owner=f"recipe {self.recipe}")
        config = self._group_configs[group]
        for key, value in self._numbers(cell).items():
            config = _with(config, key.split("."), value)
        return config

    def _group_overrides(self, factors: dict[str, str]) -> list[str]:
        found = []
        for key, value in factors.items():
            if key == "loss":
                found += loss_overrides(value, self.base)
            elif getattr(getattr(self.base, key, None), "name", None) != value:
                found.append(f"{key}={value}")
        return found

    def _numbers(self, cell: Cell) -> dict[str, float | int]:
        return {"optimizer.lr": cell.rate, **dict.fromkeys(self.seed_keys, cell.seed)}

    def fingerprint(self, cell: Cell) -> str:
        """The fingerprint of a cell's config."""
        config = self.config(cell)
        return fingerprint(config.to_dict(), config.loss.options)

    def cell_name(self, cell: Cell) -> str:
        """The name of a cell's files: readable, and different for different configs."""
        readable = "-".join([*cell.factors.values(), f"rate{cell.rate:g}", f"seed{cell.seed}"])
        return f"{re.sub(r'[^A-Za-z0-9._-]+', '-', readable)}-{self.fingerprint(cell)[:12]}"

    def joined(self, other: "Comparison") -> "Comparison":
        """Both comparisons as one: all values of their factors, and the larger numbers of seeds; else they must be equal."""
        own, others = self.to_dict(), other.to_dict()
        for record in (own, others):
            del record["seeds"], record["rate_seeds"]
            record["factors"] = list(record["factors"])
        differences = [f"{key} {own[key]} there, {others[key]} here" for key in own if own[key] != others[key]]
        if differences:
            raise ValueError(
                f"compare: the folder holds another comparison: {'; '.join(differences)}. Name another folder with --out."
            )
        factors = {key: list(dict.fromkeys([*self.factors[key], *other.factors[key]])) for key in self.factors}
        return replace(
            self,
            factors=factors,
            seeds=max(self.seeds, other.seeds),
            rate_seeds=max(self.rate_seeds, other.rate_seeds),
        )

    def to_dict(self) -> dict[str, Any]:
        """The comparison as JSON can hold it."""
        return {**asdict(self), "seed_keys": list(self.seed_keys)}

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> "Comparison":
        """The comparison that :meth:`to_dict` made this record of."""
        return cls(**{**record, "seed_keys": tuple(record["seed_keys"])})


# Settings that change no number of a run; of decisions, only which numbers there are.
_INERT = ("description", "scale", "test_batch_size", "data.workers", "decisions", "trackers", "checkpoint_minutes")


def fingerprint(values: dict[str, Any], options: dict[str, Any]) -> str:
    """The SHA-256 of all that a run's numbers depend on; what an old row does not know has today's default.

    So a setting that is added to :class:`ncmi.training.config.Config`, or an option that is added to a loss, leaves finished
    rows valid, and a default that is changed does not.

    Args:
        values: a whole config.
        options: of its loss; where a row has its defaults written out, those.

    >>> fingerprint({}, {}) == fingerprint(Config().to_dict(), {}) != fingerprint({"epochs": 3}, {})
    True
    >>> fingerprint({"description": "Digits."}, {"objective": "rivals"}) == fingerprint({}, {})
    True
    """
    whole = _completed(Config().to_dict(), values)
    whole["loss"] = {**whole["loss"], "options": resolved_options(whole["loss"]["name"], options)}
    for key in _INERT:
        *sections, last = key.split(".")
        tree = whole
        for section in sections:
            tree = tree[section]
        del tree[last]
    text = json.dumps(whole, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _completed(defaults: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    both = {
        key: _completed(defaults[key], value)
        if isinstance(value, dict) and isinstance(defaults.get(key), dict)
        else value
        for key, value in values.items()
    }
    return {**defaults, **both}


def _with(settings: Any, path: list[str], value: Any) -> Any:
    """A config, or a section of one, with another value at ``path``."""
    first, *rest = path
    return replace(settings, **{first: _with(getattr(settings, first), rest, value) if rest else value})
