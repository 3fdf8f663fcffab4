"""``load_weights``: published and own weights into a network, without unpickling anything but tensors."""

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from ncmi.models.wrap import Wrapped
from ncmi.tensor_files import read_tensors

_HEADS = ("fc", "linear", "head", "classifier")
_SHOWN = 3


def load_weights(model: nn.Module, path: str | Path, prefix: str | None = None) -> list[str]:
    """Load a file of weights into ``model``; returns the names of the tensors of its head that were left out.

    The file is a ``state_dict`` (torchvision, timm, this package's) or a checkpoint that holds one among other things,
    with or without a prefix as ``module.`` (DataParallel) or ``model.``, in torch's format or safetensors.

    The head is left out if it is of another size than the model's; a model whose head therefore stays random says so in a
    warning. Everything else must fit, or nothing is loaded.

    Args:
        model: the network, changed in place.
        path: the file; ``.safetensors`` needs the package safetensors.
        prefix: what stands before the network's names in the file, as ``"state_dict.module."``; found by default, and
            needed only for a file with several networks, as student and teacher.

    >>> import tempfile
    >>> import torch
    >>> from ncmi.models import create_model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     torch.save(create_model("resnet8_slim", num_classes=10).state_dict(), f"{folder}/weights.pt")
    ...     load_weights(create_model("resnet8_slim"), f"{folder}/weights.pt")
    ['fc.weight', 'fc.bias']
    """
    path = Path(path)
    owner = f"load_weights: {path}"
    if isinstance(model, Wrapped):
        model = model.body
    own = model.state_dict()
    found = _without_prefix(owner, dict(_flat(read_tensors(path, owner))), own, prefix)
    heads = _head_names(model)
    own_head, found_head = _under(own, heads), _under(found, heads)
    _check_backbone(owner, found.keys() - found_head, own, own_head)
    shapes = {name: tensor.shape for name, tensor in found.items()}
    other = [name for name in found if name in own and name not in found_head and shapes[name] != own[name].shape]
    if other:
        shown = _some(f"{name} {tuple(shapes[name])} instead of {tuple(own[name].shape)}" for name in other)
        raise ValueError(
            f"{owner} does not fit {_title(model)}: {shown}. Create the model with the width, stem and in_channels of the "
            "file."
        )
    if {name: shapes[name] for name in found_head} == {name: own[name].shape for name in own_head}:
        found_head = []
    elif own_head:
        reason = (
            f"its head is {_some(f'{name} {tuple(shapes[name])}' for name in found_head)}, the model's "
            f"{_some(f'{name} {tuple(own[name].shape)}' for name in own_head)}"
            if found_head
            else "it holds no head"
        )
        warnings.warn(f"{owner}: the head of {_title(model)} stays as it was, because {reason}.", stacklevel=2)
    model.load_state_dict({name: tensor for name, tensor in found.items() if name not in found_head}, strict=False)
    return found_head


def _flat(content: Any, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
    """Every tensor of nested dictionaries under a dotted name."""
    if isinstance(content, Mapping):
        for name, value in content.items():
            yield from _flat(value, f"{prefix}.{name}" if prefix else str(name))
    elif isinstance(content, Tensor):
        yield prefix, content


def _without_prefix(
    owner: str, tensors: dict[str, Tensor], own: Mapping[str, Tensor], prefix: str | None
) -> dict[str, Tensor]:
    """The tensors behind ``prefix``, or behind the one prefix that gives most names of the model."""
    if prefix is None:
        counts: Counter[str] = Counter()
        for name in tensors:
            cuts = [0, *(place + 1 for place, letter in enumerate(name) if letter == ".")]
            counts.update(name[:cut] for cut in cuts if name[cut:] in own)
        best = [candidate for candidate, count in counts.items() if count == max(counts.values())]
        if len(best) > 1:
            raise ValueError(
                f"{owner} holds several networks, under {', '.join(map(repr, best))}. Pass the one to take as prefix=…."
            )
        prefix = best[0] if best else ""
    found = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
    if not found.keys() & own.keys():
        raise ValueError(
            f"{owner} holds no tensor with a name of the model behind the prefix {prefix!r}. It has "
            f"{_some(tensors) or 'no tensors at all'}; the model has {_some(own)}. Create the model that the file was "
            "saved from."
        )
    return found


def _head_names(model: nn.Module) -> tuple[str, ...]:
    """Names of the modules that make up the head."""
    get_classifier = getattr(model, "get_classifier", None)
    if get_classifier is None:
        return _HEADS
    given = get_classifier()
    heads = given if isinstance(given, (tuple, list)) else (given,)
    return tuple(name for name, module in model.named_modules() if any(module is head for head in heads)) or _HEADS


def _under(names: Iterable[str], modules: tuple[str, ...]) -> list[str]:
    return [name for name in names if name.startswith(tuple(f"{module}." for module in modules))]


def _check_backbone(owner: str, found: Iterable[str], own: Mapping[str, Tensor], own_head: list[str]) -> None:
    """Every name of the backbone is there, and no other."""
    found = set(found)
    # Old files, torchvision's among them, do not count batches.
    missing = [n for n in own if n not in found and n not in own_head and not n.endswith("num_batches_tracked")]
    unexpected = sorted(name for name in found if name not in own)
    if missing or unexpected:
        lacks = f" lacks {len(missing)} tensors of the model ({_some(missing)})" if missing else ""
        has = f" has {len(unexpected)} that the model does not know ({_some(unexpected)})" if unexpected else ""
        raise ValueError(
            f"{owner}{lacks}{' and' if lacks and has else ''}{has}. Create the model that the file was saved from: the same "
            "name and blocks."
        )


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:_SHOWN]) + (", …" if len(listed) > _SHOWN else "")


def _title(model: nn.Module) -> str:
    return type(model).__name__
