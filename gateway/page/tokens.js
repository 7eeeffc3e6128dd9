// An answer as the tokens it was made of, each with its log-probability.

import { byId, h, setLength, setText } from "./dom.js";
import { percent } from "./format.js";

const shown = (text) => text.replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/ /g, "␣") || "(part of a character)";

// The text of an answer comes when it is certain, its tokens when they are drawn: a token may be
// ahead of the text, and an end of turn never is in it.
export class Answer {
  constructor(node) {
    this.node = node;
    this.text = "";
    this.tokens = [];
    this.spans = [];
    this.decoder = new TextDecoder();
    this.decoded = 0; // characters of all tokens so far
    this.active = -1;
    node.addEventListener("keydown", (event) => this.onKey(event));
    node.addEventListener("blur", () => this.choose(-1));
    node.addEventListener("pointerover", (event) => this.choose(this.spans.indexOf(event.target)));
    node.addEventListener("pointerleave", () => this.choose(-1));
  }

  add(text, tokens) {
    this.text += text;
    for (const token of tokens) {
      const from = this.decoded;
      const piece = token.bytes ? this.decoder.decode(new Uint8Array(token.bytes), { stream: true }) : token.token;
      this.decoded += piece.length;
      this.tokens.push({ ...token, from, to: this.decoded });
      const span = h("span", { class: "token" });
      const probability = Math.exp(Math.min(0, token.logprob));
      setLength(span, "--doubt", (1 - probability).toFixed(3));
      this.spans.push(span);
      this.node.append(span);
    }
    if (this.tokens.length === 0) return setText(this.node, this.text);
    // Only the last ones can have changed.
    for (let i = this.tokens.length - 1; i >= 0; --i) {
      const { from, to } = this.tokens[i];
      const piece = this.text.slice(from, i === this.tokens.length - 1 ? Math.max(to, this.text.length) : to);
      if (this.spans[i].textContent === piece && piece.length === to - from) break;
      setText(this.spans[i], piece);
    }
    this.node.tabIndex = 0;
  }

  onKey(event) {
    const last = this.spans.length - 1;
    const next = { ArrowRight: this.active + 1, ArrowLeft: this.active - 1, Home: 0, End: last, Escape: -1 }[event.key];
    if (next === undefined) return;
    if (event.key !== "Escape") event.preventDefault();
    this.choose(event.key === "Escape" ? -1 : Math.max(0, Math.min(last, next)));
  }

  choose(index) {
    this.spans[this.active]?.classList.remove("active");
    this.active = index;
    const card = byId("token-card");
    card.hidden = index < 0;
    if (index < 0) return;
    this.spans[index].classList.add("active");
    showCard(card, this.tokens[index], this.spans[index]);
  }
}

function rowOf({ token, logprob }, isIt) {
  const probability = Math.exp(Math.min(0, logprob));
  const bar = h("span", { class: "prob" }, h("span"));
  setLength(bar.firstChild, "width", `${probability * 100}%`);
  return h("li", { class: isIt ? "it" : "" }, h("code", { text: shown(token) }), bar,
    h("span", { class: "figure", text: percent(probability) }), h("span", { class: "figure faint", text: logprob.toFixed(3) }));
}

function showCard(card, token, span) {
  const others = token.top_logprobs ?? [];
  const rows = others.map((other) => rowOf(other, other.token === token.token));
  if (!others.some((other) => other.token === token.token)) rows.push(rowOf(token, true));
  card.replaceChildren(h("p", { text: "log-probability, natural" }), h("ol", {}, ...rows));
  const box = span.getBoundingClientRect(), size = card.getBoundingClientRect();
  const left = Math.max(8, Math.min(box.left, innerWidth - size.width - 8));
  const above = box.top - size.height - 6;
  setLength(card, "left", `${left}px`);
  setLength(card, "top", `${above > 8 ? above : box.bottom + 6}px`);
}
