// Suspect nodes, and one link: both directions as they are, and how it was over the last two hours.

import { at, counted, duration, fill, make, value } from "./draw.js";
import { get } from "./poll.js";

const big = new Intl.NumberFormat("en");

export function drawSuspects(rows) {
  fill("suspect-list", rows.map(suspect), "no bad link inside any zone");
}

function suspect(one) {
  const [from, to] = one.link;
  const name = make("button", { class: "link", type: "button", title: `worst: ${from} → ${to}`, onclick: () => openLink(from, to, one.metric) }, one.node);
  return make("li", {}, make("span", {}, name, make("small", { class: "none" }, ` ${one.zone || "(no zone)"}`)),
    make("span", {}, `${one.metric}: ${one.bad} of ${one.of} links bad`, make("small", { class: "none" }, ` to ${value(one.metric, one.worst)}`)));
}

export function drawMeasured(links, agents) {
  at("measured").hidden = !links && !agents;
  fill("worst-of-all", (links?.worst ?? []).map((one) => make("li", {},
    make("button", { class: "link", type: "button", onclick: () => openLink(one.source, one.target, "loss") }, `${one.source} → ${one.target}`),
    make("span", {}, `${value("loss", one.loss_ratio)}, ${value("delay", one.delay_ms)}`))), "nothing is measured");
  const bad = (links?.degraded ?? []).map((text) => make("li", { class: "bad" }, text));
  const pairs = Object.entries(links?.pairs ?? {}).map(([metric, one]) => make("li", {},
    `${metric}: ${Math.floor((one.measured / one.of) * 100)} % of ${big.format(one.of)} pairs measured${one.estimated ? `, ${big.format(one.estimated)} estimated` : ""}`));
  const known = Object.values(links?.pairs ?? {}).map((one) => Math.floor((one.measured / one.of) * 100));
  const amiss = agents ? agents.silent.count + agents.unanswered.count : 0;
  at("suspects-of").textContent = [known.length && `${Math.max(...known)} % of links measured`, amiss && `${counted(amiss, "agents")} silent or blocked`].filter(Boolean).join(", ");
  fill("known", [...bad, ...pairs, ...(agents ? agentLines(agents) : [])]);
}

function agentLines({ reporting, silent, unanswered, absent }) {
  const all = reporting + silent.count + unanswered.count;
  const amiss = [[silent, "silent"], [unanswered, "without any answer"], [absent, "nodes without an agent"]];
  return [make("li", {}, `probe: ${reporting} of ${all} agents report and get answers`),
    ...amiss.filter(([one]) => one.count).map(([one, words]) => make("li", { class: one === absent ? "" : "bad" },
      `probe: ${one.count} ${words}`, one.since_s === null ? "" : make("span", { "data-since": one.since_s, "data-head": " for " }),
      `: ${one.nodes.join(", ")}${one.count > one.nodes.length ? " …" : ""}${one.zone === null ? "" : `; all in zone ${one.zone}`}`))];
}

export async function openLink(source, target, metric) {
  const dialog = at("link");
  at("link-title").textContent = `${source} → ${target}`;
  at("link-body").replaceChildren(make("p", {}, "asking"));
  if (!dialog.open) dialog.showModal();
  const ends = [source, target].map(encodeURIComponent);
  try {
    const now = await (await get(`/v1/network/${ends[0]}/${ends[1]}`)).json();
    const before = await (await get(`/v1/page/link?source=${ends[0]}&target=${ends[1]}&metric=${metric}`)).json();
    at("link-body").replaceChildren(...describe(now, metric, before.looks));
  } catch (error) {
    at("link-body").replaceChildren(make("p", { class: "lead" }, `The link cannot be shown now: ${error.message}`));
  }
}

function describe(now, metric, looks) {
  const rows = Object.entries(now.metrics).map(([name, part]) => [name, ...[part.there, part.back].map((one) =>
    (one ? `${value(name, one.value)}, ${duration(one.age_s)} old, ${one.origin}` : "no value")), `${Math.round(part.points)}`]);
  const parts = [make("p", { class: "lead" }, `${Math.round(now.points)} of 100 points${now.stale ? ", some values are old" : ""}`),
    make("div", { class: "scroll" }, make("table", { class: "narrow" },
      make("thead", {}, make("tr", {}, ...["metric", "there", "back", "points"].map((head) => make("th", { scope: "col" }, head)))),
      make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((cell) => make("td", {}, cell)))))))];
  parts.push(make("h3", {}, `${metric} over the last two hours`));
  if (looks.length < 2) return [...parts, make("p", { class: "none" }, "there is one look a minute with new values; two are needed")];
  const values = looks.map(([, one]) => one);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const [first, last] = [looks[0][0], looks.at(-1)[0]];
  const points = looks.map(([at_s, one]) => [(at_s - first) / (last - first || 1), high === low ? 0.5 : (one - low) / (high - low)]);
  return [...parts, curve(points, 560, 120), make("p", {}, `${value(metric, low)} to ${value(metric, high)} in ${duration(last - first)}`)];
}

export function curve(points, width, height) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("class", "curve");
  const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
  line.setAttribute("points", points.map(([x, y]) => `${(x * (width - 4) + 2).toFixed(1)},${((1 - y) * (height - 4) + 2).toFixed(1)}`).join(" "));
  svg.append(line);
  return svg;
}
