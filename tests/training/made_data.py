"""Small data sets of random images in the layouts that recipes read."""

import torch
from data.official import cifar_records, images, write_idx
from PIL import Image

PER_CLASS = 4


def make_data(folder):
    """CIFAR-10, CIFAR-100 and Fashion-MNIST as their official files, and folders of images; ``folder`` itself."""
    make_cifar10(folder / "cifar-10-batches-bin")
    make_cifar100(folder / "cifar-100-binary")
    labels = [index % 10 for index in range(80)]
    write_idx(
        folder / "fashion-mnist",
        (images(80, channels=1, size=28), labels),
        (images(20, channels=1, size=28, seed=1), labels[:20]),
    )
    make_images(folder / "images")
    return folder


def make_cifar10(folder):
    folder.mkdir(parents=True)
    for number in range(1, 6):
        labels = [index % 10 for index in range(20)]
        (folder / f"data_batch_{number}.bin").write_bytes(cifar_records(images(20, seed=number), labels))
    (folder / "test_batch.bin").write_bytes(cifar_records(images(20), [index % 10 for index in range(20)]))


def make_cifar100(folder):
    folder.mkdir(parents=True)
    for name, count in {"train": 100 * PER_CLASS, "test": 100}.items():
        fine = [index % 100 for index in range(count)]
        (folder / f"{name}.bin").write_bytes(cifar_records(images(count), [label // 5 for label in fine], fine))


def make_images(folder):
    """Images of other sizes than any network takes, in three classes."""
    generator = torch.Generator().manual_seed(0)
    for part, count in {"train": 8, "val": 2}.items():
        for name in ("cats", "dogs", "owls"):
            (folder / part / name).mkdir(parents=True)
            for number in range(count):
                pixels = torch.randint(256, (44, 50, 3), dtype=torch.uint8, generator=generator)
                Image.fromarray(pixels.numpy()).save(folder / part / name / f"{number}.png")
