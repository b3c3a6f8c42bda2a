// The cluster: zones and their nodes by gang, namespaces with what they have and wait for, and the last hours.

import { amount, at, big, byName, counted, gangLink, link, make, moment, named, nodeLink, put, zoneName } from "./draw.js";

const HIGH = 180;
const STEPS_H = [1 / 12, 1 / 4, 1 / 2, 1, 2, 3];  // between the moments that are named, hours

export function drawCluster({ sections }) {
  const { status, nodes, queue, network, history } = sections;
  const [main] = nodes.resources;
  const bad = new Set(network.degraded.filter((one) => one.kind === "node").map((one) => one.name));
  put(at("cluster-of"), `${counted(status.nodes, "nodes")}, ${big.format(status.usable_nodes)} of them can take pods`, nodes.of > nodes.rows.length ? `; the first ${big.format(nodes.rows.length)} are shown` : "");
  put(at("axis-title"), `${named(main)} in use, and gangs that wait`);
  put(at("axis"), ...axis(history, main));
  const zones = new Map();
  for (const row of [...nodes.rows].sort((a, b) => byName(a[0], b[0]))) zones.set(row[1], [...(zones.get(row[1]) ?? []), row]);
  put(at("zones"), ...[...zones].sort((a, b) => byName(a[0], b[0])).map(([zone, rows]) => zoneBox(zone, rows, nodes.resources, queue.rows, bad)));
  put(at("namespaces"), ...namespaces(queue, main));
  const changes = history.decisions.map(change);
  put(at("changes"), ...(changes.length ? changes : [make("li", { class: "soft" }, "Nothing was decided yet.")]));
}

function zoneBox(zone, rows, resources, gangs, bad) {
  const usable = rows.filter(([, , wrong]) => !wrong);
  const sums = resources.map((name, number) => {
    const [used, all] = [3, 4].map((field) => usable.reduce((sum, row) => sum + row[field][number], 0));
    return all > 0 && make("span", { class: "bar" }, make("span", {}, named(name)), make("progress", { max: all, value: Math.min(used, all), "aria-label": `${named(name)} in use` }),
      make("span", {}, `${amount(name, Math.max(all - used, 0))} of ${amount(name, all)} free`));
  });
  const kept = gangs.filter((row) => row.reserved && (row.zone ?? "").split(",").includes(zone));
  return make("section", { class: "panel", "aria-label": zoneName(zone) },
    make("div", { class: "head" }, make("h3", {}, link(`#/network?zone=${encodeURIComponent(zone)}`, zone ? `Zone ${zone}` : "Nodes without a zone")),
      make("span", { class: "soft" }, usable.length < rows.length ? `${usable.length} of ${counted(rows.length, "nodes")} can take pods` : counted(rows.length, "nodes"))),
    kept.length > 0 && make("p", {}, "Room is kept for ", ...kept.flatMap((row, number) => [number ? ", " : "", gangLink(row.gang)])),
    make("div", { class: "bars" }, ...sums),
    make("ul", { class: "tiles" }, ...rows.map((row) => tile(row, resources[0], bad))));
}

function tile([name, , wrong, [used], [all], gangs], main, bad) {
  const state = wrong || (bad.has(name) ? "bad links" : "");
  return make("li", { class: state ? "tile amiss" : "tile" },
    make("span", { class: "pair" }, nodeLink(name), make("small", {}, all ? `${amount(main, used)}/${amount(main, all)}` : "")),
    state && make("b", { class: "bad" }, state),
    ...Object.entries(gangs).map(([gang, pods]) => make("span", { class: `of hue${hue(gang)}` }, gangLink(gang), pods > 1 ? ` ×${pods}` : "")));
}

const hue = (text) => [...text].reduce((sum, letter) => (sum * 31 + letter.codePointAt(0)) % 997, 7) % 8;

function namespaces({ rows, of }, main) {
  const sums = new Map();
  for (const row of rows) {
    const name = row.gang.split("/")[0];
    const sum = sums.get(name) ?? { run: 0, wait: 0, holds: 0, wants: 0 };
    const waits = row.state === "WAITING" || row.state === "STARVING";
    sum.run += row.state === "RUNNING";
    sum.wait += waits;
    sum.holds += row.holds ?? 0;
    sum.wants += waits ? row.wants ?? 0 : 0;
    sums.set(name, sum);
  }
  if (!sums.size) return [make("p", { class: "soft" }, "No namespace has gangs.")];
  const lines = [...sums].sort((a, b) => b[1].holds - a[1].holds || b[1].wants - a[1].wants || (a[0] < b[0] ? -1 : 1));
  const most = Math.max(1, ...lines.map(([, { holds, wants }]) => Math.max(holds, wants)));
  return [...lines.map(([name, { run, wait, holds, wants }]) => make("div", { class: "space" },
    link(`#/queue?namespace=${encodeURIComponent(name)}`, name),
    make("span", {}, `${run} running`, make("progress", { class: "running", max: most, value: holds, "aria-label": `${named(main)} in use` }), `${amount(main, holds)} ${named(main)}`),
    make("span", {}, `${wait} waiting`, make("progress", { class: "waiting", max: most, value: wants, "aria-label": `${named(main)} waited for` }), `for ${amount(main, wants)} ${named(main)}`))),
    of > rows.length && make("p", { class: "soft" }, `Of the first ${big.format(rows.length)} of ${big.format(of)} gangs.`)];
}

function change(row) {
  const what = row.reason ? make("span", { class: "bad" }, `${row.what} refused `) : `${row.what} `;
  const where = row.node ? ` on ${row.node.replaceAll(",", ", ")}` : "";
  return make("li", {}, make("time", {}, moment(row.at_s)), " ", what, row.gang ? gangLink(row.gang, row.pod || row.gang) : row.pod, where, row.reason && make("small", {}, row.reason));
}

function svg(tag, properties, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(properties)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function axis({ minutes, marks }, main) {
  if (!minutes.length) return [make("p", { class: "soft" }, "Nothing was planned yet.")];
  const wide = Math.max(at("axis").clientWidth - 1, 200);
  const end = Math.max(Math.floor(Date.now() / 60000) * 60 + 60, minutes.at(-1)[0] + 60);
  const start = Math.min(minutes[0][0], end - 600);
  const x = (at_s) => Math.round(((at_s - start) / (end - start)) * wide);
  const most = [Math.max(1, ...minutes.map((one) => Math.max(one[1], one[2]))), Math.max(1, ...minutes.map((one) => one[3]))];
  const y = (number, of) => Math.round(HIGH - (number / of) * (HIGH - 12));
  const steps = (field, of) => minutes.map((one, number) => `${number ? "" : `M${x(one[0])} ${y(one[field], of)} `}V${y(one[field], of)} H${x(minutes[number + 1]?.[0] ?? end)}`).join(" ");
  const hours = (end - start) / 3600;
  const step = (STEPS_H.find((one) => hours / one <= Math.max(wide / 110, 2)) ?? 6) * 3600;
  const first = Math.ceil(start / step) * step;
  const times = Array.from({ length: Math.floor((end - start) / step) + 1 }, (_, number) => first + number * step).filter((one) => x(one) > 20 && x(one) < wide - 20);
  const [, used, there, waiting] = minutes.at(-1);
  const near = marks.filter(([at_s]) => at_s >= start);
  return [
    make("p", { class: "legend" }, make("span", {}, make("i", { class: "used" }), `${named(main)} in use: ${amount(main, used)} of ${amount(main, there)}`),
      make("span", {}, make("i", { class: "waits" }), `gangs that wait: ${big.format(waiting)}, at most ${big.format(Math.max(...minutes.map((one) => one[3])))}`),
      near.length > 0 && make("span", {}, make("i", { class: "mark" }), "what happened"), make("span", {}, `remembered since ${moment(minutes[0][0])}`)),
    svg("svg", { class: "axis", width: wide, height: HIGH + 20, role: "img", "aria-label": `${named(main)} in use and gangs that wait since ${moment(start)}` },
      svg("path", { class: "area", d: `${steps(1, most[0])} V${HIGH} H${x(minutes[0][0])} Z` }),
      svg("path", { class: "there", d: steps(2, most[0]) }), svg("path", { class: "queue", d: steps(3, most[1]) }),
      ...near.map(([at_s, what, who]) => svg("g", { class: "mark" }, svg("title", {}, `${moment(at_s)} ${what} ${who}`), svg("path", { d: `M${x(at_s)} 4 V${HIGH}` }), svg("circle", { cx: x(at_s), cy: 5, r: 4 }))),
      svg("path", { class: "base", d: `M0 ${HIGH} H${wide}` }),
      ...times.map((one) => svg("text", { x: x(one), y: HIGH + 15, "text-anchor": "middle" }, moment(one)))),
    near.length > 0 && make("ol", { class: "plain marks" }, ...near.slice(-6).reverse().map(([at_s, what, who]) => make("li", {}, make("time", {}, moment(at_s)), ` ${what}: `,
      who.startsWith("node ") ? nodeLink(who.slice(5)) : who.startsWith("zone ") ? who : who.includes("/") ? gangLink(who) : who))),
  ];
}
