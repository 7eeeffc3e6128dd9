// A conversation through /v1/chat/completions, as any client would have it.

import { byId, h, setText } from "./dom.js";
import { count, millis, seconds } from "./format.js";
import { headers, readEvents, whyNot } from "./live.js";
import { Answer } from "./tokens.js";

const TOP = 5;
const EXAMPLES = ["What is 12 + 30?", "What is 7 times 8?", "Say hello."];

const messages = [];
let running = null; // an AbortController
let whoAnswers = () => "";

const log = () => byId("chat-log");
const atEnd = () => log().scrollHeight - log().scrollTop - log().clientHeight < 48;
const toEnd = () => { log().scrollTop = log().scrollHeight; };

function greet() {
  const buttons = EXAMPLES.map((text) => h("button", { type: "button", class: "quiet example", text, onclick: () => ask(text) }));
  log().replaceChildren(h("div", { class: "empty" }, h("p", { text: "Answers stream token by token. Point at a token, or focus an answer and use the arrow keys, to see how likely it was." }),
    h("p", { class: "examples" }, ...buttons)));
}

function setBusy(busy) {
  byId("chat-send").disabled = busy;
  byId("chat-stop").hidden = !busy;
  byId("chat-new").disabled = busy;
}

function bubble(role, text) {
  const body = h("div", { class: "text" });
  if (text) setText(body, text);
  const about = h("p", { class: "about" });
  log().querySelector(".empty")?.remove();
  log().append(h("article", { class: `message ${role}`, "aria-label": role === "user" ? "You" : "Answer" }, body, about));
  return { body, about };
}

class Progress {
  constructor(about) {
    this.about = about;
    this.begin = performance.now();
    this.first = null;
    this.tokens = 0;
    this.who = "";
  }
  on(tokens) {
    if (tokens === 0) return;
    this.first ??= performance.now();
    this.tokens += tokens;
    // Asked while it runs: afterwards nobody is busy with it.
    this.who = whoAnswers();
    this.show("");
  }
  show(end) {
    const now = performance.now();
    const took = this.first === null ? 0 : (now - this.first) / 1000;
    const speed = this.tokens > 1 && took > 0 ? `${count((this.tokens - 1) / took)} tokens/s` : "";
    setText(this.about, [this.who, this.first === null ? "" : `first token ${millis(this.first - this.begin)}`,
      this.tokens > 0 ? `${count(this.tokens)} tokens` : "", speed, end].filter(Boolean).join(" · "));
  }
}

async function post(body, signal) {
  const send = (fields) => fetch("/v1/chat/completions", { method: "POST", signal, headers: { "Content-Type": "application/json", ...headers() },
    body: JSON.stringify(fields) });
  const response = await send({ ...body, logprobs: true, top_logprobs: TOP });
  if (response.status !== 400) return response;
  // A service without log-probabilities still answers.
  const { logprobs, top_logprobs, ...plain } = body;
  const again = await send(plain);
  return again.ok ? again : response;
}

const limit = (id, other) => {
  const value = Number(byId(id).value);
  return byId(id).value !== "" && Number.isFinite(value) ? value : other;
};

async function answer(body, progress, signal) {
  const shown = new Answer(body);
  const response = await post({ messages, stream: true, temperature: limit("chat-temperature", 0), max_tokens: limit("chat-max", 256) }, signal);
  if (!response.ok) throw new Error(await whyNot(response));
  let end = "";
  try {
    await readEvents(response.body, (data) => {
      if (data === "[DONE]") return;
      const chunk = JSON.parse(data);
      if (chunk.error) throw new Error(chunk.error.message);
      const choice = chunk.choices?.[0];
      if (!choice) return;
      const follow = atEnd();
      const tokens = choice.logprobs?.content ?? [];
      const text = choice.delta?.content ?? "";
      shown.add(text, tokens);
      progress.on(tokens.length || (text ? 1 : 0));
      if (choice.finish_reason && choice.finish_reason !== "stop") end = choice.finish_reason === "length" ? "cut at its length" : choice.finish_reason;
      if (follow) toEnd();
    });
  } finally {
    messages.push({ role: "assistant", content: shown.text });
  }
  return end;
}

async function ask(text) {
  if (running || !text.trim()) return;
  running = new AbortController();
  setBusy(true);
  messages.push({ role: "user", content: text });
  bubble("user", text);
  const { body, about } = bubble("assistant", "");
  body.parentNode.setAttribute("aria-busy", "true");
  const progress = new Progress(about);
  toEnd();
  try {
    progress.show(await answer(body, progress, running.signal));
  } catch (error) {
    const stopped = error.name === "AbortError";
    progress.show(stopped ? `stopped after ${seconds((performance.now() - progress.begin) / 1000)}` : "");
    if (!stopped) {
      body.parentNode.classList.add("failed");
      about.append(h("span", { class: "error", role: "alert", text: ` ${error.message}` }));
      // A question that got no answer is not part of what comes next.
      if (messages[messages.length - 1]?.role === "user") messages.pop();
    }
  }
  body.parentNode.removeAttribute("aria-busy");
  running = null;
  setBusy(false);
  toEnd();
}

export function startChat(who) {
  whoAnswers = who;
  greet();
  const text = byId("chat-text");
  const send = () => {
    if (running) return;
    const message = text.value;
    text.value = "";
    ask(message);
  };
  byId("chat-form").addEventListener("submit", (event) => {
    event.preventDefault();
    send();
    text.focus();
  });
  text.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send();
  });
  byId("chat-stop").addEventListener("click", () => running?.abort());
  byId("chat-new").addEventListener("click", () => {
    messages.length = 0;
    greet();
    text.focus();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") running?.abort();
    // As in many places of this kind, a slash goes to where one writes.
    if (event.key === "/" && !/^(INPUT|TEXTAREA)$/.test(document.activeElement?.tagName ?? "")) {
      event.preventDefault();
      text.focus();
    }
  });
}
