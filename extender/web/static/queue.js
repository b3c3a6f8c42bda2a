// The queue: what waits, and why; what runs, and where. Causes are asked of /v1/explain for the gangs that are in sight.

import { at, big, byName, counted, fill, gangLink, make, moment, nodeLink, rows, since, zonesName } from "./draw.js";
import { asked, inShort } from "./gang.js";

// kind → its mark and words: states that differ look different, also without colours
const KINDS = {
  room: ["◔", "waiting for room"],
  pods: ["…", "waiting for pods"],
  other: ["◔", "waiting"],
  backoff: ["↻", "backing off"],
  never: ["✕", "can never start"],
  invalid: ["!", "invalid"],
  starting: ["▸", "starting"],
  running: ["●", "running"],
  degraded: ["▲", "degraded"],
  ended: ["✓", "ended"],
};
const OF_CODE = {
  NO_ROOM: "room", BEHIND: "room", RESERVED: "room", SPILL_WAIT: "room", INCOMPLETE: "pods", BACKING_OFF: "backoff",
  IMPOSSIBLE: "never", NO_ALLOWED_ZONE: "never", INVALID_GROUP: "invalid",
};
const STAGES = { committing: "its bindings are being written", held: "its pods come to bind", admitted: "its pods are being let through" };
const AGAIN_MS = 120000;
const told = new Map();  // gang → what explain said, of what, and when
const inSight = new Set();  // gangs
let current = [];  // rows of the section
let here = () => null;
let asking = false;

export function kindOf(row) {
  if (row.state === "COMPLETED") return "ended";
  if (row.state === "RUNNING") return row.bad_link || row.repair ? "degraded" : "running";
  if (row.admitted || row.stage) return "starting";
  return OF_CODE[row.code] ?? "other";
}

export function chip(kind, starving) {
  const [mark, words] = KINDS[kind];
  const late = starving && kind === "room" ? "waiting for room, goes first" : words;
  return make("span", { class: `chip ${kind}` }, make("span", { "aria-hidden": "true" }, `${mark} `), late);
}

const runs = (row) => row.state === "RUNNING" || row.state === "COMPLETED";
const plain = (sentence) => sentence.replace(/^netgang: /, "").replace(/^./, (letter) => letter.toUpperCase());
const newsOf = (row) => [row.code, row.zone, row.bad_link, row.state].join();

export function drawQueue({ query, sections }) {
  if (!sections.queue) return;  // one has just come back, and the answer is on its way
  const { rows: all, of, reasons } = sections.queue;
  const jobs = new Map((sections.jobs?.rows ?? []).map((job) => [job.gang, job]));
  choices(query, all);
  const chosen = sorted(all.filter(matching(query, reasons)), query.get("sort") ?? "");
  const items = chosen.map((row) => ({
    ...row, why: row.code ? plain(reasons[row.code]) : "", told: told.get(row.gang)?.code === row.code ? told.get(row.gang)?.short : undefined, job: jobs.get(row.gang)?.workers,
  }));
  const [run, wait] = [items.filter(runs), items.filter((row) => !runs(row))];
  at("no-gangs").hidden = of > 0;
  at("lists").hidden = at("find").hidden = of === 0;
  const cut = of > all.length ? `, the first ${big.format(all.length)} of ${counted(of, "gangs")}` : "";
  at("found").textContent = of === 0 ? "" : chosen.length < all.length ? `${big.format(chosen.length)} of ${counted(all.length, "gangs")} match${cut}` : `${counted(all.length, "gangs")}${cut}`;
  at("waiting-of").textContent = `${big.format(wait.length)}, ${sections.queue.order === "fifo" ? "oldest first" : "heaviest first"}`;
  at("running-of").textContent = big.format(run.filter((row) => row.state === "RUNNING").length);
  const any = chosen.length < all.length ? "that match" : "";
  at("waiting-none").textContent = wait.length ? "" : any ? "No gang that waits matches." : "No gang waits.";
  at("running-none").textContent = run.length ? "" : any ? "No gang that runs matches." : "No gang runs.";
  for (const [name, part] of [["waiting", wait], ["running", run]]) {
    const list = at(`${name}-rows`);
    rows(list, part, (row) => row.gang, name === "waiting" ? waits : running);
    for (const element of list.children) sight.observe(element);  // once more is nothing
  }
  current = all;
  const there = new Set(all.map((row) => row.gang));
  for (const gang of told.keys()) if (!there.has(gang)) told.delete(gang);
  explainOn();
}

function choices(query, all) {
  const counts = (of) => [...all.reduce((sum, row) => sum.set(of(row), (sum.get(of(row)) ?? 0) + 1), new Map())];
  const [spaces, kinds] = [counts((row) => row.gang.split("/")[0]).sort(), counts(kindOf)];
  const groups = [["waits", "all that wait", all.filter((row) => !runs(row)).length], ["runs", "all that run", all.filter((row) => row.state === "RUNNING").length]];
  options("namespace", query.get("namespace"), spaces.map(([name, count]) => [name, name, count]));
  options("kind", query.get("state"), [...groups, ...kinds.map(([kind, count]) => [kind, KINDS[kind][1], count])]);
  if (document.activeElement !== at("q")) at("q").value = query.get("q") ?? "";
  at("sort").value = query.get("sort") ?? "";
}

function options(id, chosen, entries) {
  const all = chosen && !entries.some(([name]) => name === chosen) ? [...entries, [chosen, KINDS[chosen]?.[1] ?? chosen, 0]] : entries;
  const key = JSON.stringify(all);
  if (at(id).dataset.key !== key) at(id).replaceChildren(make("option", { value: "" }, "all"),
    ...all.map(([name, words, count]) => make("option", { value: name }, `${words} (${big.format(count)})`)));
  at(id).dataset.key = key;
  at(id).value = chosen ?? "";
}

function matching(query, reasons) {
  const [text, space, state] = [(query.get("q") ?? "").toLowerCase().split(/\s+/), query.get("namespace"), query.get("state")];
  return (row) => {
    if (space && !row.gang.startsWith(`${space}/`)) return false;
    const kind = kindOf(row);
    if (state && state !== kind && !(state === "runs" && row.state === "RUNNING") && !(state === "waits" && !runs(row))) return false;
    if (text.join("") === "") return true;
    const words = [row.gang, row.zone && `zone ${row.zone}`, ...(row.nodes ?? []), KINDS[kind][1], reasons[row.code], row.detail, row.bad_link].join(" ").toLowerCase();
    return text.every((part) => words.includes(part));
  };
}

function sorted(chosen, by) {
  const keys = {
    age: (row) => row.running_since_s ?? row.waiting_since_s ?? Infinity,
    start: (row) => row.expected?.start_s ?? Infinity,
    size: (row) => -(row.holds ?? 0) - (row.wants ?? 0) - ((row.running ?? 0) + (row.pending ?? 0)) / 1e6,
  };
  if (by === "name") return chosen.sort((a, b) => byName(a.gang, b.gang));
  const key = keys[by];
  return key ? chosen.sort((a, b) => (key(a) === key(b) ? 0 : key(a) - key(b))) : chosen;
}

function title(row) {
  const [space, ...name] = row.gang.split("/");
  return gangLink(row.gang, make("span", { class: "soft" }, `${space}/`), make("b", {}, name.join("/")));
}

function waits(row) {
  const kind = kindOf(row);
  const short = row.told;
  const cause = short?.cause || [row.why, row.detail].filter(Boolean).join(": ") || (STAGES[row.stage] ? `It starts: ${STAGES[row.stage]}.` : "It has nodes, and its pods are about to come.");
  const has = [`${counted(row.pending ?? 0, "pods")} ${row.pending === 1 ? "waits" : "wait"}`, `at least ${row.min_available}`, row.at_bind && `${row.at_bind} at bind`].filter(Boolean);
  return make("li", { class: `row ${kind}`, "data-key": row.gang },
    make("span", { class: "turn", title: "Its turn among the gangs that may start" }, row.rank ? String(row.rank) : "–"),
    make("div", { class: "who" }, title(row), chip(kind, row.state === "STARVING"), make("small", {}, has.join(", "))),
    make("div", { class: "why" }, make("p", {}, cause), short?.change && make("p", { class: "change" }, short.change),
      row.leaves_for && make("p", { class: "soft" }, "It makes room for ", gangLink(row.leaves_for), "."),
      row.zone && kind === "starting" && make("p", { class: "soft" }, `${zonesName(row.zone)}: `, ...places(row)),
      row.reserved > 0 && make("p", { class: "soft" }, `${counted(row.reserved, "nodes")} of ${zonesName(row.zone ?? "")} are kept for it`)),
    make("div", { class: "when" }, row.waiting_since_s ? make("span", {}, "waits ", since(row.waiting_since_s)) : "",
      row.expected && (row.expected.start_s || kind === "room") && make("span", {}, ...starts(row.expected, short))));
}

function starts({ start_s: start, after }, short) {
  if (!start) return [short?.start || "start not known"];
  return [make("b", {}, `starts about ${moment(start)}`), ...(after ? [", after ", gangLink(after), " ends"] : [])];
}

function places(row) {
  const names = row.nodes ?? [];
  const more = row.of_nodes - names.length;
  return [...names.flatMap((name, number) => (number ? [", ", nodeLink(name)] : [nodeLink(name)])), ...(more > 0 ? [` and ${more} more`] : [])];
}

function running(row) {
  const kind = kindOf(row);
  const worst = row.bad_link || row.told?.worst;
  return make("li", { class: `row ${kind}`, "data-key": row.gang },
    make("div", { class: "why" }, row.repair && make("p", {}, row.repair), worst && make("p", { class: row.bad_link ? "bad" : "soft" }, plain(worst))),
    make("div", { class: "who" }, title(row), chip(kind)),
    make("div", { class: "where" }, ...(row.of_nodes ? [row.zone ? `${zonesName(row.zone)}: ` : "", ...places(row)] : [])),
    make("div", { class: "when" }, row.running_since_s ? make("span", {}, "runs ", since(row.running_since_s)) : "",
      make("span", {}, row.job ? `${row.job.now} workers (${row.job.min}–${row.job.max})` : counted(row.running ?? 0, "pods"))));
}

const sight = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (isIntersecting) fill(target), inSight.add(target.dataset.key);
    else inSight.delete(target.dataset.key);
  }
  explainOn();
}, { rootMargin: "600px" });

// One question at a time, and four times as long a pause as the answer took: pages are not to keep the service busy.
async function explainOn() {
  if (asking) return;
  asking = true;
  for (let row; (row = current.find(wanted)) && here()?.name === "queue" && !document.hidden; ) {
    const began = performance.now();
    const entry = { of: newsOf(row), code: row.code, at: Date.now(), short: told.get(row.gang)?.short };
    told.set(row.gang, entry);
    try {
      entry.short = inShort(await asked(row.gang));
    } catch {  // it is gone by now, or the service is; the row has the planner's words
    }
    if (here()?.name === "queue") drawQueue(here());
    await new Promise((done) => setTimeout(done, Math.min(4 * (performance.now() - began), 2000)));
  }
  asking = false;
}

function wanted(row) {
  if (!inSight.has(row.gang) || row.state === "COMPLETED") return false;
  const entry = told.get(row.gang);
  return !entry || entry.of !== newsOf(row) || Date.now() - entry.at > AGAIN_MS;
}

// What is chosen stands in the address, so that it can be sent.
export function watchQueue(where) {
  here = where;
  const names = { q: "q", namespace: "namespace", kind: "state", sort: "sort" };
  for (const [id, name] of Object.entries(names)) {
    at(id).addEventListener("input", () => {
      const { query } = where();
      if (at(id).value) query.set(name, at(id).value);
      else query.delete(name);
      history.replaceState(null, "", `#/queue${query.size ? `?${query}` : ""}`);
      drawQueue(where());
    });
  }
}
