// The heat-map: colours and letters as in MaDDash's view, hatched where values are stale, walked with the arrow keys.

import { at, duration, fill, make, of, value } from "./draw.js";
import { openLink } from "./links.js";

const GRADE = { "+": "good", o: "fair", "#": "poor", "?": "unknown", ".": "unchecked", " ": "own" };
let shown = null;
let cursor = null;

export function drawMesh(mesh) {
  shown = mesh;
  if (cursor && Math.max(...cursor) >= mesh.ends.length) cursor = null;
  paint();
  legend();
  const bad = mesh.worst.filter(([row, column]) => (mesh.zone === null ? mesh.bad[row][column] : mesh.grades[row][column] !== "+"));
  fill("worst", bad.map(([row, column]) => worst(row, column)), mesh.worst.length ? "every link is good" : "nothing is measured here");
  at("worst-title").textContent = mesh.zone === null ? `Worst between zones: ${mesh.metric}` : `Worst links in zone ${mesh.zone}: ${mesh.metric}`;
  say();
}

function paint() {
  const canvas = at("heat");
  const size = shown.ends.length;
  const ratio = window.devicePixelRatio || 1;
  const wide = Math.max(1, Math.round(canvas.clientWidth * ratio));
  const high = Math.max(1, Math.round(canvas.clientHeight * ratio));
  if (canvas.width !== wide) canvas.width = wide;
  if (canvas.height !== high) canvas.height = high;
  const context = canvas.getContext("2d");
  const style = getComputedStyle(document.documentElement);
  const colour = Object.fromEntries(Object.entries(GRADE).map(([letter, name]) => [letter, style.getPropertyValue(`--${name}`)]));
  context.clearRect(0, 0, canvas.width, canvas.height);
  const stepX = canvas.width / size;
  const stepY = canvas.height / size;
  const gap = Math.min(stepX, stepY) > 6 ? Math.max(1, ratio) : 0;
  const hatch = hatching(context, style.getPropertyValue("--panel"), ratio);
  for (let row = 0; row < size; row++) {
    for (let column = 0; column < size; column++) {
      const [x, y] = [column * stepX, row * stepY];
      context.fillStyle = colour[shown.grades[row][column]];
      context.fillRect(x, y, Math.max(stepX - gap, 0.5), Math.max(stepY - gap, 0.5));
      if (shown.stale[row][column] === "1") {
        context.fillStyle = hatch;
        context.fillRect(x, y, stepX - gap, stepY - gap);
      }
      if (shown.bad?.[row][column]) {  // a share of bad links: a bar along the foot of the cell, never less than a third of it
        const share = Math.max(shown.bad[row][column] / shown.pairs[row][column], 1 / 3);
        context.fillStyle = colour["#"];
        context.fillRect(x, y + (stepY - gap) * 0.82, (stepX - gap) * share, (stepY - gap) * 0.18);
      }
    }
  }
  if (stepX > 34 * ratio) names(context, style, stepX, stepY, ratio);
  if (cursor) {
    context.strokeStyle = style.getPropertyValue("--ink");
    context.lineWidth = 2 * ratio;
    context.strokeRect(cursor[1] * stepX, cursor[0] * stepY, stepX - gap, stepY - gap);
  }
}

function names(context, style, stepX, stepY, ratio) {
  context.font = `${12 * ratio}px system-ui, "DejaVu Sans", sans-serif`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  shown.ends.forEach((end, at) => {
    const own = shown.grades[at][at] === " ";
    context.fillStyle = own ? style.getPropertyValue("--soft") : "#06110e";
    context.fillText(end || "(no zone)", (at + 0.5) * stepX, (at + 0.5) * stepY, stepX - 6 * ratio);
  });
}

function hatching(context, colour, ratio) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = Math.round(5 * ratio);
  const pen = tile.getContext("2d");
  pen.strokeStyle = colour;
  pen.lineWidth = 1.3 * ratio;
  for (const shift of [-tile.width, 0, tile.width]) {
    pen.moveTo(shift, tile.height);
    pen.lineTo(shift + tile.width, 0);
  }
  pen.stroke();
  return context.createPattern(tile, "repeat");
}

function legend() {
  const { metric, good, poor, highest_is_best: high } = shown;
  const less = high ? `${value(metric, good)} and more` : `up to ${value(metric, good)}`;
  const more = high ? `below ${value(metric, poor)}` : `from ${value(metric, poor)}`;
  const words = [["good", less], ["fair", "between"], ["poor", more], ["unknown", "no value"], ["unchecked", "not measured"]];
  if (shown.soft_ttl_s !== null) words.push(["stale", `older than ${duration(shown.soft_ttl_s)}`]);
  const left = shown.of > shown.ends.length ? [make("li", {}, of(shown.ends.length, shown.of, shown.zone === null ? "zones" : "nodes"))] : [];
  fill("legend", [...words.map(([name, text]) => make("li", {}, make("i", { class: name }), text)), ...left]);
  at("heat").setAttribute("aria-label", `Heat-map of ${metric}, ${shown.zone === null ? "zone by zone" : `nodes of zone ${shown.zone}`}`);
}

function worst(row, column) {
  const [from, to] = [shown.ends[row], shown.ends[column]];
  if (shown.zone === null) return make("li", {}, make("span", {}, `${from} → ${to}`), make("span", {}, badOf(row, column)));
  const told = value(shown.metric, shown.values[row][column]);
  return make("li", {}, make("button", { class: "link", type: "button", onclick: () => openLink(from, to) }, `${from} → ${to}`), make("span", {}, told));
}

const badOf = (row, column) => `${shown.bad[row][column]} of ${shown.pairs[row][column]} links bad: ${shown.worst_at[row][column]}`;

function say() {
  if (!cursor) return void at("heat-cell").replaceChildren(make("span", { class: "none" }, "point at a cell, or walk with the arrow keys"));
  const [row, column] = cursor;
  const age = shown.ages_s[row][column];
  const words = [`${shown.ends[row]} → ${shown.ends[column]}: `];
  if (shown.grades[row][column] === " ") words.push("the same node");
  else words.push(`${shown.zone === null ? "median " : ""}${value(shown.metric, shown.values[row][column])}`);
  if (age !== null) words.push(`, ${duration(age)} old${shown.stale[row][column] === "1" ? " (stale)" : ""}`);
  if (shown.bad?.[row][column]) words.push(`, ${badOf(row, column)} (${value(shown.metric, shown.worst_values[row][column])})`);
  else if (shown.pairs?.[row][column]) words.push(`, ${shown.pairs[row][column]} links, none bad`);
  at("heat-cell").textContent = words.join("");
}

function move(row, column) {
  const last = shown.ends.length - 1;
  cursor = [Math.min(Math.max(row, 0), last), Math.min(Math.max(column, 0), last)];
  paint();
  say();
}

export function watchMesh(open) {
  const canvas = at("heat");
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (shown && step) {
      event.preventDefault();
      const [row, column] = cursor ?? [-step[0], -step[1]];
      move(row + step[0], column + step[1]);
    } else if (shown && event.key === "Enter" && cursor) choose(cursor, open);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (shown) move(...under(event));
  });
  canvas.addEventListener("click", (event) => {
    if (shown) choose(under(event), open);
  });
  new ResizeObserver(() => shown && paint()).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => shown && paint());
}

function choose([row, column], open) {
  if (shown.zone === null) open(shown.ends[row]);
  else if (row !== column) openLink(shown.ends[row], shown.ends[column]);
}

function under(event) {
  const box = at("heat").getBoundingClientRect();
  const size = shown.ends.length;
  return [Math.floor(((event.clientY - box.top) / box.height) * size), Math.floor(((event.clientX - box.left) / box.width) * size)];
}
