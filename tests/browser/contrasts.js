() => {
  // Texts whose contrast with what is behind them is below 4.5 : 1 (WCAG 2, AA).
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
  const poor = [];
  for (const element of document.querySelectorAll("body *")) {
    const text = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!text || !element.checkVisibility() || element.closest(".skip, .hidden, option, noscript")) continue;
    const ground = behind(element);
    const [a, b] = [light(over([...ground, getComputedStyle(element).color])), light(over(ground))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) poor.push(`${element.tagName}.${element.className}: ${element.textContent.trim().slice(0, 30)} ${((a + 0.05) / (b + 0.05)).toFixed(2)}`);
  }
  return poor;
}
