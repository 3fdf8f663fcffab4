"""Recipes: named YAML files with the values of a :class:`ncmi.training.config.Config`.

A recipe may extend another one: ``extends: cifar100/resnet18`` takes its values and replaces those that it names itself.
"""

import difflib
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent

# Options that a loss requires and its paper does not print: what ``loss=<name>`` writes into the config. A guess.
LOSS_OPTIONS: dict[str, dict[str, Any]] = {"cmic": {"cmi_weight": 0.1, "separation_weight": 0.1}}


def list_recipes() -> list[str]:
    """The names of all recipes that come with the package.

    >>> list_recipes()[:2]
    ['cifar10/resnet18', 'cifar10/small']
    """
    return sorted(path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.rglob("*.yaml"))


def read_recipe(name: str, _below: tuple[str, ...] = ()) -> dict[str, Any]:
    """The values of a recipe: one that comes with the package, or a YAML file by its path.

    >>> read_recipe("cifar100/resnet34")["model"]["name"]
    'resnet34'
    """
    if name in list_recipes():
        path = FOLDER / f"{name}.yaml"
    elif name.endswith((".yaml", ".yml")):
        path = Path(name)
    else:
        near = difflib.get_close_matches(name, list_recipes(), n=3, cutoff=0.4)
        below = [recipe for recipe in list_recipes() if recipe.startswith(f"{name}/")]
        hint = f" Did you mean {' or '.join(below or near)}?" if below or near else ""
        raise ValueError(
            f"recipe: there is none called {name!r}; `ncmi recipes` lists them.{hint} A file ends in .yaml."
        )
    values = _read(path)
    base = values.pop("extends", None)
    if base is None:
        return values
    if base in (*_below, name):
        raise ValueError(f"recipe: {name} extends itself, by way of {base}.")
    return _merged(read_recipe(str(base), (*_below, name)), values)


def _read(path: Path) -> dict[str, Any]:
    import yaml

    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ValueError(f"recipe: there is no file {path}. Check the path.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        place = getattr(error, "problem_mark", None)
        where = f" in line {place.line + 1}" if place is not None else ""
        raise ValueError(f"recipe: {path} cannot be read as YAML{where}.") from error
    if not isinstance(values, dict):
        raise ValueError(f"recipe: {path} must hold settings as `key: value`; got {type(values).__name__}.")
    return values


def _merged(base: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in values.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merged(merged[key], value) if both else value
    return merged
