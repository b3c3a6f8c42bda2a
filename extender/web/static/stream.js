// Server-sent events through fetch, because EventSource cannot show a token. Comes back by itself when the line breaks.

let token = "";

export async function get(address, signal) {
  const headers = token ? { authorization: `Bearer ${token}` } : {};
  const answer = await fetch(address, { headers, signal, cache: "no-store" });
  if (answer.status === 401 || answer.status === 403) throw new Refused(answer.status);
  if (!answer.ok) throw new Error(`${answer.status} ${(await answer.json().catch(() => ({}))).detail ?? answer.statusText}`);
  return answer;
}

export class Refused extends Error {}

export function show(secret) {
  token = secret;
}

export async function follow(address, { heard, live, lost, refused }) {
  for (let pause = 500; ; pause = Math.min(pause * 2, 8000)) {
    try {
      const answer = await get(address);
      live();
      for await (const [name, data] of events(answer.body)) {
        pause = 500;
        heard(name, JSON.parse(data));
      }
    } catch (error) {
      if (error instanceof Refused) return refused(error);
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
