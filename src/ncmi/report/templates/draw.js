"use strict";
// Shapes, numbers, axes, and one way to look closer at every chart: by pointer, or by keyboard.
const data = JSON.parse(document.getElementById("data").textContent);
const hover = document.getElementById("hover");

function mark(element, attributes) {
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
}

function shape(parent, name, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  mark(element, attributes);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}

function picture(figure, width, height, label) {
  return shape(figure, "svg", { viewBox: `0 0 ${width} ${height}`, tabindex: 0, role: "img", "aria-label": label });
}

const number = (value) => (value === null ? "–" : String(Number(value.toPrecision(4))));

// Round numbers between low and high: 1, 2 or 5 times a power of ten.
function ticks(low, high, count) {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) found.push(i * step);
  return found;
}

function logTicks(low, high) {
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++)
    for (const factor of high / low > 200 ? [1] : [1, 2, 5]) found.push(factor * 10 ** power);
  return found.filter((value) => value >= low && value <= high);
}

// Lines are [colour or nothing, text, value or nothing].
function say(all, x, y, most = 20) {
  const lines = all.length > most ? [...all.slice(0, most), [null, `and ${all.length - most} more`]] : all;
  hover.replaceChildren(...lines.map(([color, text, value]) => {
    const line = document.createElement("div");
    if (color) line.append(Object.assign(document.createElement("span"), { className: "swatch", style: `background: ${color}` }));
    line.append(text);
    if (value !== undefined) line.append(Object.assign(document.createElement("b"), { textContent: value }));
    return line;
  }));
  const { width, height } = hover.getBoundingClientRect();
  const left = x + 16 + width > innerWidth - 8 ? x - 16 - width : x + 16;
  const top = y + 16 + height > innerHeight - 8 ? y - 16 - height : y + 16;
  // Beside what it is about, also when the page is scrolled afterwards.
  hover.style.transform = `translate(${Math.max(8, left) + scrollX}px, ${Math.max(8, top) + scrollY}px)`;
}

// find(x, y) gives the place under a point of the picture, move(place, key) the next one, show(place) marks it and returns
// where it is, what to say and, by the keyboard, what to bring into sight; show(null) takes the mark away.
function explore(svg, { find, move, show }) {
  let place = null;
  const look = (next, pointer) => {
    place = next;
    const found = show(place);
    hover.hidden = !found;
    if (!found) return;
    if (!pointer) found.cursor?.scrollIntoView({ block: "nearest", inline: "nearest" });
    const at = pointer ?? new DOMPoint(found.x, found.y).matrixTransform(svg.getScreenCTM());
    say(found.lines, at.x, at.y);
  };
  const under = (event) => {
    const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    look(find(x, y), { x: event.clientX, y: event.clientY });
  };
  svg.addEventListener("pointermove", under);
  svg.addEventListener("pointerdown", under);
  svg.addEventListener("pointerleave", (event) => event.pointerType === "touch" || look(null));  // a finger leaves when it lifts
  svg.addEventListener("blur", () => look(null));
  // Before any other chart answers: not every browser moves the focus to what a finger touches.
  document.addEventListener("pointerdown", (event) => place === null || svg.contains(event.target) || look(null), true);
  svg.addEventListener("keydown", (event) => {
    if (event.key === "Escape") look(null);
    else if (event.key.startsWith("Arrow")) { event.preventDefault(); look(move(place, event.key)); }
  });
}
