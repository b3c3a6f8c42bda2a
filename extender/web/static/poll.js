// Asks for the page's sections again and again, and hands on those that are new.

const EVERY_MS = 2000;

export async function get(address, signal) {
  const answer = await fetch(address, { signal, cache: "no-cache" });
  if (!answer.ok) throw new Error(`${answer.status} ${(await answer.json().catch(() => ({}))).detail ?? answer.statusText}`);
  return answer;
}

export async function follow(address, { heard, live, lost }) {
  const last = {};
  for (let pause = EVERY_MS; ; ) {
    try {
      const sections = await (await get(address)).json();
      live();
      for (const [name, section] of Object.entries(sections)) {
        const text = JSON.stringify(section);
        if (text !== last[name]) heard(name, section);
        last[name] = text;
      }
      pause = EVERY_MS;
    } catch {
      lost();
      pause = Math.min(pause * 2, 8000);
    }
    await new Promise((done) => setTimeout(done, pause));
  }
}
