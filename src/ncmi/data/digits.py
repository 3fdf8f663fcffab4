"""scikit-learn's digits: 1,797 grey images of 8×8 pixels, at hand wherever scikit-learn is.

From the UCI optical recognition of handwritten digits (Alpaydin and Kaynak 1998).
"""

import torch

from ncmi.data.images import ImageSet
from ncmi.data.splits import split_off

TEST_COUNT = 360  # a fifth, stratified; always the same images


def digits() -> dict[str, ImageSet]:
    """The training part (1,437 images) and the test part (360), pixels 0…16 spread over 0…255.

    >>> parts = digits()
    >>> len(parts["train"]), len(parts["test"]), parts["train"].image_shape
    (1437, 360, (1, 8, 8))
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ImportError(
            "digits: this data set comes with scikit-learn, which is not installed. Install scikit-learn, or choose "
            "another data set."
        ) from error
    pixels, labels = load_digits(return_X_y=True)
    images = (torch.from_numpy(pixels) * (255 / 16)).round().to(torch.uint8).view(-1, 1, 8, 8)
    everything = ImageSet(images, torch.from_numpy(labels).long(), tuple(map(str, range(10))), "digits")
    train, test = split_off(everything.targets, TEST_COUNT, seed=0)
    return {"train": everything.subset(train), "test": everything.subset(test)}
