"""MNIST, Fashion-MNIST and any other images in idx files, the format of LeCun's MNIST.

An idx file is a header of big-endian 32-bit numbers (a magic number, then the sizes) and the bytes; 2051 means images
(N, height, width), 2049 labels (N,). Files may be compressed, with the ending ``.gz``.
"""

import math
import struct
from pathlib import Path

import torch
from torch import Tensor

from ncmi.data.files import Found, Layout, OfficialFile, data_places, locate, read_official, resolve
from ncmi.data.images import ImageSet

DEBIAN = Path("/usr/share/datasets/fashion-mnist")  # of Debian's package dataset-fashion-mnist
FASHION_CLASSES = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)

_IMAGES, _LABELS = 2051, 2049
_FOUR_FILES = "train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte"


def _layout(folder: str, *checksums: str) -> Layout:
    names = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
    sizes = (16 + 60_000 * 784, 8 + 60_000, 16 + 10_000 * 784, 8 + 10_000)
    if checksums:
        files = [OfficialFile(*file[:2], "md5", file[2]) for file in zip(names, sizes, checksums, strict=True)]
    else:
        files = [OfficialFile(name) for name in names]
    return Layout(folder, tuple(files[:2]), tuple(files[2:]))


# MD5 of the decompressed files: compressed copies differ from mirror to mirror.
LAYOUTS = {
    "mnist": _layout(
        "mnist",
        "6bbc9ace898e44ae57da46a324031adb",
        "a25bea736e30d166cdddb491f175f624",
        "2646ac647ad5339dbf082846283269ea",
        "27ae3e4e09519cfbb04c329615203637",
    ),
    "fashion-mnist": _layout(
        "fashion-mnist",
        "f4a8712d7a061bf5bd6d2ca38dc4d50a",
        "9018921c3c673c538a1fc5bad174d6f9",
        "8181f5470baa50b63fa0f6fddb340f0a",
        "15d484375f8d13e6eb1aabb0c3f46965",
    ),
}


def find_idx(name: str, data_dir: str | Path | None = None) -> Found:
    """Where ``"mnist"`` or ``"fashion-mnist"`` is: in a folder of that name, in ``data_dir`` itself, or where Debian has it."""
    layout, places = LAYOUTS[name], data_places(data_dir)
    folders = [place / layout.folder for place in places]
    if data_dir is not None:
        folders.append(places[0])
    elif name == "fashion-mnist":
        folders.append(DEBIAN)
    remedy = f"Put {_FOUR_FILES} of {name}, plain or with the ending .gz, into {folders[0]}."
    if name == "fashion-mnist":
        remedy += " On Debian and Ubuntu the package dataset-fashion-mnist brings them."
    return locate(name, [(folder, layout) for folder in folders], tuple(folders), remedy)


def find_idx_folder(name: str, folder: str | Path) -> Found:
    """What a folder of idx files named as MNIST's holds; ``name`` is for messages. There is no checksum to compare with."""
    folder = Path(folder).expanduser()
    remedy = f"Put {_FOUR_FILES}, plain or with the ending .gz, into it."
    return locate(name, [(folder, _layout(folder.name))], (folder,), remedy)


def read_idx(found: Found, check: bool = True, class_names: tuple[str, ...] | None = None) -> dict[str, ImageSet]:
    """The parts that were found.

    Args:
        found: the answer of :func:`find_idx` or :func:`find_idx_folder`.
        check: verify the official sizes and checksums, if there are any.
        class_names: of the classes; ``None`` names them 0, 1, … up to the highest label.
    """
    assert found.folder is not None
    assert found.layout is not None
    pairs: dict[str, tuple[Tensor, Tensor]] = {}
    for part in found.parts:
        images, labels = (_read(found, file, check) for file in found.layout.files(part))
        if images.ndim != 3 or labels.ndim != 1:
            raise ValueError(
                f"{found.name}: in {found.folder} an images file of the {part} part holds labels, or the reverse."
            )
        if len(images) != len(labels):
            raise ValueError(
                f"{found.name}: in {found.folder} the {part} part has {len(images)} images but {len(labels)} labels."
            )
        pairs[part] = images.unsqueeze(1), labels.long()
    if class_names is None:
        highest = max(int(labels.max()) for _, labels in pairs.values() if len(labels))
        class_names = tuple(map(str, range(highest + 1)))
    names = tuple(class_names)
    return {part: ImageSet(images, labels, names, found.name) for part, (images, labels) in pairs.items()}


def _read(found: Found, file: OfficialFile, check: bool) -> Tensor:
    assert found.folder is not None
    content = read_official(found.name, found.folder, file, check)
    return parse_idx(content, f"{found.name}: {resolve(found.folder, file)}")


def parse_idx(content: bytes, owner: str) -> Tensor:
    """The uint8 tensor of an idx file: (N, height, width) or (N,); ``owner`` names the file in messages.

    >>> parse_idx(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]), "labels").tolist()
    [7, 9]
    """
    magic = struct.unpack(">I", content[:4])[0] if len(content) >= 4 else None
    if magic not in (_IMAGES, _LABELS):
        raise ValueError(
            f"{owner} must begin with {_IMAGES} (images) or {_LABELS} (labels) as an idx file of bytes does; found {magic}."
        )
    header = 16 if magic == _IMAGES else 8
    shape = struct.unpack(f">{header // 4 - 1}I", content[4:header]) if len(content) >= header else (0,)
    expected = header + math.prod(shape)
    if len(content) != expected:
        raise ValueError(
            f"{owner} is damaged: its header says {' × '.join(map(str, shape))}, so it must have {expected:,} bytes; found "
            f"{len(content):,}. Fetch it again."
        )
    # A bytearray, because a tensor over immutable bytes could be written to.
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)[header:].view(shape)
