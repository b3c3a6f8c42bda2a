// The heat-map: MaDDash's colours, named in the legend, names on both axes, hatched where old; arrow keys walk in it.

import { at, duration, make, put, value } from "./draw.js";

export const GRADE = { "+": "good", o: "fair", "#": "poor", "?": "unknown", ".": "unchecked", " ": "own" };
const LEAST_PX = 10;  // of a cell
const FONT = '12px system-ui, "DejaVu Sans", sans-serif';
let shown = null;
let cursor = null;
let open = () => {};

export function drawMesh(mesh) {
  if (shown?.metric !== mesh.metric || shown?.zone !== mesh.zone) cursor = null;
  shown = mesh;
  if (cursor && Math.max(...cursor) >= mesh.ends.length) cursor = null;
  paint();
  legend();
  say();
}

// Names without the end that all have, such as a domain; long ones by their end, where they differ.
function short(ends) {
  const [first] = ends;
  const dot = first.indexOf(".");
  const common = dot > 0 && ends.every((end) => end.endsWith(first.slice(dot))) ? first.slice(dot) : "";
  return ends.map((end) => end.slice(0, end.length - common.length) || "(no zone)").map((end) => (end.length > 18 ? `…${end.slice(-17)}` : end));
}

function layout() {
  const canvas = at("heat");
  const context = canvas.getContext("2d");
  const size = shown.ends.length;
  const names = short(shown.ends);
  context.font = FONT;
  const edge = Math.ceil(Math.max(...names.map((name) => context.measureText(name).width))) + 12;  // left of the cells
  const box = canvas.parentElement.clientWidth;
  const step = Math.min(Math.max((box - edge) / size, LEAST_PX), Math.max(600 / size, 14));
  return { canvas, context, size, names, edge, top: step > 66 ? 22 : edge, step };
}

function paint() {
  const { canvas, context, size, names, edge, top, step } = layout();
  const [wide, high] = [Math.round(edge + step * size), Math.round(top + step * size)];
  const ratio = window.devicePixelRatio || 1;
  [canvas.width, canvas.height] = [wide * ratio, high * ratio];
  [canvas.style.width, canvas.style.height] = [`${wide}px`, `${high}px`];
  const style = getComputedStyle(document.documentElement);
  const colour = Object.fromEntries(Object.entries(GRADE).map(([letter, name]) => [letter, style.getPropertyValue(`--${name}`)]));
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, wide, high);
  const gap = step > 14 ? 1 : 0.5;
  context.strokeStyle = style.getPropertyValue("--panel");
  shown.ends.forEach((_, row) => shown.ends.forEach((_, column) => {
    const [x, y, part] = [edge + column * step, top + row * step, step - gap];
    context.fillStyle = colour[shown.grades[row][column]];
    context.fillRect(x, y, part, part);
    if (shown.stale[row][column] === "1") {
      context.beginPath();
      for (let at = 0; at < 2 * part; at += 5) {  // hatched, from edge to edge
        context.moveTo(x + Math.min(at, part), y + Math.max(at - part, 0));
        context.lineTo(x + Math.max(at - part, 0), y + Math.min(at, part));
      }
      context.stroke();
    }
    if (shown.bad?.[row][column]) {  // a share of bad links: a bar along the foot of the cell, never less than a third of it
      context.fillStyle = colour["#"];
      context.fillRect(x, y + part * 0.8, part * Math.max(shown.bad[row][column] / shown.pairs[row][column], 1 / 3), part * 0.2);
    }
    const number = shown.values[row][column];
    if (step > 66 && number !== null) label(context, value(shown.metric, number), x + part / 2, y + part / 2, "#06110e", "center", part - 6);
  }));
  const every = Math.ceil(13 / step);
  names.forEach((name, number) => {
    if (number % every) return;
    const here = cursor && (cursor[0] === number || cursor[1] === number);
    const ink = style.getPropertyValue(here ? "--ink" : "--soft");
    const middle = (number + 0.5) * step;
    label(context, name, edge - 6, top + middle, ink, "right");
    if (step > 66) return label(context, name, edge + middle, top - 10, ink, "center", step - 4);
    context.save();
    context.translate(edge + middle, top - 6);
    context.rotate(-Math.PI / 2);
    label(context, name, 0, 0, ink, "left");
    context.restore();
  });
  if (cursor) {
    context.strokeStyle = style.getPropertyValue("--ink");
    context.lineWidth = 2;
    context.strokeRect(edge + cursor[1] * step, top + cursor[0] * step, step - gap, step - gap);
  }
}

function label(context, text, x, y, ink, align, most) {
  context.font = FONT;
  context.fillStyle = ink;
  context.textAlign = align;
  context.textBaseline = "middle";
  context.fillText(text, x, y, most);
}

function legend() {
  const { metric, good, poor, highest_is_best: high, soft_ttl_s: old } = shown;
  const words = [
    ["good", `green: good, ${high ? `${value(metric, good)} and more` : `up to ${value(metric, good)}`}`], ["fair", "yellow: fair, between"],
    ["poor", `pink: bad, ${high ? `below ${value(metric, poor)}` : `from ${value(metric, poor)}`}`],
    ["unknown", "orange: measured, no value"], ["unchecked", "grey: not measured"],
  ];
  if (metric === "delay") words.push(["none", "a node is bad, too, at three times its zone's median"]);
  if (old !== null) words.push(["stale", `hatched: older than ${duration(old)}`]);
  if (shown.zone === null) words.push(["foot", "pink bar: so many of its links are bad"]);
  if (shown.of > shown.ends.length) words.push(["none", `the first ${shown.ends.length} of ${shown.of}`]);
  put(at("legend"), ...words.map(([name, text]) => make("li", {}, make("i", { class: name }), text)));
  at("heat").setAttribute("aria-label", `Heat-map of ${metric}, ${shown.zone === null ? "zone by zone" : `nodes of zone ${shown.zone}`}`);
}

function say() {
  if (!cursor) return void put(at("heat-cell"), "Row is from, column is to. Point at a cell, or walk with the arrow keys.");
  const [row, column] = cursor;
  const age = shown.ages_s[row][column];
  const words = [`${shown.ends[row]} → ${shown.ends[column]}: `];
  if (shown.grades[row][column] === " ") words.push("the same node");
  else words.push(`${shown.zone === null ? "median " : ""}${value(shown.metric, shown.values[row][column])}`);
  if (age !== null) words.push(`, ${duration(age)} old`);
  if (shown.bad?.[row][column]) words.push(`, ${shown.bad[row][column]} of ${shown.pairs[row][column]} links bad, the worst ${value(shown.metric, shown.worst_values[row][column])}`);
  else if (shown.pairs?.[row][column]) words.push(`, ${shown.pairs[row][column]} links, none bad`);
  put(at("heat-cell"), words.join(""));
}

function move(row, column) {
  const last = shown.ends.length - 1;
  cursor = [Math.min(Math.max(row, 0), last), Math.min(Math.max(column, 0), last)];
  paint();
  say();
}

export function watchHeat(opened) {
  open = opened;
  const canvas = at("heat");
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (shown && step) {
      event.preventDefault();
      const [row, column] = cursor ?? [-step[0], -step[1]];
      move(row + step[0], column + step[1]);
    } else if (shown && event.key === "Enter" && cursor) open(shown, ...cursor);
  });
  canvas.addEventListener("pointermove", (event) => under(event, move));
  canvas.addEventListener("click", (event) => under(event, (...cell) => open(shown, ...cell)));
  new ResizeObserver(() => shown && paint()).observe(canvas.parentElement);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => shown && paint());
}

function under(event, then) {
  if (!shown) return;
  const { edge, top, step, size } = layout();
  const box = at("heat").getBoundingClientRect();
  const [row, column] = [Math.floor((event.clientY - box.top - top) / step), Math.floor((event.clientX - box.left - edge) / step)];
  if (Math.min(row, column) >= 0 && Math.max(row, column) < size) then(row, column);
}
