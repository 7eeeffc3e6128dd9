// Elements made and kept up to date. All text goes through textContent: names come from a wire.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (name === "text") node.textContent = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== null && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children);
  return node;
}

export const h = (tag, props = {}, ...children) => fill(document.createElement(tag), props, children);
export const svg = (tag, props = {}, ...children) => fill(document.createElementNS(SVG, tag), props, children);
export const byId = (id) => document.getElementById(id);

// Sets what differs only: a node that does not change is neither laid out nor read aloud again.
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function setAttribute(node, name, value) {
  if (value === null || value === undefined || value === false) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
  } else if (node.getAttribute(name) !== String(value)) {
    node.setAttribute(name, value);
  }
}

export function setLength(node, name, value) {
  const text = String(value);
  if (node.style.getPropertyValue(name) !== text) node.style.setProperty(name, text);
}

// One child of `parent` for each item, told apart by key, in order. `make` returns a view: an
// object with a `node` and `update(item)`.
export function sync(parent, items, keyOf, make) {
  const views = parent.views ?? (parent.views = new Map());
  const seen = new Set();
  let place = parent.firstChild;
  for (const item of items) {
    const key = keyOf(item);
    if (seen.has(key)) continue;
    seen.add(key);
    let view = views.get(key);
    if (view === undefined) views.set(key, view = make(item));
    view.update(item);
    if (view.node === place) place = place.nextSibling;
    else parent.insertBefore(view.node, place);
  }
  for (const [key, view] of views) {
    if (seen.has(key)) continue;
    view.node.remove();
    views.delete(key);
  }
}

// A bar of parts, [[class, share, title], …]; what is left of 1 is the ground.
export class Bar {
  constructor(className) {
    this.node = h("div", { class: `bar ${className}`, role: "img" });
  }
  update(parts, label) {
    setAttribute(this.node, "aria-label", label);
    setAttribute(this.node, "title", label);
    sync(this.node, parts, (part) => part[0], (part) => {
      const node = h("span", { class: part[0] });
      return { node, update: ([, share]) => setLength(node, "width", `${Math.max(0, Math.min(1, share)) * 100}%`) };
    });
  }
}
