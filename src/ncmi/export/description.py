"""``Description``: what a model takes and what its outputs mean, as text inside the exported file."""

import json
from dataclasses import asdict, dataclass, fields
from typing import Literal

KEY = "ncmi"
"""The name of the text: of an extra file in a ``.pt2``, of a metadata property in an ``.onnx``."""


@dataclass(frozen=True)
class Description:
    """What a reader of a model must know.

    Args:
        takes: ``"images"``: uint8 (B, *shape), pixels as they are in a file; ``"bag"``: the features of one slide,
            float32 (N, *shape).
        shape: of one image (channels, height, width), or of one instance (F,).
        crop: ``"center"`` if photographs of any size are resized and cropped to ``shape``, as in evaluation; ``"none"`` if
            an image must have that shape already.
        classes: C names; the class index is the position.
        data: the data set the run learned from.
        model: the network's name.
        loss: the loss it was trained with.
        decision: what decides: ``"learned q"``, ``"head"``, ``"linear probe"``.
        temperature: T of the probabilities, softmax(scores / T).
        temperature_source: what T was fitted on, or why it was not.
        version: of ncmi.

    >>> description = Description("bag", (384,), "none", ("benign", "tumour"), "bags:x", "abmil", "ce", "head", 1.0, "", "1")
    >>> Description.from_text(description.to_text(), "example") == description
    True
    """

    takes: Literal["images", "bag"]
    shape: tuple[int, ...]
    crop: Literal["center", "none"]
    classes: tuple[str, ...]
    data: str
    model: str
    loss: str
    decision: str
    temperature: float
    temperature_source: str
    version: str

    def to_text(self) -> str:
        """JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str, owner: str) -> "Description":
        """The description that :meth:`to_text` made this text of; ``owner`` names the file in a refusal."""
        try:
            values = json.loads(text)
            values = {item.name: values[item.name] for item in fields(cls)}
            return cls(**{**values, "shape": tuple(values["shape"]), "classes": tuple(values["classes"])})
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{owner} holds no description of its inputs and classes: `ncmi export` of another version wrote it, or "
                "another program. Export the run again."
            ) from error
