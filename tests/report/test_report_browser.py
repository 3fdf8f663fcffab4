"""The page in a real Chromium, opened from disk: no error, no request, sorting, hover and keyboard, phone and dark mode."""

import pytest
from browsing import opened

from ncmi.report.page import write_report


@pytest.fixture(scope="module")
def address(runs, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_report([runs.ncmi, runs.ce, runs.old, runs.stopped], path)
    return path.as_uri()


def names(page):
    return page.locator("#summary table").first.locator("tbody th").all_inner_texts()


def test_it_opens_without_an_error_and_draws_every_chart(browser, address):
    with opened(browser, address) as page:
        assert page.title() == "digits · mlp – 4 runs"
        assert page.locator("#curves svg").count() == page.locator("#curves figure").count() >= 5
        assert page.locator("#calibration svg").count() == 1
        assert page.locator("#inside svg[tabindex]:visible").count() == 3
        assert page.get_by_text("Charts and sorting need JavaScript").is_hidden()
        assert page.locator("#inside .bars li:visible").count() == 10


def test_columns_sort_by_pointer_and_keyboard(browser, address):
    with opened(browser, address) as page:
        assert names(page) == ["ncmi", "ce", "old", "stopped"]
        head = page.locator("#summary thead th").first
        head.get_by_role("button").click()
        assert (names(page), head.get_attribute("aria-sort")) == (["ce", "ncmi", "old", "stopped"], "ascending")
        head.get_by_role("button").press("Enter")
        assert (names(page), head.get_attribute("aria-sort")) == (["stopped", "old", "ncmi", "ce"], "descending")
        accuracy = page.get_by_role("columnheader", name="test top-1, %").first
        for direction, place in (("descending", max), ("ascending", min)):
            accuracy.get_by_role("button").click()
            assert accuracy.get_attribute("aria-sort") == direction
            assert head.get_attribute("aria-sort") == "none"
            column = page.locator("#summary table").first.locator("tbody tr td:nth-child(2)")
            values = [float(value) for value in column.all_inner_texts()[:3]]
            assert values[0] == place(values)
            assert names(page)[-1] == "stopped", "what has no number comes last"


def test_hover_shows_the_values_of_all_runs_that_are_shown(browser, address):
    with opened(browser, address) as page:
        hover, chart = page.locator("#hover"), page.locator("#curves svg").first
        assert hover.is_hidden()
        chart.hover(position={"x": 5, "y": 100})
        assert hover.inner_text().startswith("epoch 1\n")
        assert hover.inner_text().count("validation") == 4
        box = chart.bounding_box()
        chart.hover(position={"x": box["width"] - 5, "y": 100})
        assert hover.inner_text().startswith("epoch 3\n")
        page.get_by_role("button", name="ncmi", exact=True).click()
        assert hover.is_hidden()
        chart.hover(position={"x": 5, "y": 100})
        assert "ncmi" not in hover.inner_text()
        assert page.locator('#curves [data-series="0"]:visible').count() == 0


def test_a_look_at_a_name_dims_the_other_runs(browser, address):
    with opened(browser, address) as page:
        name, dim = page.get_by_role("button", name="ce", exact=True), page.locator("#curves .series[data-dim]")
        count = page.locator("#curves .series").count()
        name.hover()
        assert dim.count() == 3 * count // 4
        name.click()
        assert dim.count() == 0, "a run that is hidden cannot stand out"
        page.mouse.move(0, 0)
        page.keyboard.press("Tab")
        assert dim.count() == 3 * count // 4, "the next name has the focus"


def test_charts_can_be_read_by_keyboard(browser, address):
    with opened(browser, address) as page:
        hover = page.locator("#hover")
        chart = page.locator("#curves svg").first
        chart.focus()
        chart.press("ArrowRight")
        assert hover.inner_text().startswith("epoch 3\n")
        chart.press("ArrowLeft")
        assert hover.inner_text().startswith("epoch 2\n")
        chart.press("Escape")
        assert hover.is_hidden()
        matrix = page.locator("figure[data-matrix=confusion] .shades:visible")
        matrix.focus()
        matrix.press("ArrowRight")
        assert ", right" in hover.inner_text()
        matrix.press("ArrowRight")
        assert " decided as " in hover.inner_text()
        points = page.locator("figure.scatter svg:visible")
        points.press("ArrowRight")
        assert hover.inner_text()


def test_focus_is_visible(browser, address):
    with opened(browser, address) as page:
        page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        stops = set()
        while True:
            page.keyboard.press("Tab")
            here = page.evaluate("[...document.querySelectorAll('*')].indexOf(document.activeElement)")
            if here in stops or page.evaluate("document.activeElement === document.body"):
                break
            stops.add(here)
            style = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert style != "none", page.evaluate("document.activeElement.outerHTML")
        assert len(stops) > 40, "links, columns, tables, runs, charts"


def test_the_matrix_says_what_is_under_the_pointer(browser, address):
    with opened(browser, address) as page:
        matrix = page.locator("figure[data-matrix=distances] .shades:visible")
        box = matrix.bounding_box()
        matrix.hover(position={"x": box["width"] - 8, "y": box["height"] / 2})
        assert page.locator("#hover").inner_text().strip().endswith("nats")


def test_another_run_can_be_looked_into(browser, address):
    with opened(browser, address) as page:
        assert page.locator("#inside h3:visible").inner_text() == "ncmi"
        page.locator("#which").select_option("ce")
        assert page.locator("#inside h3:visible").inner_text() == "ce"
        assert page.locator("#inside svg[tabindex]:visible").count() == 3
        choice = page.locator("figure.scatter select:visible")
        choice.select_option("3")
        assert page.locator("figure.scatter svg:visible g[data-dim]").count() == 9


@pytest.mark.parametrize("width", [320, 375, 768])
def test_a_phone_never_scrolls_the_page_sideways(browser, address, width):
    with opened(browser, address, width, has_touch=True) as page:
        page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth") == width
        page.locator("#curves svg").first.tap()
        box = page.locator("#hover").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width


def test_dark_mode_is_dark(browser, address):
    lightness = (
        "getComputedStyle(document.body).{}.match(/\\d+/g).slice(0, 3).reduce((sum, each) => sum + Number(each), 0) / 3"
    )
    for scheme in ("light", "dark"):
        with opened(browser, address, color_scheme=scheme) as page:
            ground, ink = (page.evaluate(lightness.format(name)) for name in ("backgroundColor", "color"))
            assert (ground > 200 and ink < 60) if scheme == "light" else (ground < 40 and ink > 200)


def test_tables_are_there_without_scripts(browser, address):
    with opened(browser, address, java_script_enabled=False) as page:
        assert page.get_by_text("Charts and sorting need JavaScript").is_visible()
        assert page.locator("#summary tbody tr").first.is_visible()
        assert page.locator(".inside:visible").count() == 2
