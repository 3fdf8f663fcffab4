"""Views: random numbers of their own, in memory and from files, equal for equal keys."""

import torch

from ncmi.data import Augment, BatchViews, ImageViews, Normalize


def images():
    return torch.randint(256, (6, 3, 8, 8), dtype=torch.uint8), torch.arange(6)


def test_views_differ_from_each_other_and_over_epochs():
    augment = Augment((0.5,) * 3, (0.5,) * 3, crop=3)
    views = BatchViews(augment, 2)
    batch, indices = images()
    first, second = views(batch, indices, 0, 5), views(batch, indices, 1, 5)
    assert first.shape == (6, 2, 3, 8, 8)
    flat = [first[:, 0], first[:, 1], second[:, 0], second[:, 1]]
    assert all(not torch.equal(flat[i], flat[j]) for i in range(4) for j in range(i))
    assert torch.equal(first, views(batch, indices, 0, 5))
    assert torch.equal(first[2:4], views(batch[2:4], indices[2:4], 0, 5))


def test_views_of_files_are_crops_with_keys_of_their_own():
    def crop(image, index, epoch, seed):
        return torch.full((3, 2, 2), 10 * epoch + index, dtype=torch.uint8) + image

    views = ImageViews(crop, 2)
    assert views(1, 3, 4, 0).flatten(1)[:, 0].tolist() == [84, 94]
    batch = torch.stack([views(0, index, 0, 0) for index in range(3)])
    normalized = BatchViews(Normalize((0.5,) * 3, (0.5,) * 3), 2)(batch, torch.arange(3), 0, 0)
    assert normalized.shape == (3, 2, 3, 2, 2)
    torch.testing.assert_close(normalized[2, 1], Normalize((0.5,) * 3, (0.5,) * 3)(batch[2:, 1])[0])
