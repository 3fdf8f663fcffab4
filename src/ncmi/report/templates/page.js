// Tables that sort, runs that can be hidden, and the charts in their places.
document.getElementById("unscripted").hidden = true;
function sortTable(table, column, direction) {
  const compare = (a, b) => {
    const [x, y] = [a, b].map((row) => row.cells[column].dataset.value);
    if (x === undefined || y === undefined) return (x === undefined) - (y === undefined);
    return direction * (isNaN(x) || isNaN(y) ? x.localeCompare(y, undefined, { numeric: true }) : x - y);
  };
  table.tBodies[0].append(...[...table.tBodies[0].rows].sort(compare));
}

// Numbers start with the largest, words with the first.
for (const table of document.querySelectorAll("table.sortable"))
  table.querySelectorAll("thead th").forEach((head, column, heads) => {
    head.querySelector("button").addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === (head.classList.contains("number") ? "none" : "ascending");
      heads.forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      sortTable(table, column, down ? -1 : 1);
    });
  });

// A click hides a run or brings it back; a look at its name, by pointer or focus, dims the others.
for (const button of document.querySelectorAll("[data-toggle]")) {
  button.addEventListener("click", () => {
    const run = Number(button.dataset.toggle), shown = button.getAttribute("aria-pressed") === "false";
    button.setAttribute("aria-pressed", shown);
    shown ? hiddenRuns.delete(run) : hiddenRuns.add(run);
    document.querySelectorAll(`[data-series="${run}"]`).forEach((series) => series.toggleAttribute("data-off", !shown));
  });
  for (const kind of ["click", "pointerenter", "pointerleave", "focus", "blur"]) button.addEventListener(kind, () => {
    const chosen = button.matches(":hover, :focus-visible") && button.getAttribute("aria-pressed") === "true";
    for (const series of document.querySelectorAll("[data-series]"))
      series.toggleAttribute("data-dim", chosen && series.dataset.series !== button.dataset.toggle);
  });
}

for (const figure of document.querySelectorAll("figure.lines"))
  drawLines(figure, figure.dataset.chart === "calibration" ? data.calibration : data.charts[figure.dataset.chart]);

const describe = {
  confusion: (row, column, value) => [[null, row === column ? `${row}, right` : `${row} decided as ${column}`, value]],
  distances: (row, column, value) => [[null, `${row} – ${column}`, `${number(value)} nats`]],
};

function drawInside(section) {
  const { names, points, ...matrices } = data.insides[section.dataset.inside];
  for (const figure of section.querySelectorAll("figure.matrix")) {
    let width = 0;
    const draw = () => {
      if (!figure.clientWidth || figure.clientWidth === width) return;
      width = figure.clientWidth;
      figure.querySelector(".cells")?.remove();
      drawMatrix(figure, matrices[figure.dataset.matrix], names, describe[figure.dataset.matrix]);
    };
    draw();
    new ResizeObserver(draw).observe(figure);  // a phone that is turned, a window that is made larger
  }
  if (points) drawScatter(section.querySelector("figure.scatter"), points, names);
}

function showInside() {
  for (const section of document.querySelectorAll("[data-inside]")) {
    section.hidden = section.dataset.inside !== which.value;
    if (!section.hidden && !section.querySelector("svg")) drawInside(section);
  }
}
const which = document.getElementById("which");
if (which) { which.addEventListener("change", showInside); showInside(); }
