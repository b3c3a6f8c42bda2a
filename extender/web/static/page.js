// The page: asks for news, hands each section to its panel, and keeps the heat-map of what is chosen.

import { at } from "./draw.js";
import { explain } from "./explain.js";
import { drawMesh, watchMesh } from "./heat.js";
import { panels, tick } from "./panels.js";
import { follow, get } from "./poll.js";

let metric = "loss";
let asked = null;

async function mesh() {
  asked?.abort();
  asked = new AbortController();
  const zone = at("zone").value;
  const address = `/v1/page/mesh?metric=${metric}${zone ? `&zone=${encodeURIComponent(zone)}` : ""}`;
  try {
    drawMesh(await (await get(address, asked.signal)).json());
  } catch (error) {
    if (error.name !== "AbortError") at("heat-cell").textContent = error.message;
  }
}

function open(zone) {
  at("zone").value = zone;
  mesh();
}

function start() {
  follow("/v1/page", {
    heard(name, section) {
      panels[name]?.(section, open, explain);
      if (name === "network") mesh();
      tick();
    },
    live() {
      at("state").textContent = "live";
      at("state").className = "state live";
    },
    lost() {
      at("state").textContent = "no connection, trying again";
      at("state").className = "state lost";
    },
  });
}

for (const tab of document.querySelectorAll("[data-metric]")) {
  tab.addEventListener("click", () => {
    metric = tab.dataset.metric;
    for (const other of document.querySelectorAll("[data-metric]")) other.setAttribute("aria-pressed", String(other === tab));
    mesh();
  });
}
at("zone").addEventListener("change", mesh);
for (const name of ["explain", "link"]) at(`${name}-close`).addEventListener("click", () => at(name).close());
watchMesh(open);
setInterval(tick, 1000);
setInterval(mesh, 60000);
start();
