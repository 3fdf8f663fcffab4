"""CIFAR-10 and CIFAR-100 (Krizhevsky 2009) in both official layouts, binary and python.

Binary: records of one label byte (CIFAR-100: coarse, then fine) and 3,072 pixel bytes, red, green and blue plane.
Python: pickled dictionaries, read by a restricted unpickler after their checksum was verified.
"""

from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from ncmi.checks import choose
from ncmi.data.cifar_names import CIFAR10_CLASSES, CIFAR100_COARSE_CLASSES, CIFAR100_FINE_CLASSES
from ncmi.data.files import Found, Layout, OfficialFile, data_places, locate, read_official, resolve
from ncmi.data.images import ImageSet
from ncmi.data.unpickle import ByteArray, load_batch

Labels = Literal["fine", "coarse"]

_PIXELS = 3 * 32 * 32

# SHA-1 of the binary files and MD5 of the python files, as in the official archives.
LAYOUTS = {
    "cifar10": (
        Layout(
            "cifar-10-batches-bin",
            archive="cifar-10-binary.tar.gz",
            train=(
                OfficialFile("data_batch_1.bin", 30_730_000, "sha1", "aadd24acce27caa71bf4b10992e9e7b2d74c2540"),
                OfficialFile("data_batch_2.bin", 30_730_000, "sha1", "c0ba65cce70568cd57b4e03e9ac8d2a5367c1795"),
                OfficialFile("data_batch_3.bin", 30_730_000, "sha1", "1dd00a74ab1d17a6e7d73e185b69dbf31242f295"),
                OfficialFile("data_batch_4.bin", 30_730_000, "sha1", "aab85764eb3584312d3c7f65fd2fd016e36a258e"),
                OfficialFile("data_batch_5.bin", 30_730_000, "sha1", "26e2849e66a845b7f1e4614ae70f4889ae604628"),
            ),
            test=(OfficialFile("test_batch.bin", 30_730_000, "sha1", "67eb016db431130d61cd03c7ad570b013799c88c"),),
        ),
        Layout(
            "cifar-10-batches-py",
            archive="cifar-10-python.tar.gz",
            train=(
                OfficialFile("data_batch_1", 31_035_704, "md5", "c99cafc152244af753f735de768cd75f"),
                OfficialFile("data_batch_2", 31_035_320, "md5", "d4bba439e000b95fd0a9bffe97cbabec"),
                OfficialFile("data_batch_3", 31_035_999, "md5", "54ebc095f3ab1f0389bbae665268c751"),
                OfficialFile("data_batch_4", 31_035_696, "md5", "634d18415352ddfa80567beed471001a"),
                OfficialFile("data_batch_5", 31_035_623, "md5", "482c414d41f54cd18b22e5b47cb7c3cb"),
            ),
            test=(OfficialFile("test_batch", 31_035_526, "md5", "40351d587109b95175f43aff81a1287e"),),
        ),
    ),
    "cifar100": (
        Layout(
            "cifar-100-binary",
            archive="cifar-100-binary.tar.gz",
            train=(OfficialFile("train.bin", 153_700_000, "sha1", "e207cd2e05b73b1393c74c7f5e7bea451d63e08e"),),
            test=(OfficialFile("test.bin", 30_740_000, "sha1", "8fb6623e830365ff53cf14adec797474f5478006"),),
        ),
        Layout(
            "cifar-100-python",
            archive="cifar-100-python.tar.gz",
            train=(OfficialFile("train", 155_249_918, "md5", "16019d7e3df5f24257cddd939b257f8d"),),
            test=(OfficialFile("test", None, "md5", "f0ef6b0ae62326f3e7ffdfab6717acfc"),),
        ),
    ),
}


def find_cifar(name: str, data_dir: str | Path | None = None) -> Found:
    """Where ``"cifar10"`` or ``"cifar100"`` is, in either layout; ``data_dir`` may also be the official folder itself."""
    layouts, places = LAYOUTS[name], data_places(data_dir)
    candidates = [
        (folder, layout)
        for place in places
        for layout in layouts
        for folder in ((place, place / layout.folder) if place.name == layout.folder else (place / layout.folder,))
    ]
    archives = " or ".join(layout.archive for layout in layouts)
    folders = " or ".join(layout.folder for layout in layouts)
    remedy = f"Unpack {archives} (from the CIFAR home page) in {places[0]}, which gives {folders}."
    return locate(name, candidates, tuple(folder for folder, _ in candidates), remedy)


def read_cifar(found: Found, check: bool = True, labels: Labels = "fine") -> dict[str, ImageSet]:
    """The parts of CIFAR that were found.

    Args:
        found: the answer of :func:`find_cifar`.
        check: verify the official sizes and checksums; ``False`` reads files that were made or changed by others.
        labels: of CIFAR-100, ``"fine"`` (100 classes) or ``"coarse"`` (20).
    """
    assert found.folder is not None
    assert found.layout is not None
    choose(found.name, "labels", labels, ("fine", "coarse") if found.name == "cifar100" else ("fine",))
    if found.name == "cifar10":
        names = CIFAR10_CLASSES
    else:
        names = CIFAR100_FINE_CLASSES if labels == "fine" else CIFAR100_COARSE_CLASSES
    sets = {}
    for part in found.parts:
        images, targets = [], []
        for file in found.layout.files(part):
            content = read_official(found.name, found.folder, file, check)
            owner = f"{found.name}: {resolve(found.folder, file)}"
            read = _read_binary if file.name.endswith(".bin") else _read_python
            pixels, classes = read(content, owner, found.name, labels)
            images.append(pixels)
            targets.append(classes)
        sets[part] = ImageSet(torch.cat(images).view(-1, 3, 32, 32), torch.cat(targets).long(), names, found.name)
    return sets


def _read_binary(content: bytes, owner: str, name: str, labels: Labels) -> tuple[Tensor, Tensor]:
    """Pixels (N, 3072) and labels (N,) of a binary file."""
    label_bytes = 1 if name == "cifar10" else 2
    record = label_bytes + _PIXELS
    if len(content) == 0 or len(content) % record:
        raise ValueError(
            f"{owner} is damaged: it must be whole records of {record} bytes; found {len(content):,} bytes. Fetch it again."
        )
    rows = torch.frombuffer(bytearray(content), dtype=torch.uint8).view(-1, record)
    column = 1 if name == "cifar100" and labels == "fine" else 0
    return rows[:, label_bytes:], rows[:, column]


def _read_python(content: bytes, owner: str, name: str, labels: Labels) -> tuple[Tensor, Tensor]:
    """Pixels (N, 3072) and labels (N,) of a python batch."""
    batch = load_batch(content, owner)
    key = b"labels" if name == "cifar10" else f"{labels}_labels".encode()
    pixels, classes = batch.get(b"data"), batch.get(key)
    if not isinstance(pixels, ByteArray) or not isinstance(classes, list):
        raise ValueError(f"{owner} is not a batch of {name}: it must hold 'data' and '{key.decode()}'.")
    if pixels.shape != (len(classes), _PIXELS):
        raise ValueError(
            f"{owner} is damaged: {len(classes)} labels need data of shape ({len(classes)}, {_PIXELS}); found {pixels.shape}."
        )
    if not all(type(label) is int for label in classes):
        raise ValueError(f"{owner} is damaged: its labels are not all whole numbers.")
    return pixels.tensor(), torch.tensor(classes)
