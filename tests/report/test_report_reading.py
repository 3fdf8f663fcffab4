"""The page read by a finger, by the keyboard alone, in the dark, and with many classes: in a real Chromium."""

import pytest
from browsing import opened
from made_outputs import made_outputs

from ncmi.report.page import render, write_report
from ncmi.report.records import RunRecord

NAMES = [f"class_{number:03d}" for number in range(99)] + ["a name with many more letters"]

# The contrast of two colours (WCAG 2.2).
COLORS = """
  const brush = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    brush.clearRect(0, 0, 1, 1);
    brush.fillStyle = color;
    brush.fillRect(0, 0, 1, 1);
    return [...brush.getImageData(0, 0, 1, 1).data];
  };
  const light = (color) => color.slice(0, 3).map((each) => each / 255)
    .map((each) => (each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4))
    .reduce((sum, each, i) => sum + each * [0.2126, 0.7152, 0.0722][i], 0);
  const contrast = (one, other) => {
    const [a, b] = [light(one), light(other)].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  };
"""

# The contrast of a number to its shade, for each shade of a matrix.
SHADES = f"""
() => {{
  {COLORS}
  const probe = document.body.appendChild(document.createElement("span"));
  return Array.from({{ length: 9 }}, (_, level) => {{
    probe.style = `color: var(--on-${{level}}); background: var(--level-${{level}})`;
    const style = getComputedStyle(probe);
    return contrast(rgba(style.color), rgba(style.backgroundColor));
  }});
}}
"""

# Every visible text with its contrast to the ground below it, the lowest first.
CONTRASTS = (
    f"() => {{ {COLORS}"
    + """
  const ground = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const color = rgba(getComputedStyle(each).backgroundColor);
      if (color[3] === 255) return color;
    }
  };
  const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.textContent.trim() || !element.checkVisibility({ opacityProperty: true })) continue;
    if (element.closest("script, style, select, .value")) continue;
    const style = getComputedStyle(element), color = rgba(element.closest("svg") ? style.fill : style.color);
    let opacity = 1;
    for (let each = element; each; each = each.parentElement) opacity *= Number(getComputedStyle(each).opacity);
    found.push([opacity * contrast(color, ground(element)), node.textContent.trim()]);
  }
  return found.sort((x, y) => x[0] - y[0]);
}
"""
)

# Names that begin before their picture or end after it.
CUT = """
(cells, [kind, start, end]) => [...cells.querySelectorAll(`.${kind} text`)].filter((text) => {
  const [own, all] = [text.getBoundingClientRect(), text.ownerSVGElement.getBoundingClientRect()];
  return own[start] < all[start] || own[end] > all[end];
}).map((text) => text.textContent)
"""


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "many.html"
    outputs = made_outputs(100, each=3, names=NAMES)
    path.write_text(render([RunRecord("many", None, {}, outputs=outputs)]), encoding="utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def alone(untested, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "alone.html"
    write_report([untested], path)
    return path.as_uri()


@pytest.fixture(scope="module")
def together(runs, untested, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "together.html"
    write_report([runs.ncmi, runs.ce, runs.stopped, untested], path)
    return path.as_uri()


@pytest.mark.parametrize("width", [390, 1200])
def test_the_names_of_a_hundred_classes_can_be_read(browser, many, width):
    with opened(browser, many, width) as page:
        cells = page.locator("figure[data-matrix=confusion] .cells")
        for kind in ("rows", "columns"):
            texts = cells.locator(f".{kind} text")
            assert sorted(texts.all_text_contents()) == sorted([*NAMES[:99], "a name with man…"])
            assert texts.first.evaluate("(text) => parseFloat(getComputedStyle(text).fontSize)") >= 9
            ends = ("left", "right") if kind == "rows" else ("top", "bottom")
            assert cells.evaluate(CUT, [kind, *ends]) == []
        assert page.evaluate("document.documentElement.scrollWidth") == width


def test_numbers_stand_in_cells_that_are_large_enough(browser, together, many):
    """A finger on a phone need not tap ten cells of a row."""
    with opened(browser, together, 390) as page:
        cells = page.locator("figure[data-matrix=confusion] .shades:visible")
        numbers = [int(text) for text in cells.locator(".value").all_text_contents()]
        samples = int(page.locator(".inside:visible > .quiet").inner_text().split()[0])
        assert sum(numbers) == samples, "every sample is in a cell"
    with opened(browser, many, 390) as page:
        assert page.locator("figure[data-matrix=confusion] .shades .value").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_numbers_have_contrast_to_every_shade(browser, together, scheme):
    with opened(browser, together, color_scheme=scheme) as page:
        found = page.evaluate(SHADES)
        assert len(found) == 9
        assert min(found) >= 4.5, found


def test_no_name_in_the_plane_goes_over_the_edge(browser, tmp_path):
    names = [f"a long name of class {number}" for number in range(3)]
    (tmp_path / "page.html").write_text(render([RunRecord("a", None, {}, outputs=made_outputs(3, names=names))]))
    with opened(browser, (tmp_path / "page.html").as_uri(), 390) as page:
        frame = page.locator("figure.scatter svg").bounding_box()
        boxes = [label.bounding_box() for label in page.locator("figure.scatter .label").all()]
        assert len(boxes) == 3
        assert all(box["x"] >= frame["x"] for box in boxes)
        assert all(box["x"] + box["width"] <= frame["x"] + frame["width"] for box in boxes)


def test_names_stay_while_a_large_matrix_is_scrolled(browser, many):
    with opened(browser, many, 390) as page:
        cells = page.locator("figure[data-matrix=distances] .cells")
        rows, columns = cells.locator(".rows"), cells.locator(".columns")
        before = (
            rows.bounding_box()["x"] - cells.bounding_box()["x"],
            columns.bounding_box()["y"] - cells.bounding_box()["y"],
        )
        cells.evaluate("(cells) => cells.scrollTo(500, 500)")
        after = (
            rows.bounding_box()["x"] - cells.bounding_box()["x"],
            columns.bounding_box()["y"] - cells.bounding_box()["y"],
        )
        assert cells.evaluate("(cells) => [cells.scrollLeft, cells.scrollTop]") == [500, 500]
        assert before == after


def test_the_keyboard_brings_cells_into_sight(browser, many):
    with opened(browser, many, 390) as page:
        cells = page.locator("figure[data-matrix=confusion] .cells")
        shades = cells.locator(".shades")
        for _ in range(40):
            shades.press("ArrowRight")
            shades.press("ArrowDown")
        frame, cursor = cells.bounding_box(), cells.locator(".cursor").bounding_box()
        names = cells.locator(".corner").bounding_box()
        assert names["x"] + names["width"] - 1 <= cursor["x"] <= frame["x"] + frame["width"]
        assert names["y"] + names["height"] - 1 <= cursor["y"] <= frame["y"] + frame["height"]
        assert page.locator("#hover").is_visible()


def test_labels_of_a_phone_are_as_large_as_those_of_a_desk(browser, together):
    with opened(browser, together, 390) as page:
        for text in (page.locator(".cells:visible .rows text").first, page.locator(".scatter .label:visible").first):
            assert text.evaluate("(text) => text.getBoundingClientRect().height") >= 12


def test_a_matrix_is_drawn_again_for_another_width(browser, together):
    with opened(browser, together, 1200) as page:
        shades = page.locator("figure[data-matrix=confusion] .shades:visible")
        wide = shades.bounding_box()["width"]
        page.set_viewport_size({"width": 390, "height": 800})
        page.wait_for_function(
            "(wide) => document.querySelector('.shades').getBoundingClientRect().width < wide", arg=wide
        )
        assert shades.count() == 1
        assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_a_finger_reads_values_and_puts_them_away(browser, together):
    with opened(browser, together, 390, has_touch=True) as page:
        hover, chart = page.locator("#hover"), page.locator("#curves svg").first
        chart.tap()
        assert hover.inner_text().startswith("epoch ")
        gap = "document.getElementById('hover').getBoundingClientRect().top - {}.getBoundingClientRect().top"
        measure = gap.format("document.querySelector('#curves svg')")
        before = page.evaluate(measure)
        page.evaluate("scrollBy(0, 60)")
        assert page.evaluate(measure) == pytest.approx(before, abs=1), "values stay beside their chart"
        page.locator("figure[data-matrix=confusion] .shades:visible").tap()
        assert "epoch" not in hover.inner_text()
        page.locator("h1").tap()
        assert hover.is_hidden()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_contrast(browser, together, scheme):
    with opened(browser, together, color_scheme=scheme) as page:
        page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        page.get_by_role("button", name="ce", exact=True).click()  # hidden runs have names too
        page.mouse.move(0, 0)
        found = page.evaluate(CONTRASTS)
        assert len(found) > 200
        assert found[0][0] >= 4.5, found[:5]
        page.evaluate("document.documentElement.style.setProperty('--soft', '#808080')")
        assert page.evaluate(CONTRASTS)[0][0] < 4.5, "the check sees a grey that is too weak"


def test_a_phone_shows_run_and_accuracy_side_by_side(browser, together):
    with opened(browser, together, 390) as page:
        table = page.locator("#summary table").first
        box = table.locator("tbody tr").first.locator("td").first.bounding_box()
        assert box["x"] + box["width"] <= 390
        assert table.locator("thead th").nth(1).inner_text().startswith("test top-1, %")


def test_one_run_has_nothing_to_choose(browser, alone):
    with opened(browser, alone, 390) as page:
        assert page.locator("[data-toggle]").count() == 0
        assert page.locator("#which").is_hidden()
        assert page.locator("#inside h3:visible").count() == 1
        assert "of the validation part" in page.locator("#inside").inner_text()
        assert "The data have no test part" in page.locator("#summary").inner_text()
        assert page.locator("#inside svg[tabindex]:visible").count() == 3
