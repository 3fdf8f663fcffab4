"""The map: a square for each patch in its place, colours that tell weights apart, equal input gives equal bytes."""

import itertools
import re
import xml.etree.ElementTree as ElementTree

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ncmi.report.attention_map import _log_start, draw_attention, smallest_spacing

pytest.importorskip("matplotlib", reason="matplotlib is not installed")
import matplotlib.image

PLACES = torch.tensor([[0, 0], [256, 0], [0, 256], [768, 512]])
YELLOW, PURPLE = (253, 231, 37), (68, 1, 84)  # the ends of the colour map


def texts(path):
    """Words of a picture: matplotlib writes each as a comment beside its outlines."""
    ElementTree.parse(path)  # whole and well formed
    return [" ".join(text.split()) for text in re.findall(r"<!--(.*?)-->", path.read_text(), re.DOTALL)]


def pixels(path):
    return (matplotlib.image.imread(path)[..., :3] * 255).round().astype(int)


def squares(path, color):
    """Rows and columns of the pixels of a colour, without those of the colour bar at the right."""
    image = pixels(path)
    rows, columns = (abs(image - color).max(axis=-1) <= 2).nonzero()
    seen = sorted(set(columns.tolist()))
    last = next((left for left, right in itertools.pairwise(seen) if right > left + 1), seen[-1])
    inside = columns <= last
    return rows[inside], columns[inside]


def test_the_heaviest_patch_is_where_its_coordinates_say_and_y_points_down(tmp_path):
    for heaviest, (right, lower) in [(0, (False, False)), (1, (True, False)), (2, (False, True)), (3, (True, True))]:
        weights = torch.full((4,), 0.1)
        weights[heaviest] = 0.7
        places = torch.tensor([[0, 0], [256, 0], [0, 256], [256, 256]])
        draw_attention(places, weights, tmp_path / "map.png")
        rows, columns = squares(tmp_path / "map.png", YELLOW)
        height, width, _ = pixels(tmp_path / "map.png").shape
        assert (columns.mean() > 0.45 * width) == right
        assert (rows.mean() > 0.5 * height) == lower
        sides = rows.max() - rows.min() + 1, columns.max() - columns.min() + 1
        assert abs(sides[0] - sides[1]) <= 1  # equal aspect
        assert len(rows) == sides[0] * sides[1]  # a whole square


def test_the_scale_is_linear_within_a_decade_and_logarithmic_beyond(tmp_path):
    path = tmp_path / "map.svg"
    draw_attention(PLACES, torch.tensor([0.1, 0.2, 0.3, 0.4]), path)
    assert "attention weight, linear scale" in texts(path)
    draw_attention(PLACES, torch.tensor([0.01, 0.2, 0.3, 0.49]), path)
    assert "attention weight, logarithmic scale" in texts(path)


def test_a_few_weights_next_to_zero_do_not_take_the_colours_from_the_others():
    weights = torch.cat([torch.full((4,), 1e-7), torch.linspace(1e-3, 1e-1, 96)]).double()
    assert _log_start(weights) == pytest.approx(float(weights.sort().values[5]))
    assert _log_start(torch.tensor([0.0] * 50 + [0.5, 0.5])) == pytest.approx(0.5e-8)
    assert _log_start(torch.tensor([0.0] + [0.1] * 50)) == pytest.approx(0.01)


def test_weights_of_zero_get_the_lowest_colour(tmp_path):
    draw_attention(PLACES, torch.tensor([0.0, 1e-9, 0.5, 0.5]), tmp_path / "map.png")
    rows, _ = squares(tmp_path / "map.png", PURPLE)
    assert len(rows)


@pytest.mark.parametrize("weights", [[1.0], [0.25] * 4, [0.0] * 4])
def test_equal_weights_and_a_single_patch(tmp_path, weights):
    draw_attention(PLACES[: len(weights)], torch.tensor(weights), tmp_path / "map.png")
    assert pixels(tmp_path / "map.png").std() > 0


def test_title_and_note_are_on_the_picture(tmp_path):
    path = tmp_path / "map.svg"
    draw_attention(PLACES, torch.tensor([0.1, 0.2, 0.3, 0.4]), path, "slide 1\nright", "coordinates are made up")
    assert {"slide 1", "right", "coordinates are made up", "x", "y"} <= set(texts(path))


def test_a_long_title_stays_inside(tmp_path):
    strip = torch.stack([torch.zeros(40), torch.arange(40) * 256.0], dim=1)
    path = tmp_path / "map.png"
    draw_attention(strip, torch.rand(40), path, "TCGA-78-7158-01Z-00-DX1." * 4, "a note with many words " * 8)
    image = pixels(path)
    for edge in (image[0], image[-1], image[:, 0], image[:, -1]):
        assert (edge == 255).all()


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_equal_input_gives_equal_bytes(tmp_path, ending):
    first, second = tmp_path / f"a.{ending}", tmp_path / f"b.{ending}"
    for path in (first, second):
        draw_attention(PLACES, torch.tensor([0.1, 0.2, 0.3, 0.4]), path, "slide", "note")
    assert first.read_bytes() == second.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == [first.name, second.name]


def test_many_patches_are_an_image_inside_an_svg(tmp_path):
    grid = torch.cartesian_prod(torch.arange(150), torch.arange(150)) * 256
    draw_attention(grid, torch.rand(len(grid)), tmp_path / "map.svg")
    assert "<image" in (tmp_path / "map.svg").read_text()
    assert (tmp_path / "map.svg").stat().st_size < 2_000_000


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=25))
def test_smallest_spacing_against_all_pairs(points):
    distances = [max(abs(a - c), abs(b - d)) for a, b in points for c, d in points if (a, b) != (c, d)]
    assert smallest_spacing(torch.tensor(points)) == (min(distances) if distances else 1)


def test_spacing_of_two_pieces_of_tissue_on_grids_of_their_own():
    grid = torch.cartesian_prod(torch.arange(5), torch.arange(7)) * 256
    assert smallest_spacing(torch.cat([grid, grid + torch.tensor([1301, 17])])) == 256
    assert smallest_spacing(torch.cat([grid, grid])) == 256  # patches that are there twice


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"path": "map.jpg"}, "must end in .svg or .png; got 'map.jpg'"),
        ({"coordinates": PLACES[:3]}, r"got \(3, 2\) and \(4,\)"),
        ({"coordinates": PLACES[:0], "weights": torch.ones(0)}, "N at least 1"),
        ({"coordinates": PLACES * torch.nan}, "coordinates must be finite"),
        ({"weights": torch.tensor([0.5, -0.5, 0.5, 0.5])}, "not negative; got -0.5"),
        ({"weights": torch.tensor([0.5, torch.nan, 0.5, 0.5])}, "got nan"),
        ({"patch_size": 0}, "patch_size must be positive and finite; got 0"),
    ],
)
def test_guards(tmp_path, settings, words):
    given = {"coordinates": PLACES, "weights": torch.ones(4), "path": "map.png", **settings}
    given["path"] = tmp_path / given["path"]
    with pytest.raises(ValueError, match=words):
        draw_attention(**given)
    assert not list(tmp_path.iterdir())
