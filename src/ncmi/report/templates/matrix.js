// A matrix over classes: one path a shade, so that a hundred classes are nine shapes and not ten thousand.
function drawMatrix(figure, matrix, names, describe) {
  const size = names.length, named = size <= 24;
  const longest = Math.min(13, Math.max(...names.map((name) => name.length))), tilted = longest > 3;
  const left = named ? 20 + 7 * longest : 4, top = named ? (tilted ? 20 + 6 * longest : 24) : 4, right = named && tilted ? 3 * longest : 4;
  const cell = (600 - left - right) / size;
  const svg = picture(figure, 600, top + cell * size + 4, `${figure.textContent.trim()}; arrow keys go from cell to cell`);
  shape(svg, "rect", { class: "frame", x: left, y: top, width: cell * size, height: cell * size });
  const paths = Array.from({ length: data.levels }, () => []);
  [...matrix.levels].forEach((level, i) => {
    const x = left + (i % size) * cell, y = top + Math.floor(i / size) * cell;
    paths[level].push(`M${x.toFixed(1)} ${y.toFixed(1)}h${cell.toFixed(2)}v${cell.toFixed(2)}h-${cell.toFixed(2)}z`);
  });
  for (let level = 1; level < data.levels; level++)
    shape(svg, "path", { d: paths[level].join(""), style: `fill: var(--level-${level})` });
  if (named) names.forEach((name, i) => {
    const short = name.length > 13 ? `${name.slice(0, 12)}…` : name, middle = (i + 0.5) * cell;
    shape(svg, "text", { x: left - 6, y: top + middle + 4, "text-anchor": "end" }, short);
    shape(svg, "text", { transform: `translate(${left + middle + (tilted ? 4 : 0)} ${top - 6}) rotate(-${tilted ? 60 : 0})`, "text-anchor": tilted ? "start" : "middle" }, short);
  });
  const cursor = shape(svg, "rect", { class: "cursor", width: cell, height: cell, visibility: "hidden" });
  const inside = (value) => Math.min(size - 1, Math.max(0, value));
  explore(svg, {
    find(x, y) {
      const column = Math.floor((x - left) / cell), row = Math.floor((y - top) / cell);
      return column === inside(column) && row === inside(row) ? { row, column } : null;
    },
    move(place, key) {
      if (place === null) return { row: 0, column: 0 };
      const row = place.row + (key === "ArrowDown") - (key === "ArrowUp");
      const column = place.column + (key === "ArrowRight") - (key === "ArrowLeft");
      return { row: inside(row), column: inside(column) };
    },
    show(place) {
      mark(cursor, { visibility: place ? "visible" : "hidden" });
      if (!place) return null;
      const x = left + place.column * cell, y = top + place.row * cell;
      mark(cursor, { x, y });
      const value = matrix.values[place.row * size + place.column];
      return { x: x + cell, y: y + cell, lines: describe(names[place.row], names[place.column], value) };
    },
  });
}
