// Server-sent events through fetch. Comes back by itself when the line breaks.

export async function get(address, signal) {
  const answer = await fetch(address, { signal, cache: "no-store" });
  if (!answer.ok) throw new Error(`${answer.status} ${(await answer.json().catch(() => ({}))).detail ?? answer.statusText}`);
  return answer;
}

export async function follow(address, { heard, live, lost }) {
  for (let pause = 500; ; pause = Math.min(pause * 2, 8000)) {
    try {
      const answer = await get(address);
      live();
      for await (const [name, data] of events(answer.body)) {
        pause = 500;
        heard(name, JSON.parse(data));
      }
    } catch {
      // told by lost
    }
    lost();
    await new Promise((done) => setTimeout(done, pause * (0.7 + 0.6 * Math.random())));
  }
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const found = /^event: (\w+)\ndata: (.*)$/s.exec(part);
      if (found) yield [found[1], found[2]];
    }
  }
}
