// The network: the heat-map with what is bad beside it, a node's own page, and one link in both directions.

import { amount as text, at, big, counted, duration, gangLink, get, link, make, named, nodeLink, put, since, table, to, value, zoneName } from "./draw.js";
import { GRADE, drawMesh, watchHeat } from "./heat.js";

const METRICS = ["loss", "delay", "throughput"];
const WORDS = { "+": "good", o: "fair", "#": "bad", "?": "no value", ".": "not measured", " ": "" };
const AGAIN_MS = 60000;
let here = () => null;
let have = { key: "", at: 0 };

const meshOf = (metric, zone, node) =>
  get(`v1/page/mesh?metric=${metric}${zone === null ? "" : `&zone=${encodeURIComponent(zone)}`}${node ? `&node=${encodeURIComponent(node)}` : ""}`);
const worse = (mesh, a, b) => (mesh.highest_is_best ? a - b : b - a);

export function drawNetwork(place) {
  const { network, nodes } = place.sections;
  const unmeasured = howToMeasure(network);
  at("measured").hidden = at("look").hidden = Boolean(unmeasured);
  at("unmeasured").hidden = !unmeasured;
  if (unmeasured) return void put(at("unmeasured"), ...unmeasured);
  const zones = [...new Set(nodes.rows.map(([, zone]) => zone))].sort();
  const choice = at("zone");
  if (choice.dataset.names !== zones.join()) choice.replaceChildren(make("option", { value: "" }, "zone by zone"),
    ...zones.map((zone) => make("option", { value: `=${zone}` }, `nodes of ${zoneName(zone)}`)));
  choice.dataset.names = zones.join();
  const [metric, zone] = [METRICS.find((name) => name === place.query.get("metric")) ?? "loss", place.query.get("zone")];
  choice.value = zone === null ? "" : `=${zone}`;
  for (const tab of document.querySelectorAll("[data-metric]")) tab.setAttribute("aria-pressed", String(tab.dataset.metric === metric));
  put(at("heat-title"), `${metric[0].toUpperCase()}${metric.slice(1)}, ${zone === null ? "median between zones" : `node by node in ${zoneName(zone)}`}`);
  put(at("bad"), ...(network.degraded.length ? network.degraded.map(badLine) : [make("li", { class: "soft" }, "No node and no zone has bad links.")]));
  put(at("sources"), ...network.sources.map(sourceLine), ...agentLines(network.agents));
  mesh(metric, zone, JSON.stringify([metric, zone, network.degraded, network.sources]));
}

async function mesh(metric, zone, key) {
  if (have.key === key && Date.now() - have.at < AGAIN_MS) return;
  have = { key, at: Date.now() };
  try {
    const news = await meshOf(metric, zone);
    if (have.key !== key) return;
    drawMesh(news);
    const cells = news.values.flatMap((line, row) => line.map((number, column) => ({ row, column, number, worst: news.worst_values?.[row][column] ?? number })));
    const bad = cells.filter(({ row, column }) => (news.bad ? news.bad[row][column] : "#o".includes(news.grades[row][column])));
    bad.sort((a, b) => worse(news, a.worst, b.worst));
    put(at("worst-title"), zone === null ? "Worst between zones" : `Worst links of ${zoneName(zone)}`);
    put(at("worst"), ...bad.slice(0, 8).map((cell) => worstLine(news, cell)), bad.length ? "" : make("li", { class: "soft" }, "Every link that is measured is good."));
  } catch (error) {
    have = { key: "", at: 0 };
    put(at("heat-cell"), `The heat-map cannot be shown: ${error.message}`);
  }
}

function worstLine(news, { row, column, worst }) {
  const [from, target] = [news.ends[row], news.ends[column]];
  const address = news.zone === null ? `#/network?metric=${news.metric}&zone=${encodeURIComponent(from)}` : to("network", from, target);
  const words = news.bad ? `${news.bad[row][column]} of ${news.pairs[row][column]} bad, ${value(news.metric, worst)}` : value(news.metric, worst);
  return make("li", { class: "pair" }, link(address, `${from || "(no zone)"} → ${target || "(no zone)"}`), make("span", {}, words));
}

function badLine(one) {
  const about = one.kind === "zone" ? link(`#/network?metric=${one.metric}&zone=${encodeURIComponent(one.name)}`, zoneName(one.name)) : nodeLink(one.name);
  return make("li", {}, make("b", {}, about), ` ${one.metric}: ${one.bad} of ${one.of} links bad`, ...(one.since_s ? [", for ", since(one.since_s)] : []),
    make("small", {}, "worst: ", link(to("network", one.source, one.target), `${one.source} → ${one.target}`), ` ${value(one.metric, one.worst)}`));
}

function sourceLine(source) {
  const age = source.last_success_s === null ? "" : [", read ", since(source.last_success_s, " ago")];
  return make("li", { class: source.error ? "bad" : "" }, `${source.name}: ${source.error ?? (source.last_success_s === null ? "no answer yet" : `${big.format(source.measurements)} values`)}`, ...age,
    source.problems ? `, ${counted(source.problems, "problems")}: netgang network names them` : "");
}

function agentLines(agents) {
  if (!agents) return [];
  const { reporting, silent, unanswered, absent } = agents;
  const amiss = [[silent, "silent"], [unanswered, "without any answer"], [absent, "nodes without an agent"]].filter(([one]) => one.count);
  return [make("li", {}, `agents: ${reporting} of ${reporting + silent.count + unanswered.count} report and get answers`),
    ...amiss.map(([one, words]) => make("li", { class: one === absent ? "" : "bad" }, `agents: ${one.count} ${words}`,
      ...(one.since_s === null ? [] : [" for ", since(one.since_s)]), `: ${one.nodes.join(", ")}${one.count > one.nodes.length ? " …" : ""}${one.zone === null ? "" : `; all in zone ${one.zone}`}`))];
}

// What to do where nothing is measured; null: something is.
function howToMeasure({ sources, agents }) {
  if (sources.some((source) => source.measurements > 0)) return null;
  const alike = make("p", {}, "Until something is, gangs are placed as if all links were alike.");
  const code = (text) => make("pre", { tabIndex: 0 }, text);
  if (!sources.length && !agents) {
    return [make("h3", {}, "Nothing measures the network"), alike,
      make("p", {}, "Do this: let netgang measure it, by an agent on each node:"),
      code("helm upgrade netgang charts/netgang -n netgang-system \\\n  --reset-then-reuse-values --set probe.enabled=true"),
      make("p", {}, "Or name what measures already, such as perfSONAR, in the setting ", make("code", {}, "network.sources"), ".")];
  }
  return [make("h3", {}, "Nothing is measured yet"), alike, make("ul", { class: "plain" }, ...sources.map(sourceLine), ...agentLines(agents)),
    make("p", {}, "The first values come within two minutes. If they do not, look at the agents, and ask the doctor:"),
    code("kubectl -n netgang-system get daemonset netgang-probe\nnetgang doctor")];
}

export async function drawNode(place) {
  const { first: node, sections: { network, nodes } } = place;
  const view = at("view-node");
  const row = nodes.rows.find(([name]) => name === node);
  const head = [make("p", { class: "up" }, link("#/network", "Network"), ...(row ? [" / ", link(`#/network?zone=${encodeURIComponent(row[1])}`, zoneName(row[1]))] : [])), make("h2", {}, node)];
  if (view.dataset.of !== node) put(view, ...head);
  view.dataset.of = node;
  if (!row) return void put(view, ...head, make("div", { class: "panel note" }, make("p", {}, nodes.of > nodes.rows.length ? `It is not among the first ${nodes.rows.length} nodes.` : "No node of that name is known.")));
  const [, zone, wrong, used, there, gangs] = row;
  const bad = network.degraded.filter((one) => one.name === node && one.kind === "node");
  const room = nodes.resources.map((name, number) => [name, used[number], there[number]]).filter(([, , all]) => all > 0);
  const facts = [["State", wrong || "ready"], ...room.map(([name, some, all]) => [named(name), `${text(name, some)} of ${text(name, all)} in use`]),
    ["Gangs", Object.keys(gangs).length ? Object.entries(gangs).flatMap(([gang, pods], number) => [number ? ", " : "", gangLink(gang), ` (${counted(pods, "pods")})`]) : "none"]];
  const key = `${node} ${JSON.stringify([network, zone])}`;
  if (view.dataset.key !== key) {
    [view.dataset.key, peers] = [key, null];
    peers = await Promise.all(METRICS.map((metric) => meshOf(metric, zone, node))).catch(() => (view.dataset.key = "", null));
    if (at("view-node").dataset.of !== node) return;
  }
  const lines = peerLines(peers, node);
  put(view, ...head,
    make("section", { class: "panel" }, ...(bad.length ? [make("ol", { class: "plain" }, ...bad.map(badLine))] : [make("p", { class: "lead" }, lines.length ? "Its links are not bad beyond doubt." : peers ? "Nothing is measured from or to this node." : "asking")]),
      make("dl", { class: "facts" }, ...facts.flatMap(([name, what]) => [make("dt", {}, name), make("dd", {}, ...[what].flat())]))),
    lines.length > 0 && make("section", { class: "panel" }, make("h3", {}, `Links in ${zoneName(zone)}, worst first`), make("p", { class: "soft" }, "Each from this node, and back."),
      table(["node", ...METRICS], lines, "Links")));
}

let peers = null;

function peerLines(meshes, node) {
  const [loss] = meshes ?? [];
  if (!loss?.ends.includes(node)) return [];
  const self = loss.ends.indexOf(node);
  const lines = loss.ends.flatMap((peer, number) => (number === self ? [] : [{
    peer, cells: meshes.map((mesh) => [[self, number], [number, self]].map(([row, column]) => ({ metric: mesh.metric, grade: mesh.grades[row][column], number: mesh.values[row][column] }))),
  }])).filter(({ cells }) => cells.flat().some((cell) => cell.number !== null));
  const badness = ({ cells }) => cells.flat().reduce((sum, { grade }) => sum + { "#": 100, o: 1 }[grade] || sum, 0);
  return lines.sort((a, b) => badness(b) - badness(a)).map(({ peer, cells }) => [link(to("network", node, peer), peer),
    ...cells.map((both) => both.map(({ metric, grade, number }) => make("span", { class: "cellvalue", title: WORDS[grade] },
      make("i", { class: GRADE[grade] }), `${value(metric, number)}${grade === "#" ? " bad" : ""}`)))]);
}

export async function drawLink({ first, second }) {
  const view = at("view-link");
  const head = [make("p", { class: "up" }, link("#/network", "Network"), " / ", nodeLink(first)), make("h2", {}, `${first} → ${second}`)];
  if (view.dataset.of !== `${first} ${second}`) put(view, ...head, make("p", { class: "soft" }, "asking"));
  view.dataset.of = `${first} ${second}`;
  let parts = [];
  try {
    const now = await get(`v1/network/${[first, second].map(encodeURIComponent).join("/")}`);
    const told = (name, one) => (one ? `${value(name, one.value)}, ${duration(one.age_s)} old` : "no value");
    const lines = Object.entries(now.metrics).map(([name, part]) => [name, told(name, part.there), told(name, part.back), String(Math.round(part.points))]);
    parts = [make("section", { class: "panel" }, make("p", { class: "lead" }, `${Math.round(now.points)} of 100 points${now.stale ? ", some values are old" : ""}`),
      table(["metric", "there", "back", "points"], lines, "Both directions"), make("p", {}, "Nodes: ", nodeLink(first), ", ", nodeLink(second)))];
  } catch (error) {
    parts = [make("div", { class: "panel note" }, make("p", {}, `The link cannot be shown: ${error.message}.`))];
  }
  if (view.dataset.of === `${first} ${second}`) put(view, ...head, ...parts);
}

export function watchMesh(where) {
  here = where;
  const choose = (name, chosen) => {
    const { query } = here();
    if (chosen === null) query.delete(name);
    else query.set(name, chosen);
    location.replace(`#/network${query.size ? `?${query}` : ""}`);
  };
  for (const tab of document.querySelectorAll("[data-metric]")) tab.addEventListener("click", () => choose("metric", tab.dataset.metric));
  at("zone").addEventListener("change", () => choose("zone", at("zone").value ? at("zone").value.slice(1) : null));
  watchHeat(({ zone, ends }, row, column) => {
    if (zone === null) location.hash = `#/network?metric=${here().query.get("metric") ?? "loss"}&zone=${encodeURIComponent(ends[row])}`;
    else if (row !== column) location.hash = to("network", ends[row], ends[column]);
  });
}
