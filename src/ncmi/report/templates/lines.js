// Curves of all runs over each other.
const hiddenRuns = new Set();

function drawLines(figure, chart) {
  const [width, height] = chart.square ? [420, 400] : [420, 260];
  const frame = { left: 46, right: width - 14, top: 8, bottom: height - 36 };
  const points = chart.series.flatMap((series) => series.points);
  const bounds = (values) => [Math.min(...values), Math.max(...values)];
  let [x0, x1] = chart.square ? [0, 100] : bounds(points.map((point) => point[0]));
  let [y0, y1] = chart.square ? [0, 100] : bounds(points.map((point) => point[1]));
  if (x0 === x1) [x0, x1] = [x0 - 1, x1 + 1];
  if (y0 === y1) [y0, y1] = chart.log ? [y0 / 2, y1 * 2] : [y0 - (Math.abs(y0) || 1) / 10, y1 + (Math.abs(y1) || 1) / 10];
  const scale = chart.log ? Math.log : (value) => value;
  const margin = chart.square ? 0 : 0.04 * (scale(y1) - scale(y0));
  const x = (value) => frame.left + ((value - x0) / (x1 - x0)) * (frame.right - frame.left);
  const y = (value) =>
    frame.bottom - ((scale(value) - scale(y0) + margin) / (scale(y1) - scale(y0) + 2 * margin)) * (frame.bottom - frame.top);

  const svg = picture(figure, width, height, `${chart.title}; arrow keys read the values`);
  for (const value of chart.log ? logTicks(y0, y1) : ticks(y0, y1, 5)) {
    shape(svg, "path", { class: "axis", d: `M${frame.left} ${y(value)}H${frame.right}` });
    shape(svg, "text", { x: frame.left - 6, y: y(value) + 4, "text-anchor": "end" }, number(value));
  }
  for (const value of ticks(x0, x1, 6).filter((value) => chart.square || Number.isInteger(value)))
    shape(svg, "text", { x: x(value), y: frame.bottom + 16, "text-anchor": "middle" }, number(value));
  shape(svg, "text", { x: (frame.left + frame.right) / 2, y: height - 4, "text-anchor": "middle" }, chart.x);
  if (chart.square) shape(svg, "path", { class: "guide", d: `M${x(0)} ${y(0)}L${x(100)} ${y(100)}` });

  const most = Math.max(...points.map((point) => point[2] ?? 1));
  const radius = (count) => (count ? 2 + 6 * Math.sqrt(count / most) : 3);
  for (const series of chart.series) {
    const group = shape(svg, "g", { class: "series", "data-series": series.run });
    const color = `var(--run-${series.run})`;
    const path = series.points.map(([a, b], i) => `${i ? "L" : "M"}${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join("");
    shape(group, "path", { d: path, style: `stroke: ${color}`, "stroke-dasharray": series.dashed ? "5 4" : "none" });
    if (chart.square || series.points.length < 3)
      for (const [a, b, n] of series.points)
        shape(group, "circle", { cx: x(a), cy: y(b), r: radius(n), style: `fill: ${color}` });
  }

  const places = [...new Set(points.map((point) => point[0]))].sort((a, b) => a - b);
  const rule = shape(svg, "path", { class: "guide", d: "" });
  const lines = (value) => chart.series.filter((series) => !hiddenRuns.has(series.run)).flatMap((series) => {
    const point = series.points.find((point) => point[0] === value);
    const name = data.runs[series.run] + (series.name ? `, ${series.name}` : "");
    const amount = point && number(point[1]) + (point.length > 2 ? ` (${point[2]} samples)` : "");
    return point ? [[`var(--run-${series.run})`, name, amount]] : [];
  });
  explore(svg, {
    find(at) {
      const value = x0 + ((at - frame.left) / (frame.right - frame.left)) * (x1 - x0);
      return places.reduce((best, place, i) => (Math.abs(place - value) < Math.abs(places[best] - value) ? i : best), 0);
    },
    move(place, key) {
      const step = key === "ArrowLeft" || key === "ArrowDown" ? -1 : 1;
      return place === null ? places.length - 1 : Math.min(places.length - 1, Math.max(0, place + step));
    },
    show(place) {
      rule.setAttribute("d", place === null ? "" : `M${x(places[place])} ${frame.top}V${frame.bottom}`);
      if (place === null) return null;
      return { x: x(places[place]), y: frame.top, lines: [[null, `${chart.x} ${number(places[place])}`], ...lines(places[place])] };
    },
  });
}
