// A message of the conversation as it is shown: its text, what was thought before it, and what can be done with it.

import { h, setText } from "./dom.js";
import { seconds } from "./format.js";
import { Answer } from "./tokens.js";

export async function copyText(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // A page of http:// from elsewhere has no clipboard.
    const area = h("textarea", { class: "aside" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  const before = button.textContent;
  setText(button, "copied");
  setTimeout(() => setText(button, before), 1500);
}

// Buttons of code blocks, wherever they are.
export function startCopies(log) {
  log.addEventListener("click", (event) => {
    const button = event.target.closest?.("button.copy");
    if (button?.dataset.copies !== undefined) copyText(button.dataset.copies, button);
  });
}

// Milliseconds as whole seconds, one at least.
const whole = (ms) => (ms < 10e3 ? `${Math.max(1, Math.round(ms / 1000))} s` : seconds(ms / 1000));

// What a model thinks before it answers, folded.
class Thinking {
  constructor() {
    this.summary = h("summary");
    this.body = h("div", { class: "thought" });
    this.node = h("details", { class: "thinking", hidden: true }, this.summary, this.body);
    this.text = "";
    this.begin = 0;
    this.took = 0;
  }
  add(text) {
    this.begin ||= performance.now();
    this.text += text;
    this.node.hidden = false;
    setText(this.body, this.text);
    setText(this.summary, `thinks for ${whole(performance.now() - this.begin)}`);
  }
  end() {
    if (this.begin === 0 || this.took > 0) return;
    this.took = performance.now() - this.begin;
    setText(this.summary, `thought for ${whole(this.took)}`);
  }
  restore(text) {
    if (!text) return;
    this.text = text;
    this.node.hidden = false;
    setText(this.body, text);
    setText(this.summary, "what it thought");
  }
}

export function userBubble(text) {
  return { node: h("article", { class: "message user", "aria-label": "You" }, h("div", { class: "text plain", text })) };
}

export class AnswerBubble {
  // `again`: called for another answer to the same question.
  constructor(again) {
    this.body = h("div", { class: "text" });
    this.about = h("p", { class: "about" });
    this.thinking = new Thinking();
    this.copy = h("button", { type: "button", class: "quiet", text: "copy", onclick: () => copyText(this.answer.text, this.copy) });
    this.again = h("button", { type: "button", class: "quiet again", text: "again", title: "Ask for another answer", onclick: again });
    this.actions = h("p", { class: "actions", hidden: true }, this.copy, this.again);
    this.node = h("article", { class: "message assistant", "aria-label": "Answer" }, this.thinking.node, this.body, this.about, this.actions);
    this.answer = new Answer(this.body);
  }

  // A part of the answer: what was thought, what is said, and the tokens of either.
  add({ thought, text, tokens }) {
    if (thought) this.thinking.add(thought);
    if (this.thinking.text && this.answer.text === "") {
      // Tokens of the thought, and of the mark at its end, are no tokens of the answer.
      if (!text) return;
      this.answer.begin(text, tokens);
    }
    if (text) this.thinking.end();
    this.answer.add(text, tokens);
  }

  begin() {
    this.node.setAttribute("aria-busy", "true");
  }
  end() {
    this.node.removeAttribute("aria-busy");
    this.thinking.end();
    this.actions.hidden = this.answer.text === "" && this.thinking.text === "";
  }
  fail(message) {
    this.node.classList.add("failed");
    this.about.append(h("span", { class: "error", role: "alert", text: ` ${message}` }));
  }
  restore({ content, reasoning }) {
    this.thinking.restore(reasoning);
    this.answer.add(String(content ?? ""), []);
    this.end();
  }
}
