// One gang in full, as /v1/explain has it: why it is where it is, what would change that, and what it has.

import { at, counted, gangLink, get, link, make, moment, nodeLink, put, since, table, to, value, zonesName } from "./draw.js";
import { chip, kindOf } from "./queue.js";

const address = (gang) => `v1/explain/${gang.split("/").map(encodeURIComponent).join("/")}`;

export const asked = (gang) => get(address(gang));
let nextMs = 0;

// What the row of a gang says of it.
export function inShort(found) {
  const worst = found.network?.worst;
  return {
    cause: found.cause?.message, change: found.cause?.suggestion || undefined,
    start: found.expected_start?.start_s ? undefined : found.expected_start?.text,
    worst: worst && `worst link ${worst.source} → ${worst.target}: ${worst.bad || `${Math.round(worst.points)} of 100 points`}`,
  };
}

export async function drawGang(place) {
  const gang = `${place.first}/${place.second}`;
  const head = [make("p", { class: "up" }, link("#/queue", "Queue"), " / ", link(`#/queue?namespace=${encodeURIComponent(place.first)}`, place.first))];
  if (at("view-gang").dataset.of !== gang) put(at("view-gang"), ...head, make("h2", {}, gang), make("p", { class: "soft" }, "asking"));
  else if (Date.now() < nextMs) return;  // one question at a time, and ten seconds between two
  [at("view-gang").dataset.of, nextMs] = [gang, Infinity];
  let parts = [];
  try {
    const found = await asked(gang);
    parts = describe(found, place.sections.queue?.rows.find((row) => row.gang === found.gang), place.sections.jobs?.rows ?? []);
  } catch (error) {
    parts = [make("h2", {}, gang), make("div", { class: "panel note" }, make("p", {}, `It cannot be shown: ${error.message}.`), make("p", {}, link("#/queue", "All gangs")))];
  }
  if (at("view-gang").dataset.of === gang) put(at("view-gang"), ...head, ...parts), nextMs = Date.now() + 10000;
}

function describe(found, row, jobs) {
  const { cause, network, turn, counts } = found;
  const job = jobs.find((one) => one.gang === found.gang);
  const kind = row ? kindOf(row) : found.state === "running" ? "running" : found.state === "admitted" ? "starting" : "other";
  const facts = [
    ["Waits", kind !== "running" && kind !== "degraded" && turn.waiting_since_s && since(turn.waiting_since_s)],
    ["Runs", row?.running_since_s && since(row.running_since_s)],
    ["Turn", turn.rank && `${turn.rank} of ${turn.of}${turn.priority ? `, priority ${turn.priority}` : ""}`],
    ["Expected start", found.expected_start && (found.expected_start.start_s ? [`about ${moment(found.expected_start.start_s)}`, ...(found.expected_start.after ? [", after ", gangLink(found.expected_start.after), " ends"] : [])] : found.expected_start.text)],
    ["Pods", `${counts.exist} exist, ${counts.on_nodes} on nodes, at least ${counts.needed} start together`],
    ["Workers", job && `${job.workers.now}, from ${job.workers.min} to ${job.workers.max}`],
    ["Where", network && [zonesName(network.zones.join()), `, ${counted(network.of_nodes, "nodes")}`]],
    ["Network", network && network.score !== null && `${Math.round(network.score)} of 100 points`],
    ["Worst link", network?.worst && [link(to("network", network.worst.source, network.worst.target), `${network.worst.source} → ${network.worst.target}`), `: ${network.worst.bad || `${Math.round(network.worst.points)} of 100 points`}`]],
    ["Kept for it", turn.reservation && turn.reservation.kind !== "committed" && turn.reservation.kind !== "planned" && `${counted(turn.reservation.held_nodes.length, "nodes")}${turn.reservation.zone ? ` of zone ${turn.reservation.zone}` : ""}${turn.reservation.until_s ? ` until ${moment(turn.reservation.until_s)}` : ""}`],
    ["Makes room for", found.preemption.leaves_for && gangLink(found.preemption.leaves_for)],
  ].filter(([, what]) => what);
  const notes = [...found.notes, ...found.problems, found.repair, found.preemption.blocked, found.admission_refused, job?.refusal].filter(Boolean);
  const worst = network?.worst?.bad ? ` Its worst link is bad: ${network.worst.source} → ${network.worst.target}, ${network.worst.bad}.` : "";
  const why = cause ? [make("p", { class: "lead" }, cause.message), cause.suggestion && make("p", { class: "change" }, cause.suggestion)]
    : [make("p", { class: "lead" }, found.repair || (found.state === "running" ? `It runs.${worst}` : `It starts: ${counts.planned + counts.held} of ${counts.needed} pods have a planned node.`))];
  const ahead = turn.ahead.waiting;
  return [
    make("div", { class: "head" }, make("h2", {}, found.gang), chip(kind, turn.state === "STARVING")),
    make("div", { class: "sides" },
      make("section", { class: "panel" }, make("h3", {}, "Why"), ...why,
        cause && make("p", { class: "soft" }, `${cause.reason}${found.code ? ` (${found.code})` : ""}`),
        notes.length > 0 && make("ul", { class: "notes" }, ...notes.map((note) => make("li", {}, note))),
        ahead.length > 0 && make("p", {}, "Ahead of it: ", ...ahead.flatMap((other, number) => [number ? ", " : "", gangLink(other)]), turn.ahead.waiting_count > ahead.length ? ` and ${turn.ahead.waiting_count - ahead.length} more` : "")),
      make("section", { class: "panel" }, make("h3", {}, "Facts"),
        make("dl", { class: "facts" }, ...facts.flatMap(([name, what]) => [make("dt", {}, name), make("dd", {}, ...[what].flat())])))),
    found.zones.some((one) => one.wanted) && part("Zones", table(["zone", "room", "what is short", "network", "distance"], found.zones.map(zone), "Zones")),
    part("Pods", table(["pod", "role", "state", "node", "why"], found.members.map((one) => [one.pod, one.role === "other" ? "" : one.role, one.state, one.node && nodeLink(one.node), one.why]), "Pods")),
    found.decisions.length > 0 && part("What was decided", make("ol", { class: "plain" }, ...found.decisions.map((past) =>
      make("li", {}, make("time", {}, moment(past.at_s)), ` ${past.what}${past.detail ? ` ${past.detail.replaceAll(",", ", ")}` : ""}${past.reason ? `: ${past.reason}` : ""}`)))),
    make("p", {}, link(address(found.gang), "The same as JSON")),
  ];
}

const part = (title, ...children) => make("section", { class: "panel" }, make("h3", {}, title), ...children);

function zone(one) {
  const short = one.short.map(({ resource, amount, nodes }) => `${amount} ${resource} on ${Object.keys(nodes).slice(0, 3).join(", ")}${Object.keys(nodes).length > 3 ? " …" : ""}`);
  return [one.zone || "(no zone)", one.allowed ? `${one.room} of ${one.wanted} pods` : "not allowed", short.join("; "),
    one.score === null ? "" : `${Math.round(one.score)} of 100`, one.distance_ms === null ? "" : value("delay", one.distance_ms)];
}
