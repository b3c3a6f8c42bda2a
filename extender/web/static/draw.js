// Small ways to make elements and to say amounts. Texts are always set as text: names in a cluster are not markup.

export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") element.className = value;
    else if (name.includes("-") || name === "role" || name === "scope" || name === "href") element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== "" && child !== false));
  return element;
}

export const at = (id) => document.getElementById(id);

export async function get(address) {
  const answer = await fetch(address, { cache: "no-cache" });
  if (!answer.ok) throw new Error((await answer.json().catch(() => ({}))).detail ?? answer.statusText);
  return answer.json();
}

// Puts children into an element; only what differs is touched, so focus, selection and scrolling stay.
export function put(parent, ...children) {
  merge(parent, [...make("div", {}, ...children).childNodes]);
}

function merge(parent, fresh) {
  const old = [...parent.childNodes];
  fresh.forEach((node, number) => (number < old.length ? patch(old[number], node) : parent.append(node)));
  old.slice(fresh.length).forEach((node) => node.remove());
}

function patch(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  if (old.nodeType !== Node.ELEMENT_NODE || old.tagName !== fresh.tagName) return void old.replaceWith(fresh);
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  merge(old, [...fresh.childNodes]);
}

const FIRST = 30;  // rows of a list that are filled at once; the others are when they come near, or in idle time
const drawn = new WeakMap();  // list → key → entry
const entries = new WeakMap();  // element → entry
const later = [];

// One element an item, each drawn again only when its item changed.
export function rows(list, items, key, draw) {
  const before = drawn.get(list) ?? new Map();
  const now = new Map(items.map((item) => [key(item), item]));
  for (const [name, { element }] of before) if (!now.has(name)) element.remove();
  let next = list.firstElementChild;
  let number = 0;
  for (const [name, item] of now) {
    const entry = before.get(name) ?? { element: make("li", { class: "row", "data-key": name }), filled: false };
    const text = JSON.stringify(item);
    const news = entry.text !== text;
    Object.assign(entry, { text, item, draw });
    if (!before.has(name)) {
      entries.set(entry.element, entry);
      if (number < FIRST) fill(entry.element);
      else if (later.push(entry.element) === 1) idle();
    } else if (news && entry.filled) patch(entry.element, draw(item));
    if (entry.element === next) next = next.nextElementSibling;
    else list.insertBefore(entry.element, next);
    now.set(name, entry);
    number += 1;
  }
  drawn.set(list, now);
}

export function fill(element) {
  const entry = entries.get(element);
  if (!entry.filled) patch(element, entry.draw(entry.item));
  entry.filled = true;
}

function idle() {
  setTimeout(() => {
    later.splice(0, 20).forEach(fill);
    if (later.length) idle();
  }, 30);
}

export const link = (address, ...children) => make("a", { href: address }, ...children);
export const to = (...parts) => `#/${parts.map(encodeURIComponent).join("/")}`;
export const gangLink = (gang, ...children) =>
  link(to("queue", gang.split("/")[0], gang.slice(gang.indexOf("/") + 1)), ...(children.length ? children : [gang]));
export const nodeLink = (node) => link(to("network", node), node);

// Columns without a word are left out; on a telephone each cell has the head of its column before it.
export function table(allHeads, allLines, label) {
  const some = allHeads.map((_, number) => allLines.some((line) => line[number]));
  const [heads, ...lines] = [allHeads, ...allLines].map((line) => line.filter((_, number) => some[number]));
  return make("table", { "aria-label": label },
    make("thead", {}, make("tr", {}, ...heads.map((head) => make("th", { scope: "col" }, head)))),
    make("tbody", {}, ...lines.map((line) => make("tr", {}, ...line.map((cell, number) =>
      make("td", { "data-head": heads[number] }, ...[cell ?? ""].flat()))))));
}

export function duration(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 172800) return `${Math.floor(s / 3600)} h ${String(Math.floor((s % 3600) / 60)).padStart(2, "0")} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

// How long ago a moment is; `tick` counts it up.
export function since(moment, tail = "") {
  return make("time", { "data-since": moment, "data-tail": tail, title: new Date(moment * 1000).toLocaleString() },
    duration(Date.now() / 1000 - moment) + tail);
}

export function tick() {
  for (const element of document.querySelectorAll("[data-since]")) {
    const text = duration(Date.now() / 1000 - Number(element.dataset.since)) + element.dataset.tail;
    if (element.textContent !== text) element.textContent = text;
  }
}

export function moment(at_s) {
  const time = new Date(at_s * 1000);
  const day = time.toDateString() === new Date().toDateString() ? {} : { day: "numeric", month: "short" };
  return time.toLocaleString("en-GB", { hour: "2-digit", minute: "2-digit", ...day });
}

const three = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
export const big = new Intl.NumberFormat("en");
export const byName = new Intl.Collator("en", { numeric: true }).compare;

export function value(metric, number) {
  if (number === null) return "no value";
  if (metric === "loss") return `${three.format(number * 100)} %`;
  if (metric === "delay") return `${three.format(number)} ms`;
  return number >= 1e9 ? `${three.format(number / 1e9)} Gbit/s` : `${three.format(number / 1e6)} Mbit/s`;
}

export function amount(resource, number) {
  if (resource === "cpu") return three.format(number / 1000);
  if (resource === "memory") return `${big.format(Math.round(number / 2 ** 30))} Gi`;
  return big.format(number);
}

export function named(resource) {
  const name = resource.split("/").pop();
  return { gpu: "GPUs", cpu: "CPUs", memory: "memory" }[name] ?? name;
}

export const counted = (number, what) => `${big.format(number)} ${number === 1 ? what.replace(/s$/, "") : what}`;
export const zoneName = (zone) => (zone ? `zone ${zone}` : "no zone");
export const zonesName = (zones) => (zones.includes(",") ? `zones ${zones.replaceAll(",", ", ")}` : zoneName(zones));
