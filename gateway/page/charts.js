// Figures of the last five minutes, a second a point. All charts share one place in time, which the
// pointer or the arrow keys choose.

import { byId, h, setAttribute, setText, svg } from "./dom.js";
import { count, millis, percent, short } from "./format.js";

const SPAN_S = 300;
// Points further apart are not joined: nothing was measured between them.
const JOINED_S = 6;
const HEIGHT = 72;
// Marks under each chart, in minutes ago.
const MINUTES = [5, 4, 3, 2, 1, 0];

const CHARTS = [
  { name: "tokens/s", big: (t) => short(t.tokens_per_second), under: "mean of the last minute", unit: short, whole: true,
    series: [{ key: "tokens", className: "main area", label: "tokens" }] },
  { name: "time to first token", big: (t) => millis(t.ttft_ms.p50), under: (t) => `p90 ${millis(t.ttft_ms.p90)} · p99 ${millis(t.ttft_ms.p99)}`,
    unit: millis, limit: "good_ttft_ms",
    series: [{ key: "ttft_p99", className: "second", label: "p99" }, { key: "ttft_p50", className: "main", label: "p50" }] },
  { name: "time between tokens", big: (t) => millis(t.itl_ms.p50), under: (t) => `p90 ${millis(t.itl_ms.p90)} · p99 ${millis(t.itl_ms.p99)}`,
    unit: millis, limit: "good_itl_ms",
    series: [{ key: "itl_p99", className: "second", label: "p99" }, { key: "itl_p50", className: "main", label: "p50" }] },
  { name: "goodput", big: (t) => percent(t.good_share),
    under: (t) => `${short(t.goodput_per_second)}/s: TTFT ≤ ${millis(t.good_ttft_ms)}, ITL ≤ ${millis(t.good_itl_ms)}`,
    unit: count, whole: true,
    series: [{ key: "under_way", className: "second step", label: "under way" }, { key: "good", className: "main area", label: "good, ended" }] },
];

let charts = [];
let seconds = [];
let latest = null;
let chosen = null; // seconds ago

function niceTop(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 1.5, 2, 3, 4, 5, 7.5, 10].map((step) => step * power).find((top) => top >= value * 1.05) ?? 10 * power;
}

function bisect(time) {
  let low = 0, high = seconds.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (seconds[middle].t < time) low = middle + 1;
    else high = middle;
  }
  return seconds[low]?.t === time ? seconds[low] : null;
}

class Chart {
  constructor(spec) {
    this.spec = spec;
    this.big = h("output", { class: "big" });
    this.under = h("p", { class: "under" });
    this.read = h("p", { class: "read", "aria-live": "off" });
    this.top = svg("text", { class: "scale", y: 9 });
    this.rule = svg("line", { class: "limit", x1: 0 });
    this.ruleText = svg("text", { class: "scale limit-text" });
    this.base = svg("line", { class: "base", x1: 0, y1: HEIGHT - 0.5, y2: HEIGHT - 0.5 });
    this.cross = svg("line", { class: "cross", y1: 0, y2: HEIGHT });
    this.ticks = MINUTES.map((ago) => [ago, svg("line", { class: "base", y1: HEIGHT - 4, y2: HEIGHT }),
      svg("text", { class: "scale time", y: HEIGHT + 11, text: ago === 0 ? "now" : ago === MINUTES[0] ? `−${ago} min` : `−${ago}` })]);
    this.paths = spec.series.map((one) => [svg("path", { class: `fill ${one.className}` }), svg("path", { class: `line ${one.className}` }),
      svg("path", { class: `dots ${one.className}` })]);
    this.plot = svg("svg", { class: "plot", height: HEIGHT, tabindex: "0", role: "img" }, this.base, this.rule, ...this.ticks.flatMap(([, ...nodes]) => nodes),
      ...this.paths.flat(), this.cross, this.top, this.ruleText);
    this.node = h("figure", { class: "chart" },
      h("figcaption", {}, h("span", { class: "chart-name", text: spec.name }), this.big, this.under), this.plot, this.read);
    this.plot.addEventListener("pointermove", (event) => choose(SPAN_S * (1 - event.offsetX / Math.max(1, this.plot.clientWidth))));
    this.plot.addEventListener("pointerleave", () => choose(null));
    this.plot.addEventListener("blur", () => choose(null));
    this.plot.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: 1, ArrowRight: -1, PageUp: 30, PageDown: -30 }[event.key];
      if (event.key === "Escape") choose(null);
      if (!step) return;
      event.preventDefault();
      choose(Math.max(1, Math.min(SPAN_S, (chosen ?? 1) + step)));
    });
  }

  draw(now) {
    const width = this.plot.clientWidth || 280;
    const { series, whole, unit, limit } = this.spec;
    const shown = seconds.filter((one) => one.t >= now - SPAN_S);
    const most = Math.max(0, ...series.flatMap(({ key }) => shown.map((one) => one[key] ?? 0)));
    const top = niceTop(most);
    const x = (t) => width * (1 - (now - t) / SPAN_S);
    const y = (value) => HEIGHT - 1 - (HEIGHT - 14) * (value / top);
    setText(this.top, most > 0 ? unit(top) : "");
    const bound = limit && latest ? latest[limit] : null;
    const isShown = bound !== null && bound <= top;
    setAttribute(this.rule, "visibility", isShown ? "visible" : "hidden");
    setText(this.ruleText, isShown ? `good below ${unit(bound)}` : "");
    if (isShown) {
      for (const end of ["y1", "y2"]) setAttribute(this.rule, end, y(bound));
      setAttribute(this.ruleText, "y", y(bound) - 3);
      setAttribute(this.ruleText, "x", width - 2);
    }
    for (const node of [this.rule, this.base]) setAttribute(node, "x2", width);
    for (const [ago, line, text] of this.ticks) {
      const at = x(now - ago * 60);
      for (const end of ["x1", "x2"]) setAttribute(line, end, at.toFixed(1));
      setAttribute(text, "x", at.toFixed(1));
      setAttribute(text, "text-anchor", ago === 0 ? "end" : ago === MINUTES[0] ? "start" : "middle");
    }
    series.forEach((one, i) => this.drawSeries(one, this.paths[i], shown, x, y, whole, now));
    this.showChosen(now, x);
  }

  // Counts are 0 where nothing happened; times are missing there.
  drawSeries({ key, className }, [fill, line, dots], shown, x, y, whole, now) {
    let path = "", area = "", points = "", last = null;
    const put = (t, value) => {
      const at = `${x(t).toFixed(1)} ${y(value).toFixed(1)}`;
      const joined = last !== null && (whole || t - last <= JOINED_S);
      path += `${joined ? "L" : "M"}${at}`;
      if (!whole) points += `M${at}h0`;
      last = t;
    };
    let carried = 0;
    for (const one of shown) {
      const value = one[key];
      if (value === null || value === undefined) continue;
      // A second of which nothing is said is a second of nothing.
      if (whole && (last === null || one.t - last > 1)) {
        const rest = key === "under_way" ? carried : 0;
        put(last === null ? Math.max(now - SPAN_S, one.t - 1) : last + 1, rest);
        if (one.t - 1 > last) put(one.t - 1, rest);
      }
      put(one.t, value);
      carried = value;
    }
    if (whole && last !== null && now - 1 > last + 1) {
      const rest = key === "under_way" ? carried : 0;
      put(last + 1, rest);
      put(now - 1, rest);
    }
    if (className.includes("area") && path) area = `${path}L${x(last).toFixed(1)} ${HEIGHT}L${x(Math.max(now - SPAN_S, shown[0]?.t - 1)).toFixed(1)} ${HEIGHT}Z`;
    setAttribute(line, "d", path || null);
    setAttribute(fill, "d", area || null);
    setAttribute(dots, "d", points || null);
  }

  showChosen(now, x) {
    setAttribute(this.cross, "visibility", chosen === null ? "hidden" : "visible");
    if (chosen === null) return setText(this.read, "");
    const time = Math.floor(now) - Math.round(chosen);
    for (const end of ["x1", "x2"]) setAttribute(this.cross, end, x(time));
    const second = bisect(time);
    const words = [...this.spec.series].reverse().map(({ key, label }) => {
      const value = second?.[key] ?? (this.spec.whole ? 0 : null);
      return `${label} ${this.spec.unit(value)}`;
    });
    setText(this.read, `${Math.round(chosen)} s ago: ${words.join(" · ")}`);
  }

  say() {
    setText(this.big, this.spec.big(latest));
    setText(this.under, typeof this.spec.under === "string" ? this.spec.under : this.spec.under(latest));
    setAttribute(this.plot, "aria-label", `${this.spec.name} over five minutes: ${this.big.textContent}, ${this.under.textContent}. ` +
      "Arrow keys read single seconds.");
  }
}

let now = 0;

function choose(ago) {
  chosen = ago;
  for (const chart of charts) chart.draw(now);
}

export function startCharts() {
  charts = CHARTS.map((spec) => new Chart(spec));
  byId("charts").append(...charts.map((chart) => chart.node));
  new ResizeObserver(() => charts.forEach((chart) => chart.draw(now))).observe(byId("charts"));
}

export function drawCharts(live) {
  // Another gateway, or this one begun anew.
  if (seconds.length > 0 && live.t < seconds[seconds.length - 1].t) seconds = [];
  now = live.t;
  const known = seconds.length > 0 ? seconds[seconds.length - 1].t : -1;
  seconds = [...seconds, ...live.seconds.filter((one) => one.t > known)].filter((one) => one.t >= live.t - SPAN_S - 1);
  latest = live.traffic;
  for (const chart of charts) {
    chart.say();
    chart.draw(now);
  }
}
