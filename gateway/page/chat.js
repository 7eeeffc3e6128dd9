// Conversations through /v1/chat/completions, as any client would have them.

import { AnswerBubble, startCopies, userBubble } from "./bubbles.js";
import { byId, h, setText } from "./dom.js";
import { count, millis, seconds } from "./format.js";
import { forget, keep, readKept, titleOf } from "./kept.js";
import { headers, readEvents, whyNot } from "./live.js";

const TOP = 5;
const EXAMPLES = ["What is 12 + 30?", "What is 7 times 8?", "Say hello."];

const fresh = () => ({ id: `${Date.now().toString(36)}-${Math.random().toString(36).slice(2, 8)}`, system: "", messages: [] });
let conversation = fresh();
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
  byId("chat-send").hidden = busy;
  byId("chat-stop").hidden = !busy;
  for (const id of ["chat-new", "chat-kept", "chat-forget"]) byId(id).disabled = busy;
}

function show(bubble) {
  log().querySelector(".empty")?.remove();
  log().append(bubble.node);
  return bubble;
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
  const again = await send(body);
  return again.ok ? again : response;
}

// What is not said is the model's own, by its generation_config.json.
function sampling() {
  const fields = {};
  for (const [id, name] of [["chat-temperature", "temperature"], ["chat-max", "max_tokens"]]) {
    const value = Number(byId(id).value);
    if (byId(id).value !== "" && Number.isFinite(value)) fields[name] = value;
  }
  return fields;
}

function request() {
  const system = conversation.system.trim();
  const said = conversation.messages.map(({ role, content }) => ({ role, content }));
  return { messages: [...(system ? [{ role: "system", content: system }] : []), ...said], stream: true, ...sampling() };
}

async function stream(bubble, progress, signal) {
  const response = await post(request(), signal);
  if (!response.ok) throw new Error(await whyNot(response));
  let end = "";
  bubble.answer.ondraw = () => { if (bubble.follows) toEnd(); };
  await readEvents(response.body, (data) => {
    if (data === "[DONE]") return;
    const chunk = JSON.parse(data);
    if (chunk.error) throw new Error(chunk.error.message);
    const choice = chunk.choices?.[0];
    if (!choice) return;
    bubble.follows = atEnd();
    const tokens = choice.logprobs?.content ?? [];
    const text = choice.delta?.content ?? "", thought = choice.delta?.reasoning ?? "";
    bubble.add({ thought, text, tokens });
    progress.on(tokens.length || (text || thought ? 1 : 0));
    if (choice.finish_reason && choice.finish_reason !== "stop") end = choice.finish_reason === "length" ? "cut at its length" : choice.finish_reason;
    if (bubble.follows) toEnd();
  });
  return end;
}

// An answer to the conversation as it stands.
async function answer() {
  running = new AbortController();
  setBusy(true);
  const bubble = show(new AnswerBubble(regenerate));
  const progress = new Progress(bubble.about);
  bubble.begin();
  toEnd();
  try {
    progress.show(await stream(bubble, progress, running.signal));
  } catch (error) {
    const stopped = error.name === "AbortError";
    progress.show(stopped ? `stopped after ${seconds((performance.now() - progress.begin) / 1000)}` : "");
    if (!stopped) bubble.fail(error.message);
  }
  bubble.end();
  const { text } = bubble.answer, reasoning = bubble.thinking.text;
  if (text || reasoning) {
    conversation.messages.push({ role: "assistant", content: text, ...(reasoning ? { reasoning } : {}) });
    keep(conversation);
    listKept();
  } else if (bubble.node.classList.contains("failed")) {
    // A question that got no answer is not part of what comes next.
    conversation.messages.pop();
  }
  running = null;
  setBusy(false);
  toEnd();
}

function ask(text) {
  if (running || !text.trim()) return;
  conversation.messages.push({ role: "user", content: text });
  show(userBubble(text));
  answer();
}

function regenerate() {
  if (running) return;
  while (conversation.messages.at(-1)?.role === "assistant") conversation.messages.pop();
  if (conversation.messages.length === 0) return;
  log().querySelector(".message.assistant:last-child")?.remove();
  answer();
}

function listKept() {
  const chosen = conversation.id;
  byId("chat-kept").replaceChildren(h("option", { value: "", text: "this browser’s" }),
    ...readKept().map((one) => h("option", { value: one.id, text: titleOf(one) })));
  byId("chat-kept").value = readKept().some((one) => one.id === chosen) ? chosen : "";
  byId("chat-forget").hidden = byId("chat-kept").value === "";
}

function open(other) {
  conversation = other;
  byId("chat-system").value = conversation.system ?? "";
  byId("chat-system-fold").open = Boolean(conversation.system);
  greet();
  for (const message of conversation.messages) {
    if (message.role === "user") show(userBubble(String(message.content)));
    else show(new AnswerBubble(regenerate)).restore(message);
  }
  listKept();
  requestAnimationFrame(toEnd);
}

function startKept() {
  byId("chat-kept").addEventListener("change", (event) => {
    const found = readKept().find((one) => one.id === event.target.value);
    open(found ? { system: "", ...found } : fresh());
  });
  byId("chat-forget").addEventListener("click", () => {
    forget(conversation.id);
    open(fresh());
  });
  byId("chat-new").addEventListener("click", () => {
    open(fresh());
    byId("chat-text").focus();
  });
  byId("chat-system").addEventListener("input", (event) => { conversation.system = event.target.value; });
}

function startKeys(send) {
  const text = byId("chat-text");
  text.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") running?.abort();
    // As in many places of this kind, a slash goes to where one writes.
    if (event.key === "/" && !/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName ?? "")) {
      event.preventDefault();
      text.focus();
    }
  });
}

export function startChat(who) {
  whoAnswers = who;
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
  startKeys(send);
  startCopies(log());
  byId("chat-stop").addEventListener("click", () => running?.abort());
  startKept();
  open(fresh());
}
