// The Markdown that models write, as elements: headings, lists, quotes, tables, code, emphasis and links. All text goes through
// `leaf(text, from)`, which gets the place of the text in the source, so that it can tell the tokens in it apart. Nothing of the source
// becomes markup of its own.

import { h } from "./dom.js";

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]*)[^`]*$/;
const HEADING = /^ {0,3}(#{1,6}) +(.*)$/;
const ITEM = /^( *)(?:[-*+]|(\d{1,9})[.)]) +(?=\S)/;
const QUOTE = /^ {0,3}> ?/;
const RULE = /^ {0,3}([-*_])( *\1){2,} *$/;
const ROW = /^ *\|.*\| *$/;
const DIVISION = /^ *\|( *:?-+:? *\|)+ *$/;
// Depth of lists and quotes; what is deeper is text.
const DEEPEST = 8;

// Each line of the source with its place.
function linesOf(text) {
  let at = 0;
  return text.split("\n").map((line) => {
    const one = { text: line, from: at };
    at += line.length + 1;
    return one;
  });
}

const begins = (line) => FENCE.test(line) || HEADING.test(line) || ITEM.test(line) || QUOTE.test(line) || RULE.test(line) || ROW.test(line);
const cut = ({ text, from }, count) => ({ text: text.slice(count), from: from + count });

// Code, links, strong and slanted text; `lines` are joined by breaks.
const INLINE = /(`+)([^`](?:.*?[^`])?)\1(?!`)|\[([^\]\n]+)\]\((https?:\/\/[^\s)]+)\)|(\*\*|__)(?=\S)(.+?\S|\S)\5|(?<![\w*])([*_])(?=[^\s*_])(.+?[^\s*_]|[^\s*_])\7(?![\w*])/;

function inline(text, from, leaf, depth = 0) {
  const nodes = [];
  while (text) {
    const found = depth < DEEPEST ? INLINE.exec(text) : null;
    const before = found ? text.slice(0, found.index) : text;
    if (before) nodes.push(...leaf(before, from));
    if (!found) break;
    const at = from + found.index;
    const [whole, ticks, code, words, link, strong, strongText, slant, slantText] = found;
    if (ticks) nodes.push(h("code", {}, ...leaf(code, at + ticks.length)));
    else if (link) nodes.push(h("a", { href: link, target: "_blank", rel: "noopener noreferrer" }, ...inline(words, at + 1, leaf, depth + 1)));
    else if (strong) nodes.push(h("strong", {}, ...inline(strongText, at + 2, leaf, depth + 1)));
    else if (slant) nodes.push(h("em", {}, ...inline(slantText, at + 1, leaf, depth + 1)));
    text = text.slice(found.index + whole.length);
    from = at + whole.length;
  }
  return nodes;
}

const paragraph = (lines, leaf) => lines.flatMap((line, i) => [...(i > 0 ? [h("br")] : []), ...inline(line.text, line.from, leaf)]);

function codeBlock(lines, language, leaf) {
  const copy = h("button", { type: "button", class: "quiet copy", text: "copy", "aria-label": "Copy this code" });
  copy.dataset.copies = lines.map((line) => line.text).join("\n");
  const inside = lines.flatMap((line, i) => [...(i > 0 ? ["\n"] : []), ...leaf(line.text, line.from)]);
  return h("figure", { class: "code" }, h("figcaption", {}, h("span", { text: language || "code" }), copy), h("pre", { tabindex: "0" }, h("code", {}, ...inside)));
}

function cells(line) {
  const found = [];
  const from = line.text.indexOf("|") + 1, end = line.text.lastIndexOf("|");
  let at = from;
  for (let i = from; i <= end; ++i) {
    if (line.text[i] !== "|" || line.text[i - 1] === "\\") continue;
    const piece = line.text.slice(at, i);
    const lead = piece.length - piece.trimStart().length;
    found.push({ text: piece.trim(), from: line.from + at + lead });
    at = i + 1;
  }
  return found;
}

function table(lines, leaf) {
  const row = (line, tag) => h("tr", {}, ...cells(line).map((cell) => h(tag, {}, ...inline(cell.text, cell.from, leaf))));
  return h("div", { class: "rows" }, h("table", {}, h("thead", {}, row(lines[0], "th")), h("tbody", {}, ...lines.slice(2).map((line) => row(line, "td")))));
}

// Items of one list, each with the lines that are further in.
function list(lines, leaf, depth) {
  const first = ITEM.exec(lines[0].text);
  const items = [];
  for (const line of lines) {
    const head = ITEM.exec(line.text);
    if (head && head[1].length <= first[1].length + 1) items.push([cut(line, head[0].length)]);
    else items[items.length - 1].push(cut(line, Math.min(line.text.length - line.text.trimStart().length, first[0].length)));
  }
  const props = first[2] ? { start: first[2] } : {};
  return h(first[2] ? "ol" : "ul", props, ...items.map((item) => h("li", {}, ...blocks(item, leaf, depth + 1).map(({ node }) => node))));
}

// A run of lines from `i`, and what it is.
function take(lines, i) {
  const line = lines[i].text;
  const until = (holds) => {
    let end = i + 1;
    while (end < lines.length && holds(lines[end].text, end)) ++end;
    return end;
  };
  const fence = FENCE.exec(line);
  if (fence) {
    const closes = (text) => text.trimStart().startsWith(fence[1]) && text.trim().replace(/[`~]/g, "") === "";
    const end = until((text) => !closes(text));
    return { kind: "code", end: Math.min(end + 1, lines.length), inside: lines.slice(i + 1, end), language: fence[2] };
  }
  if (HEADING.test(line)) return { kind: "heading", end: i + 1 };
  if (RULE.test(line)) return { kind: "rule", end: i + 1 };
  if (QUOTE.test(line)) return { kind: "quote", end: until((text) => QUOTE.test(text)) };
  if (ITEM.test(line)) {
    return { kind: "list", end: until((text, at) => ITEM.test(text) || /^ {2,}\S/.test(text) || (text === "" && /^( {2,}\S|( *)([-*+]|\d+[.)]) )/.test(lines[at + 1]?.text ?? ""))) };
  }
  if (ROW.test(line) && DIVISION.test(lines[i + 1]?.text ?? "")) return { kind: "table", end: until((text) => ROW.test(text)) };
  return { kind: "text", end: until((text) => text.trim() !== "" && !begins(text)) };
}

function make(kind, lines, taken, leaf, depth) {
  if (kind === "code") return codeBlock(taken.inside, taken.language, leaf);
  if (kind === "rule") return h("hr");
  if (kind === "table") return table(lines, leaf);
  if (kind === "heading") {
    const [, marks, words] = HEADING.exec(lines[0].text);
    return h(`h${Math.min(6, marks.length + 2)}`, {}, ...inline(words, lines[0].from + lines[0].text.length - words.length, leaf));
  }
  if (kind === "quote") {
    return h("blockquote", {}, ...blocks(lines.map((line) => cut(line, QUOTE.exec(line.text)[0].length)), leaf, depth + 1).map(({ node }) => node));
  }
  return kind === "list" ? list(lines, leaf, depth) : h("p", {}, ...paragraph(lines, leaf));
}

// The blocks of some lines: [{from, to, node}], of which `skip(from, to)` may leave out a node that is there already.
function blocks(lines, leaf, depth = 0, skip = () => false) {
  const made = [];
  for (let i = 0; i < lines.length;) {
    if (lines[i].text.trim() === "") {
      ++i;
      continue;
    }
    const taken = depth < DEEPEST ? take(lines, i) : { kind: "text", end: lines.length };
    const run = lines.slice(i, taken.end), last = run[run.length - 1];
    const from = run[0].from, to = last.from + last.text.length;
    made.push({ from, to, node: skip(from, to) ? null : make(taken.kind, run, taken, leaf, depth) });
    i = taken.end;
  }
  return made;
}

export const readMarkdown = (text, leaf, skip) => blocks(linesOf(text), leaf, 0, skip);
