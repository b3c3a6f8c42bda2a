// The map of nodes: a square a node in its zone, coloured by the gang that has most pods on it. A hue is never alone: a
// square under the pointer, or with the focus, says its node and gang below the map, and a click explains the gang.

import { at, counted, make } from "./draw.js";

const HUES = 12;
const PLAIN = { "-1": ["free", "free"], "-2": ["others", "other pods"], "-3": ["off", "takes no pods"] };
let zones = [];
let use = { gangs: [], cells: [], several: {} };

export function drawNodes(section) {
  zones = section.zones;
  const shown = zones.reduce((sum, [, names]) => sum + names.length, 0);
  at("map-of").textContent = shown < section.of ? `${shown} of ${section.of} nodes` : `${section.of} nodes`;
  let number = 0;
  at("map-zones").replaceChildren(...zones.map(([zone, names]) => make("div", { class: "map-zone" },
    make("b", {}, zone || "(no zone)"),
    make("div", { class: "cells" }, ...names.map((name) => make("i", { "data-node": name, "data-at": String(number++) }))))));
  paint();
}

export function drawUse(section) {
  use = section;
  paint();
}

function paint() {
  for (const cell of document.querySelectorAll("#map-zones i")) {
    const gang = use.cells[Number(cell.dataset.at)];
    if (gang === undefined) continue;
    cell.className = gang < 0 ? PLAIN[gang][0] : `hue${gang % HUES}`;
  }
  const free = use.cells.filter((one) => one === -1).length;
  say(`${free} free, ${counted(use.gangs.length, "gangs")} on nodes`);
}

const say = (text) => { at("map-cell").textContent = text; };

export function watchNodes(explain) {
  const cellOf = (event) => event.target.closest?.("i[data-node]");
  at("map-zones").addEventListener("pointermove", (event) => {
    const cell = cellOf(event);
    if (cell) say(words(cell));
  });
  at("map-zones").addEventListener("click", (event) => {
    const gang = use.gangs[use.cells[Number(cellOf(event)?.dataset.at)]];
    if (gang) explain(gang);
  });
}

function words(cell) {
  const number = Number(cell.dataset.at);
  const gang = use.cells[number];
  const more = use.several[number] ? ` and ${use.several[number]} more gangs` : "";
  return `${cell.dataset.node}: ${gang === undefined ? "" : gang < 0 ? PLAIN[gang][1] : use.gangs[gang] + more}`;
}
