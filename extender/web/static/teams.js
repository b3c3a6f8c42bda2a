// Namespaces: how long they wait, and what they have.

import { amount, at, fill, make, named } from "./draw.js";
import { tick } from "./panels.js";

export function drawTeams({ resource, total, rows }) {
  at("teams-has").textContent = named(resource);
  at("teams-of").textContent = total ? `of ${amount(resource, total)} ${named(resource)}` : "";
  fill("team-rows", rows.map((row) => team(row, resource)));
  tick();
}

function team(row, resource) {
  return make("tr", {}, make("td", {}, row.namespace), make("td", { class: "n" }, row.waiting || ""),
    make("td", { class: "n" }, row.since_s === null ? "" : make("span", { "data-since": row.since_s })),
    make("td", { class: "n" }, row.running || ""), make("td", { class: "n" }, amount(resource, row.has)));
}
