// The page: which view its address names, and asking for that view's sections again and again.

import { drawCluster } from "./cluster.js";
import { at, big, link, make, put, tick } from "./draw.js";
import { drawGang } from "./gang.js";
import { drawLink, drawNetwork, drawNode, watchMesh } from "./network.js";
import { drawQueue, watchQueue } from "./queue.js";

const EVERY_MS = 2000;
const HIDDEN_MS = 10000;
// place → its view, as the service knows it, and what draws it
const PLACES = {
  queue: ["queue", drawQueue], gang: ["queue", drawGang], cluster: ["cluster", drawCluster],
  network: ["network", drawNetwork], node: ["network", drawNode], link: ["network", drawLink],
};
let place = null;
let asked = null;
let again = null;

// Unlike decodeURIComponent it takes whatever somebody typed.
const decoded = (part) => new URLSearchParams(`name=${part.replaceAll("+", "%2B").replaceAll("&", "%26")}`).get("name");

function read() {
  const [path, query = ""] = location.hash.slice(1).split("?");
  const [view, first, second] = path.split("/").slice(1).map(decoded);
  const deep = { queue: second ? "gang" : "queue", network: second ? "link" : first ? "node" : "network" };
  return { name: deep[view] ?? (view === "cluster" ? "cluster" : "queue"), view, first, second, query: new URLSearchParams(query), sections: {} };
}

function go() {
  const before = place;
  place = read();
  if (before && PLACES[before.name][0] === PLACES[place.name][0]) place.sections = before.sections;
  for (const name of Object.keys(PLACES)) at(`view-${name}`).hidden = name !== place.name;
  for (const tab of document.querySelectorAll("nav a")) {
    const here = tab.hash === `#/${PLACES[place.name][0]}`;
    if (here) tab.setAttribute("aria-current", "page");
    else tab.removeAttribute("aria-current");
  }
  const what = [place.first, place.second].filter(Boolean).join(place.name === "link" ? " → " : "/");
  document.title = `${what || PLACES[place.name][0][0].toUpperCase() + PLACES[place.name][0].slice(1)} – netgang`;
  if (before && (before.name !== place.name || before.first !== place.first || before.second !== place.second)) {
    scrollTo(0, 0);
    at("main").focus({ preventScroll: true });
  }
  if (place.sections.status) draw();
  ask();
}

function draw() {
  PLACES[place.name][1](place);
  tick();
}

// Asks now, and then every other second; a newer question takes the place of an older one.
async function ask() {
  clearTimeout(again);
  asked?.abort();
  const mine = (asked = new AbortController());
  try {
    const answer = await fetch(`v1/page?view=${PLACES[place.name][0]}`, { signal: mine.signal, cache: "no-cache" });
    if (!answer.ok) throw new Error(String(answer.status));
    const text = await answer.text();
    if (mine !== asked) return;
    if (text !== place.sections.text) {
      place.sections = { ...JSON.parse(text), text };
      status(place.sections.status);
      draw();
    } else {
      said(place.sections.status);
      if (place.name !== "queue" && place.name !== "cluster") draw();  // these ask for more than the sections
    }
  } catch (error) {
    if (mine !== asked) return;
    if (error.name !== "AbortError") show("no connection, trying again", "lost");
  }
  again = setTimeout(ask, document.hidden ? HIDDEN_MS : EVERY_MS);
}

function show(words, style) {
  if (at("state").textContent !== words) at("state").textContent = words;
  at("state").className = `state ${style}`;
}

function said({ ready, reasons, leading }) {
  show(!ready ? `not ready: ${reasons.join("; ")}` : leading ? "live" : "live, standby", ready ? "live" : "lost");
}

function status(now) {
  said(now);
  at("demo").hidden = !now.demo;
  at("demo").textContent = `DEMO: ${now.demo}`;
  const waiting = (now.gangs.WAITING ?? 0) + (now.gangs.STARVING ?? 0);
  const nodes = now.usable_nodes < now.nodes ? `${big.format(now.usable_nodes)} of ${big.format(now.nodes)}` : big.format(now.nodes);
  const counts = [[big.format(waiting), "waiting", "#/queue?state=waits"], [big.format(now.gangs.RUNNING ?? 0), "running", "#/queue?state=runs"], [nodes, "nodes", "#/cluster"]];
  put(at("counts"), ...counts.map(([number, what, address]) =>
    make("li", {}, link(address, make("b", {}, String(number)), ` ${what}`))));
}

at("skip").addEventListener("click", (event) => {
  event.preventDefault();
  at("main").focus();
});
addEventListener("hashchange", go);
document.addEventListener("visibilitychange", () => document.hidden || ask());
watchMesh(() => place);
watchQueue(() => place);
setInterval(tick, 1000);
go();
