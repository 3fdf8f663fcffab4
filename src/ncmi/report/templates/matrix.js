// A matrix over classes, drawn for the width it has: one path a shade, so that a hundred classes are nine shapes and not ten
// thousand. Where cells that fit would be too small for their names, the matrix is larger than its frame, and the names stay.
const pen = document.createElement("canvas").getContext("2d");

function drawMatrix(figure, matrix, names, describe) {
  const room = figure.clientWidth - 2, size = names.length, least = innerWidth > 760 ? 10 : 13;
  const short = names.map((name) => (name.length > 16 ? `${name.slice(0, 15)}…` : name));
  const longest = (font) => {
    pen.font = `${font}px ${getComputedStyle(figure).fontFamily}`;
    return 12 + Math.max(...short.map((name) => pen.measureText(name).width));
  };
  const font = room - longest(12) >= 13 * size ? 12 : least - 1, left = longest(font);
  const cell = Math.min(120, Math.max(least, (room - left) / size)), all = cell * size;
  const tilted = left > cell, top = tilted ? left : 24;
  const frame = figure.appendChild(Object.assign(document.createElement("div"), { className: "cells", style: `--left: ${left}px; --top: ${top}px` }));
  const part = (kind, width, height) => shape(frame, "svg", { class: kind, width, height, style: `font-size: ${font}px` });
  part("corner", left, top);
  const [columns, rows, svg] = [part("columns", all, top), part("rows", left, all), part("shades", all, all)];
  const label = figure.querySelector("figcaption").textContent.trim();
  mark(svg, { tabindex: 0, role: "img", "aria-label": `${label}; arrow keys go from cell to cell` });
  mark(rows, { "aria-hidden": true });
  mark(columns, { "aria-hidden": true });
  const paths = Array.from({ length: data.levels }, () => []);
  [...matrix.levels].forEach((level, i) => {
    const x = (i % size) * cell, y = Math.floor(i / size) * cell;
    paths[level].push(`M${x.toFixed(1)} ${y.toFixed(1)}h${cell.toFixed(2)}v${cell.toFixed(2)}h-${cell.toFixed(2)}z`);
  });
  for (let level = 1; level < data.levels; level++)
    shape(svg, "path", { d: paths[level].join(""), style: `fill: var(--level-${level})` });
  short.forEach((name, i) => {
    const middle = (i + 0.5) * cell, low = 0.35 * font;
    shape(rows, "text", { x: left - 6, y: middle + low, "text-anchor": "end" }, name);
    shape(columns, "text", { transform: tilted ? `translate(${middle + low} ${top - 6}) rotate(-90)` : `translate(${middle} ${top - 6})`, "text-anchor": tilted ? "start" : "middle" }, name);
  });
  // Numbers, where all of them fit: no need to look closer at each.
  const texts = matrix.values.map((value) => (value ? String(Number(value.toPrecision(3))) : ""));
  pen.font = `${font}px ${getComputedStyle(figure).fontFamily}`;
  if (Math.max(...texts.map((text) => pen.measureText(text).width)) <= cell - 4 && cell > 1.4 * font) texts.forEach((text, i) => {
    const x = ((i % size) + 0.5) * cell, y = (Math.floor(i / size) + 0.5) * cell + 0.35 * font;
    if (text) shape(svg, "text", { class: "value", x, y, "text-anchor": "middle", style: `fill: var(--on-${matrix.levels[i]})` }, text);
  });
  const cursor = shape(svg, "rect", { class: "cursor", width: cell, height: cell, visibility: "hidden" });
  const inside = (value) => Math.min(size - 1, Math.max(0, value));
  explore(svg, {
    find: (x, y) => ({ row: inside(Math.floor(y / cell)), column: inside(Math.floor(x / cell)) }),
    move(place, key) {
      if (place === null) return { row: 0, column: 0 };
      const row = place.row + (key === "ArrowDown") - (key === "ArrowUp");
      const column = place.column + (key === "ArrowRight") - (key === "ArrowLeft");
      return { row: inside(row), column: inside(column) };
    },
    show(place) {
      mark(cursor, { visibility: place ? "visible" : "hidden" });
      if (!place) return null;
      const x = place.column * cell, y = place.row * cell;
      mark(cursor, { x, y });
      const value = matrix.values[place.row * size + place.column];
      return { x: x + cell, y: y + cell, cursor, lines: describe(names[place.row], names[place.column], value) };
    },
  });
}
