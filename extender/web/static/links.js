// Bad links and the probe's agents in sentences, and one link: both directions as they are.

import { at, counted, duration, fill, make, value } from "./draw.js";
import { get } from "./poll.js";

export function drawDegraded(degraded, agents) {
  const amiss = agents ? agents.silent.count + agents.unanswered.count : 0;
  at("degraded-of").textContent = amiss ? `${counted(amiss, "agents")} silent or blocked` : "";
  fill("degraded-list", degraded.map(bad), "no node and no zone has bad links");
  fill("agents", agents ? agentLines(agents) : []);
}

function bad(one) {
  const link = `${one.source} → ${one.target}`;
  const name = make("button", { class: "link", type: "button", title: `worst: ${link}`, onclick: () => openLink(one.source, one.target) },
    one.kind === "zone" ? `zone ${one.name || "(none)"}` : one.name);
  return make("li", {}, name, make("span", {}, `${one.metric}: ${one.bad} of ${one.of} links bad`,
    make("small", { class: "none" }, ` to ${value(one.metric, one.worst)}`)));
}

function agentLines({ reporting, silent, unanswered, absent }) {
  const all = reporting + silent.count + unanswered.count;
  const amiss = [[silent, "silent"], [unanswered, "without any answer"], [absent, "nodes without an agent"]];
  return [make("li", {}, `probe: ${reporting} of ${all} agents report and get answers`),
    ...amiss.filter(([one]) => one.count).map(([one, words]) => make("li", { class: one === absent ? "" : "bad" },
      `probe: ${one.count} ${words}`, one.since_s === null ? "" : make("span", { "data-since": one.since_s, "data-head": " for " }),
      `: ${one.nodes.join(", ")}${one.count > one.nodes.length ? " …" : ""}${one.zone === null ? "" : `; all in zone ${one.zone}`}`))];
}

export async function openLink(source, target) {
  const dialog = at("link");
  at("link-title").textContent = `${source} → ${target}`;
  at("link-body").replaceChildren(make("p", {}, "asking"));
  if (!dialog.open) dialog.showModal();
  try {
    const now = await (await get(`/v1/network/${[source, target].map(encodeURIComponent).join("/")}`)).json();
    at("link-body").replaceChildren(...describe(now));
  } catch (error) {
    at("link-body").replaceChildren(make("p", { class: "lead" }, `The link cannot be shown now: ${error.message}`));
  }
}

function describe(now) {
  const rows = Object.entries(now.metrics).map(([name, part]) => [name, ...[part.there, part.back].map((one) =>
    (one ? `${value(name, one.value)}, ${duration(one.age_s)} old, ${one.origin}` : "no value")), `${Math.round(part.points)}`]);
  return [make("p", { class: "lead" }, `${Math.round(now.points)} of 100 points${now.stale ? ", some values are old" : ""}`),
    make("div", { class: "scroll" }, make("table", { class: "narrow" },
      make("thead", {}, make("tr", {}, ...["metric", "there", "back", "points"].map((head) => make("th", { scope: "col" }, head)))),
      make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((cell) => make("td", {}, cell)))))))];
}
