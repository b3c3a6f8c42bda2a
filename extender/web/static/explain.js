// Why a gang is where it is, asked of /v1/explain when somebody opens it.

import { at, make, value } from "./draw.js";
import { get } from "./poll.js";

export async function explain(gang) {
  const dialog = at("explain");
  at("explain-title").textContent = gang;
  at("explain-body").replaceChildren(make("p", {}, "asking"));
  if (!dialog.open) dialog.showModal();
  try {
    const found = await (await get(`/v1/explain/${gang.split("/").map(encodeURIComponent).join("/")}`)).json();
    at("explain-body").replaceChildren(...describe(found));
  } catch (error) {
    at("explain-body").replaceChildren(make("p", { class: "lead" }, `It cannot be said now: ${error.message}`));
  }
}

function describe(found) {
  const placed = found.zone ? ` in zone ${found.zone}` : "";
  const points = found.score ?? found.network?.score ?? null;
  const score = points === null ? "" : `, network ${Math.round(points)} of 100`;
  const rank = found.rank ? `, number ${found.rank} in the queue` : "";
  const parts = [make("p", { class: "lead" }, `${found.state}${placed}${score}${rank}`)];
  const cause = found.cause;
  if (cause) parts.push(make("p", {}, make("b", {}, cause.reason), `: ${[cause.message, cause.suggestion].filter(Boolean).join(" ")}`));
  if (found.reason) parts.push(make("p", {}, [found.reason, found.detail].filter(Boolean).join(": ")));
  if (found.expected_start) parts.push(make("p", {}, found.expected_start.text));
  const notes = [...found.notes, ...found.problems, found.repair].filter(Boolean);
  if (notes.length) parts.push(heading("To know"), list(notes));
  parts.push(heading("Zones"), table(["zone", "room", "what is short", "network", "distance"], found.zones.map(zone)));
  const { exist, needed, on_nodes: on, held, missing } = found.counts;
  parts.push(heading(`Members: ${exist} of ${needed} needed exist, ${on} on nodes, ${held} held at bind, ${missing} missing`));
  parts.push(table(["pod", "role", "state", "node", "why"], found.members.map((one) => [one.pod, one.role, one.state, one.node, one.why])));
  const worst = found.network?.worst;
  if (worst) parts.push(make("p", {}, `Worst link: ${worst.source} → ${worst.target}, ${Math.round(worst.points)} of 100 points`));
  return parts;
}

const heading = (text) => make("h3", {}, text);
const list = (lines) => make("ul", {}, ...lines.map((line) => make("li", {}, line)));

function zone(one) {
  const short = one.short.map(({ resource, amount, nodes }) => `${amount} ${resource} on ${Object.keys(nodes).join(", ")}`);
  const room = one.allowed ? `${one.room} of ${one.wanted}` : "not allowed";
  const score = one.score === null ? "" : `${Math.round(one.score)} of 100`;
  return [one.zone || "(no zone)", room, short.join("; "), score, one.distance_ms === null ? "" : value("delay", one.distance_ms)];
}

function table(heads, rows) {
  return make("div", { class: "scroll" }, make("table", {},
    make("thead", {}, make("tr", {}, ...heads.map((head) => make("th", { scope: "col" }, head)))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((cell) => make("td", {}, String(cell ?? ""))))))));
}
