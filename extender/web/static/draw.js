// Small ways to make elements and to say amounts. Texts are always set as text: names in a cluster are not markup.

export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name.includes("-") || name === "role" || name === "scope") element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

export const at = (id) => document.getElementById(id);

export function fill(id, children, otherwise = "") {
  const list = [...children];
  at(id).replaceChildren(...(list.length || !otherwise ? list : [make(emptyOf(at(id)), { class: "none" }, otherwise)]));
}

function emptyOf(parent) {
  return parent.tagName === "OL" || parent.tagName === "UL" ? "li" : "p";
}

export function duration(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${String(s % 60).padStart(2, "0")} s`;
  if (s < 172800) return `${Math.floor(s / 3600)} h ${String(Math.floor((s % 3600) / 60)).padStart(2, "0")} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

const three = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

export function value(metric, number) {
  if (number === null) return "no value";
  if (metric === "loss") return `${three.format(number * 100)} %`;
  if (metric === "delay") return `${three.format(number)} ms`;
  return number >= 1e9 ? `${three.format(number / 1e9)} Gbit/s` : `${three.format(number / 1e6)} Mbit/s`;
}

export function amount(resource, number) {
  if (resource === "cpu") return three.format(number / 1000);
  if (resource === "memory") return `${three.format(number / 2 ** 30)} Gi`;
  return three.format(number);
}

export const named = (resource) => (resource === "memory" || resource === "cpu" ? resource : resource.split("/").pop());

export const counted = (number, what) => `${number} ${number === 1 ? what.replace(/s$/, "") : what}`;
export const of = (shown, all, what) => (all > shown ? `first ${shown} of ${counted(all, what)}` : counted(all, what));
