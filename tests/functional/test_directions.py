import pytest
import torch

from ncmi.functional import spread_directions


def largest_cosine(directions):
    return float((directions @ directions.T).fill_diagonal_(-1).max())


def random_directions(count, width):
    return torch.nn.functional.normalize(torch.randn(count, width), dim=1)


@pytest.mark.parametrize(("count", "width"), [(2, 2), (3, 8), (64, 64), (100, 512)])
def test_up_to_d_directions_are_orthonormal(count, width):
    directions = spread_directions(count, width)
    torch.testing.assert_close(directions @ directions.T, torch.eye(count), rtol=0, atol=2e-6)


@pytest.mark.parametrize(("count", "width"), [(3, 2), (4, 2), (13, 8), (100, 64), (128, 64)])
def test_up_to_2d_directions_have_no_positive_cosine(count, width):
    directions = spread_directions(count, width)
    assert directions.shape == (count, width)
    torch.testing.assert_close(directions.norm(dim=1), torch.ones(count))
    assert largest_cosine(directions) <= 1e-6


@pytest.mark.parametrize(("count", "width", "bar"), [(17, 8, 0.6), (60, 8, 0.85), (500, 32, 0.85), (600, 16, 0.85)])
def test_beyond_2d_directions_are_further_apart_than_random_ones(count, width, bar):
    directions = spread_directions(count, width)
    assert directions.shape == (count, width)
    torch.testing.assert_close(directions.norm(dim=1), torch.ones(count))
    assert largest_cosine(directions) < bar * min(largest_cosine(random_directions(count, width)) for _ in range(5))


def test_seven_directions_in_the_plane_are_nearly_a_heptagon():
    best = torch.cos(torch.tensor(2 * torch.pi / 7))
    assert largest_cosine(spread_directions(7, 2)) < float(best) + 0.1


def test_directions_come_from_the_global_generator():
    torch.manual_seed(3)
    first = spread_directions(5, 4)
    torch.manual_seed(3)
    assert torch.equal(first, spread_directions(5, 4))
    assert not torch.equal(first, spread_directions(5, 4))
