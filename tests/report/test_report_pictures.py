"""Pictures of separation and of classes: well formed, with every word, equal bytes for equal numbers; tables as CSV."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

from ncmi.report.class_map import draw_class_map
from ncmi.report.csv_table import write_rows
from ncmi.report.separation import draw_separation

pytest.importorskip("matplotlib", reason="matplotlib is not installed")


def words(path):
    ElementTree.parse(path)
    return set(re.findall(r"<!-- (.*?) -->", path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_separation(tmp_path, ending):
    panels = {"margin": [[0.1, 0.2, 0.3], [0.5]], "loss": [[1.0, 1.0], [1.0]]}
    paths = [tmp_path / f"{name}.{ending}" for name in ("one", "other")]
    for path in paths:
        draw_separation(panels, ("kept", "flipped"), path, "a title")
    assert paths[0].read_bytes() == paths[1].read_bytes()
    if ending == "svg":
        assert {"margin", "loss", "kept", "flipped", "a title"} <= words(paths[0])


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_class_map(tmp_path, ending):
    distances = [[0.0, 1.0, 2.0], [1.0, 0.0, 3.0], [2.0, 3.0, 0.0]]
    paths = [tmp_path / f"{name}.{ending}" for name in ("one", "other")]
    for path in paths:
        draw_class_map(distances, (2, 0, 1), ("ant", "bee", "cow"), path, "a title")
    assert paths[0].read_bytes() == paths[1].read_bytes()
    if ending == "svg":
        assert {"ant", "bee", "cow", "a title", "divergence between centroids, nats"} <= words(paths[0])


def test_refusals(tmp_path):
    with pytest.raises(ValueError, match=r"draw_class_map: the name must end in \.svg or \.png; got 'map\.gif'"):
        draw_class_map([[0.0]], (0,), ("a",), tmp_path / "map.gif")
    with pytest.raises(ValueError, match=r"draw_separation: the name must end in"):
        draw_separation({}, (), tmp_path / "map.gif")


def test_a_table(tmp_path):
    write_rows(tmp_path / "table.csv", ("name", "value"), [("a, b", 1 / 3), ("c", None), ("d", 7)])
    assert (tmp_path / "table.csv").read_text() == 'name,value\n"a, b",0.333333\nc,\nd,7\n'
