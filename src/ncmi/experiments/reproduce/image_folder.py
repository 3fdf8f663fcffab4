"""``write_image_folder``: a data set as PNG files, one folder a class, for what is to be read as ImageNet is."""

import os
import shutil
from pathlib import Path

from ncmi.data import ImageSet, load_data, stratified_subset


def write_image_folder(path: Path, name: str, train_size: int) -> None:
    """Write some training images and all test images of a set below ``path``, unless they are there: all or none of them.

    Args:
        path: gets the folders ``train`` and ``test``.
        name: of a set in memory, as ``cifar100``.
        train_size: training images, a stratified choice.
    """
    if path.is_dir():
        return
    data = load_data(name)
    train, test = data.train, data.test
    assert isinstance(train, ImageSet)
    assert isinstance(test, ImageSet)
    beside = path.with_name(f"{path.name}.partial")  # of a process that was killed
    shutil.rmtree(beside, ignore_errors=True)
    _write(beside / "train", train.subset(stratified_subset(train.targets, train_size, 0)))
    _write(beside / "test", test)
    os.replace(beside, path)


def _write(folder: Path, images: ImageSet) -> None:
    from PIL import Image

    for name in images.class_names:
        (folder / name).mkdir(parents=True)
    for index, (pixels, target) in enumerate(zip(images.images, images.targets.tolist(), strict=True)):
        picture = Image.fromarray(pixels.permute(1, 2, 0).squeeze(2).numpy())
        picture.save(folder / images.class_names[target] / f"{index:05}.png", compress_level=1)
