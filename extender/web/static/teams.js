// Namespaces: how long they wait and what they have, now and over the last two hours.

import { amount, at, fill, make, named } from "./draw.js";
import { curve } from "./links.js";
import { tick } from "./panels.js";

export function drawTeams({ resource, total, rows }) {
  at("teams-has").textContent = named(resource);
  at("teams-of").textContent = total ? `of ${amount(resource, total)} ${named(resource)}` : "";
  const longest = Math.max(1, ...rows.flatMap((row) => row.history.map(([wait]) => wait)));
  fill("team-rows", rows.map((row) => team(row, resource, longest, total)));
  tick();
}

function team(row, resource, longest, total) {
  const count = row.history.length;
  const across = (index) => (count < 2 ? 1 : index / (count - 1));
  const waits = row.history.map(([wait], index) => [across(index), wait / longest]);
  const has = row.history.map(([, used], index) => [across(index), total ? used / total : 0]);
  const drawn = make("span", { class: "spark" });
  if (count > 1) {
    const picture = curve(waits, 90, 20);
    const other = curve([[0, 0], ...has, [1, 0]], 90, 20).firstChild;
    other.setAttribute("class", "area");
    picture.prepend(other);
    drawn.append(picture);
  }
  return make("tr", {}, make("td", {}, row.namespace), make("td", { class: "n" }, row.waiting || ""),
    make("td", { class: "n" }, row.since_s === null ? "" : make("span", { "data-since": row.since_s })),
    make("td", { class: "n" }, row.running || ""), make("td", { class: "n" }, amount(resource, row.has)), make("td", {}, drawn));
}
