// An answer as the tokens it was made of, each with its log-probability, in the Markdown that they make.

import { byId, h, setLength } from "./dom.js";
import { percent } from "./format.js";
import { readMarkdown } from "./markdown.js";

const shown = (text) => text.replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/ /g, "␣") || "(part of a character)";

// The text of an answer comes when it is certain, its tokens when they are drawn: a token may be
// ahead of the text, and an end of turn never is in it.
export class Answer {
  constructor(node) {
    this.node = node;
    this.text = "";
    this.tokens = [];
    this.decoder = new TextDecoder();
    this.decoded = 0; // characters of all tokens so far
    this.active = -1;
    this.blocks = []; // {from, to, source, node}
    this.waiting = false;
    node.addEventListener("keydown", (event) => this.onKey(event));
    node.addEventListener("blur", () => this.choose(-1));
    node.addEventListener("pointerover", (event) => this.choose(Number(event.target.dataset.token ?? -1)));
    node.addEventListener("pointerleave", () => this.choose(-1));
  }

  // The first text, where the first of its tokens may begin before it.
  begin(text, tokens) {
    const said = tokens.map((token) => token.token).join("");
    this.decoded = -Math.max(0, said.indexOf(text));
  }

  // `tokens`: of this text, in order.
  add(text, tokens) {
    this.text += text;
    for (const token of tokens) {
      const from = this.decoded;
      const piece = token.bytes ? this.decoder.decode(new Uint8Array(token.bytes), { stream: true }) : token.token;
      this.decoded += piece.length;
      this.tokens.push({ ...token, from, to: this.decoded });
    }
    if (this.tokens.length > 0) this.node.tabIndex = 0;
    // Many tokens may come between two pictures of the screen.
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.waiting = false;
    const same = (i, from, to) => this.blocks[i]?.from === from && this.blocks[i].source === this.text.slice(from, to);
    let place = 0;
    const next = readMarkdown(this.text, (piece, from) => this.leaf(piece, from), (from, to) => same(place++, from, to));
    for (const [i, block] of next.entries()) {
      block.source = this.text.slice(block.from, block.to);
      if (block.node === null) block.node = this.blocks[i].node;
      else if (this.blocks[i]) this.blocks[i].node.replaceWith(block.node);
      else this.node.append(block.node);
    }
    for (const block of this.blocks.slice(next.length)) block.node.remove();
    this.blocks = next;
    this.ondraw?.();
  }

  // A piece of the text as an element for each token in it.
  leaf(text, from) {
    const to = from + text.length, nodes = [];
    let at = from;
    for (let i = this.tokenAt(from); i < this.tokens.length && at < to; ++i) {
      const end = Math.min(to, this.tokens[i].to);
      if (end <= at) continue;
      const span = h("span", { class: "token", "data-token": i, text: text.slice(at - from, end - from) });
      setLength(span, "--doubt", (1 - Math.exp(Math.min(0, this.tokens[i].logprob))).toFixed(3));
      nodes.push(span);
      at = end;
    }
    if (at < to) nodes.push(text.slice(at - from));
    return nodes;
  }

  // The first token that ends behind this place.
  tokenAt(place) {
    let low = 0, high = this.tokens.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.tokens[middle].to <= place) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  spans(index) {
    return index < 0 ? [] : [...this.node.querySelectorAll(`[data-token="${index}"]`)];
  }

  onKey(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1, Home: 1, End: -1 }[event.key];
    if (event.key === "Escape") this.choose(-1);
    if (step === undefined || event.target !== this.node) return;
    event.preventDefault();
    let next = event.key === "Home" ? 0 : event.key === "End" ? this.tokens.length - 1 : this.active + step;
    // Marks of Markdown are not to be seen.
    while (next >= 0 && next < this.tokens.length && this.spans(next).length === 0) next += step;
    if (next >= 0 && next < this.tokens.length) this.choose(next);
  }

  choose(index) {
    if (index === this.active) return;
    for (const span of this.spans(this.active)) span.classList.remove("active");
    this.active = index;
    const card = byId("token-card");
    const spans = this.spans(index);
    card.hidden = spans.length === 0;
    if (card.hidden) return;
    for (const span of spans) span.classList.add("active");
    showCard(card, this.tokens[index], spans[0]);
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
