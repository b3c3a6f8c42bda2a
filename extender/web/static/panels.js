// One function a section of the page: from its document to elements. Times are moments; the clock counts them up.

import { amount, at, duration, fill, make, named, of } from "./draw.js";
import { drawDegraded } from "./links.js";

const big = new Intl.NumberFormat("en");

export const panels = {
  status(status) {
    counts.nodes = [status.usable_nodes, status.usable_nodes < status.nodes ? `of ${big.format(status.nodes)} nodes` : "nodes"];
    counts.held = [status.held_binds, "held binds"];
    drawCounts();
    const words = !status.ready ? `not ready: ${status.reasons.join("; ")}` : status.leading ? "live" : "live, standby";
    at("state").dataset.words = words;
    at("state").textContent = words;
    at("state").className = `state ${status.ready ? "live" : "lost"}`;
    at("demo").hidden = !status.demo;
  },

  zones({ rows, of: all }, open) {
    at("zones-of").textContent = of(rows.length, all, "zones");
    fill("zone-list", rows.map((row) => zone(row, open)), "no node is known");
    const choice = at("zone");
    const names = rows.map((row) => row.zone);
    if (choice.dataset.names !== names.join()) {
      const before = choice.value;
      choice.replaceChildren(make("option", { value: "" }, "all zones"), ...names.map((name) => make("option", { value: name }, name || "(no zone)")));
      choice.value = names.includes(before) ? before : "";
      choice.dataset.names = names.join();
    }
  },

  gates({ rows, of: all }, _open, explain) {
    at("gates-of").textContent = all ? of(rows.length, all, "gangs") : "";
    fill("gate-list", rows.map((row) => gate(row, explain)), "no gang is being admitted or held at bind");
  },

  queue({ rows, of: all, counts: states, order }, _open, explain) {
    const wait = rows.filter((row) => row.state !== "RUNNING" && row.state !== "COMPLETED");
    const run = rows.filter((row) => row.state === "RUNNING");
    const waiting = (states.WAITING ?? 0) + (states.STARVING ?? 0);
    at("queue-of").textContent = `${of(wait.length, waiting, "gangs")}, ${ORDERS[order] ?? order}`;
    at("running-of").textContent = of(run.length, states.RUNNING ?? 0, "gangs");
    counts.waiting = [states.WAITING, "waiting"];
    counts.starving = [states.STARVING, "starving", states.STARVING > 0];
    counts.running = [states.RUNNING, "running"];
    drawCounts();
    const before = new Map([...document.querySelectorAll("tr[data-gang]")].map((row) => [row.dataset.gang, row.dataset.state]));
    const expects = wait.some((row) => row.expected);
    at("queue-starts").hidden = !expects;
    fillRows("queue-rows", wait.map((row) => turn(row, explain, before, expects)), all ? "no gang waits" : "there is no gang");
    fillRows("running-rows", run.map((row) => runs(row, explain, before)), "no gang runs");
    tick();
  },

  jobs({ rows, of: all }) {
    at("jobs").hidden = !all;
    at("jobs-of").textContent = of(rows.length, all, "jobs");
    at("job-rows").replaceChildren(...rows.map(job));
  },

  decisions({ rows }) {
    fill("decision-list", rows.map(decision), "nothing was decided yet");
  },

  network({ sources, degraded, agents }) {
    drawDegraded(degraded, agents);
    const age = (source) => (source.last_success_s === null ? "no answer yet" : "");
    fill("sources", sources.map((source) => make("li", { class: source.error ? "bad" : "" },
      `${source.name}: ${source.error ?? (age(source) || `${big.format(source.measurements)} values`)} `,
      source.last_success_s === null ? "" : make("span", { "data-since": source.last_success_s, "data-tail": " ago" }),
      source.since_s === null ? "" : `, measured since ${new Date(source.since_s * 1000).toLocaleString()}`,
      source.problems ? `, ${source.problems} problems` : "")), "the network is unknown: the probe is off, and no source is set");
  },
};

const counts = {};

function drawCounts() {
  const order = ["waiting", "starving", "running", "held", "nodes"].filter((name) => counts[name]);
  fill("counts", order.map((name) => {
    const [number, label, alarm] = counts[name];
    return make("div", { class: alarm ? "alarm" : "" }, make("dt", {}, label), make("dd", {}, big.format(number)));
  }));
}

function zone(row, open) {
  const bars = Object.entries(row.resources).map(([resource, [free, all]]) => make("span", { class: "bar" },
    make("span", {}, named(resource)),
    make("progress", { max: all || 1, value: all - free, "aria-label": `${named(resource)} in use` }),
    make("span", {}, `${amount(resource, free)} free`)));
  const nodes = row.usable === row.nodes ? `${row.nodes} nodes` : `${row.usable} of ${row.nodes} nodes usable`;
  return make("button", { class: "zone-card", type: "button", title: "show its network", onclick: () => open(row.zone) },
    make("span", {}, make("b", {}, row.zone || "(no zone)"), ` ${nodes}`), ...bars,
    row.held_for.length ? make("span", { class: "held" }, `held for ${row.held_for.join(", ")}`) : "");
}

function gate(row, explain) {
  const words = `${row.stage}: ${row.bound} bound, ${row.held + row.posting} at bind, ${row.least} needed`;
  const members = make("div", { class: "pods", role: "img", "aria-label": words }, ...[...row.members].map((one) => make("i", { class: one })));
  return make("li", {}, link(row.gang, explain), ` ${words}`, members);
}

function turn(row, explain, before, expects) {
  const [least, pending, running, done] = row.members;
  const has = [running && `${running} on nodes`, pending && `${pending} without`, done && `${done} done`].filter(Boolean).join(", ");
  return make("tr", { class: changed(row, before), "data-gang": row.gang, "data-state": row.state },
    make("td", {}, row.rank ?? ""), make("td", {}, link(row.gang, explain)),
    make("td", {}, make("span", { class: `chip ${row.state}`, title: STATES[row.state] }, row.admitted ? `${row.state}, admitted` : row.state)),
    make("td", { class: "n" }, row.weight),
    make("td", { class: "n" }, row.waiting_since_s === null ? "" : make("span", { "data-since": row.waiting_since_s })),
    ...(expects ? [make("td", { class: "n", title: startWords(row.expected) }, row.expected?.start_s ? moment(row.expected.start_s) : "")] : []),
    make("td", {}, has, make("small", { class: "none" }, ` min ${least}`)),
    make("td", { class: "why" }, row.reason ?? "", row.detail ? make("small", { title: row.detail }, row.detail) : ""));
}

function moment(at_s) {
  const time = new Date(at_s * 1000);
  const day = time.toDateString() === new Date().toDateString() ? {} : { day: "numeric", month: "short" };
  return time.toLocaleString("en-GB", { hour: "2-digit", minute: "2-digit", ...day });
}

function startWords(expected) {
  if (!expected) return null;
  if (expected.start_s === null) return "When it starts is not known; a click on the gang says why";
  return expected.after ? `after ${expected.after} ends` : null;
}

function runs(row, explain, before) {
  return make("tr", { class: changed(row, before), "data-gang": row.gang, "data-state": row.state },
    make("td", {}, link(row.gang, explain)),
    make("td", { class: "n" }, row.running_since_s === null ? "" : make("span", { "data-since": row.running_since_s })),
    make("td", { class: "n" }, row.members[2]), make("td", {}, row.zone ?? ""));
}

const changed = (row, before) => (before.size && before.get(row.gang) !== row.state ? "fresh" : "");

function fillRows(id, rows, otherwise) {
  at(id).replaceChildren(...(rows.length ? rows : [make("tr", {}, make("td", { colSpan: 8, class: "none" }, otherwise))]));
}

const ORDERS = { weight: "heaviest first", fifo: "oldest first" };
const STATES = {
  WAITING: "It wants nodes",
  STARVING: "It has waited longer than the limit: it goes before others of its priority",
};

function job(row) {
  const { now, min, max } = row.workers;
  const last = row.last_change;
  const bar = make("progress", { max: max || 1, value: now, "aria-label": `${now} of at most ${max} workers` });
  return make("tr", {}, make("td", {}, `${row.job} `, make("small", { class: "none" }, row.kind.split(".")[0])),
    make("td", {}, make("span", { class: `chip ${row.state}` }, row.state)),
    make("td", {}, make("div", { class: "workers" }, bar, `${now} (${min}–${max})`)),
    make("td", { class: "n" }, row.network ?? ""),
    make("td", { class: "why" }, last ? `${last.before} → ${last.after}, ${last.stage}` : (row.refusal ?? ""), last ? make("small", {}, last.why) : ""));
}

function decision(row) {
  const time = new Date(row.at_s * 1000);
  const what = row.reason ? make("span", { class: "no" }, `${row.what} refused`) : row.what;
  const where = row.node ? ` on ${row.node.replaceAll(",", ", ")}` : "";
  return make("li", {}, make("time", { dateTime: time.toISOString() }, time.toLocaleTimeString("en-GB")), what, ` ${row.pod || row.gang}${where}`,
    row.reason ? make("small", { class: "none" }, ` ${row.reason}`) : "");
}

export function link(gang, explain) {
  return make("button", { class: "link", type: "button", onclick: () => explain(gang) }, gang);
}

export function tick() {
  const now = Date.now() / 1000;
  for (const element of document.querySelectorAll("[data-since]")) {
    element.textContent = (element.dataset.head ?? "") + duration(now - Number(element.dataset.since)) + (element.dataset.tail ?? "");
  }
}
