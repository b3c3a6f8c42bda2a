// What the tests look for in the page, each of it a function.
({
  // Texts that are cut or leave their box, and texts whose contrast with what is behind them is below 4.5 : 1 (WCAG 2, AA).
  faults() {
    const linear = (part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    const light = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
    const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const over = (colours) => {
      pen.clearRect(0, 0, 1, 1);
      for (const colour of colours) {
        pen.fillStyle = colour;
        pen.fillRect(0, 0, 1, 1);
      }
      return [...pen.getImageData(0, 0, 1, 1).data];
    };
    const behind = (element) => (element ? [...behind(element.parentElement), getComputedStyle(element).backgroundColor] : ["white"]);
    const known = new Map();
    const contrast = (element) => {
      const grounds = behind(element);
      const colour = getComputedStyle(element).color;
      const key = [...grounds, colour].join();
      if (!known.has(key)) {
        const [a, b] = [light(over([...grounds, colour])), light(over(grounds))].sort((x, y) => y - x);
        known.set(key, (a + 0.05) / (b + 0.05));
      }
      return known.get(key);
    };
    const poor = document.documentElement.scrollWidth > innerWidth ? ["the page is wider than its window"] : [];
    for (const element of document.querySelectorAll("body *")) {
      const text = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
      if (!text || !element.checkVisibility() || element.closest(".skip, .hidden, option, noscript, svg")) continue;
      const box = element.getBoundingClientRect();
      const named = `${element.tagName}.${element.className}: ${element.textContent.trim().slice(0, 30)}`;
      if (box.left < -1 || box.right > innerWidth + 1 || element.scrollWidth > element.clientWidth + 1 && element.clientWidth) poor.push(`${named} is cut`);
      if (contrast(element) < 4.5) poor.push(`${named} ${contrast(element).toFixed(2)}`);
    }
    return poor;
  },

  // Milliseconds from the answer until 1,000 rows are drawn.
  async untilDrawn() {
    while (document.querySelectorAll(".rows > li").length < 1000) await new Promise(requestAnimationFrame);
    await new Promise(requestAnimationFrame);
    const [answer] = performance.getEntriesByType("resource").filter(({ name }) => name.includes("v1/page"));
    return performance.now() - answer.responseEnd;
  },

  async untilFound(text) {
    const [box, began] = [document.getElementById("q"), performance.now()];
    box.value = text;
    box.dispatchEvent(new Event("input"));
    await new Promise(requestAnimationFrame);
    return performance.now() - began;
  },

  // Gives each place where Tab may stop a number; how many there are.
  stops() {
    const stops = [...document.querySelectorAll("a, button, input, select, canvas")].filter((one) => one.checkVisibility());
    return stops.map((one, number) => (one.stop = number)).length;
  },

  addresses() {
    const links = [...document.querySelectorAll("a:not(.skip)")].filter((one) => one.checkVisibility());
    return [...new Set(links.map((one) => one.getAttribute("href")))];
  },

  // The states as they look.
  chips() {
    return [...new Set([...document.querySelectorAll(".chip")].map((one) => one.textContent + getComputedStyle(one).color))];
  },

  // Where the parts of the first row begin.
  tops(...parts) {
    return parts.map((part) => document.querySelector(`#waiting-rows ${part}`).getBoundingClientRect().top);
  },

  // How many colours the heat-map has.
  colours() {
    const canvas = document.getElementById("heat");
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return new Set(new Uint32Array(data.buffer)).size;
  },
})
