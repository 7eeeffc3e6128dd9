// What the gateway tells each second, for as long as the page is open; and the key that it may want.

const KEY = "tutti-key";
const LONGEST_WAIT_MS = 8000;
// Nothing for so long is a connection that is lost without a word.
const SILENCE_MS = 5000;

export const key = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set: (value) => (value ? sessionStorage.setItem(KEY, value) : sessionStorage.removeItem(KEY)),
};

export const headers = () => (key.get() ? { Authorization: `Bearer ${key.get()}` } : {});

// The message of an answer that is an error.
export async function whyNot(response) {
  try {
    const error = (await response.json()).error;
    if (error?.message) return String(error.message);
  } catch {
    // No JSON: the status has to do.
  }
  return `HTTP ${response.status}`;
}

// The events of a stream, as they come. `each` gets the text after "data: ".
export async function readEvents(body, each) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    for (let end = rest.indexOf("\n\n"); end >= 0; end = rest.indexOf("\n\n")) {
      const event = rest.slice(0, end);
      rest = rest.slice(end + 2);
      const data = event.split("\n").filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trimStart());
      if (data.length > 0) each(data.join("\n"));
    }
  }
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

// Calls on.event(object), on.state("live" | "lost" | "locked", why) for ever.
export async function follow(on) {
  for (let wait = 500; ; wait = Math.min(wait * 2, LONGEST_WAIT_MS)) {
    const controller = new AbortController();
    let watchdog = 0;
    const heard = () => {
      clearTimeout(watchdog);
      watchdog = setTimeout(() => controller.abort(), SILENCE_MS);
    };
    try {
      heard();
      const response = await fetch("/tutti/live", { headers: headers(), signal: controller.signal, cache: "no-store" });
      if (response.status === 401 || response.status === 403) {
        on.state("locked", await whyNot(response));
        clearTimeout(watchdog);
        await on.unlocked();
        wait = 250;
        continue;
      }
      if (!response.ok) throw new Error(await whyNot(response));
      await readEvents(response.body, (data) => {
        heard();
        on.state("live", "");
        on.event(JSON.parse(data));
        wait = 250;
      });
      throw new Error("the gateway has ended the connection");
    } catch (error) {
      on.state("lost", error.name === "AbortError" ? "the gateway is silent" : error.message);
    }
    clearTimeout(watchdog);
    await pause(wait);
  }
}
