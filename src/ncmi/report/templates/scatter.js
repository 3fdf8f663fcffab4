// Features in the plane. Classes that are alike have hues that are alike; two paths a class, right and wrong decisions.
function drawScatter(figure, points, names, most = 20) {
  const side = 600, place = (value) => 14 + value * (side - 28);
  const color = (label) => `oklch(var(--class-light) 0.15 ${((360 * label) / names.length).toFixed(0)})`;
  const svg = picture(figure, side, side, "t-SNE of the features; arrow keys go from sample to sample");
  shape(svg, "rect", { class: "frame", x: 1, y: 1, width: side - 2, height: side - 2, rx: 6 });
  const groups = names.map((name, label) => {
    const own = points.filter((point) => point[2] === label), group = shape(svg, "g", {});
    const draw = (kind, chosen, sign) =>
      shape(group, "path", { class: kind, style: `stroke: ${color(label)}`, d: chosen.map((p) => `M${place(p[0]).toFixed(1)} ${place(p[1]).toFixed(1)}${sign}`).join("") });
    draw("right", own.filter((point) => point[3] === label), "h0");
    draw("wrong", own.filter((point) => point[3] !== label), "m-4-4l8 8m0-8l-8 8");
    return group;
  });
  if (names.length <= most) names.forEach((name, label) => {
    const own = points.filter((point) => point[2] === label);
    const median = (axis) => own.map((point) => point[axis]).sort((a, b) => a - b)[own.length >> 1];
    if (!own.length) return;
    const text = shape(svg, "text", { class: "label", y: Math.max(20, place(median(1)) + 5) }, name);
    const half = text.getBBox().width / 2 + 4;  // no name goes over the edge
    mark(text, { x: Math.min(side - half, Math.max(half, place(median(0)))) });
  });
  const cursor = shape(svg, "circle", { class: "cursor", r: 7, visibility: "hidden" });

  const select = document.createElement("select");
  select.append(new Option("all classes", ""), ...names.map((name, label) => new Option(name, label)));
  select.addEventListener("change", () => groups.forEach((group, label) => {
    group.toggleAttribute("data-dim", select.value !== "" && Number(select.value) !== label);
  }));
  figure.appendChild(document.createElement("label")).append("Show ", select);

  const shown = () => [...points.keys()].filter((i) => select.value === "" || points[i][2] === Number(select.value));
  explore(svg, {
    find(x, y) {
      const far = (i) => Math.hypot(place(points[i][0]) - x, place(points[i][1]) - y);
      const best = shown().reduce((a, b) => (a === null || far(b) < far(a) ? b : a), null);
      return best !== null && far(best) < 30 ? best : null;
    },
    move(current, key) {
      const order = shown(), step = key === "ArrowLeft" || key === "ArrowUp" ? -1 : 1;
      return order.length ? order[(order.indexOf(current) + step + order.length) % order.length] : null;
    },
    show(i) {
      mark(cursor, { visibility: i === null ? "hidden" : "visible" });
      if (i === null) return null;
      const [x, y, label, decided] = points[i];
      mark(cursor, { cx: place(x), cy: place(y) });
      const lines = [[color(label), names[label]]];
      if (decided !== label) lines.push([null, `decided as ${names[decided] ?? "a class that is not shown"}`]);
      return { x: place(x), y: place(y), cursor, lines };
    },
  });
}
