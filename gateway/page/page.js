// The page as a whole: what it hears goes to its parts.

import { drawCharts, startCharts } from "./charts.js";
import { startChat } from "./chat.js";
import { byId, h, setAttribute, setText, sync } from "./dom.js";
import { drawStatusEvents, noteConnection } from "./events.js";
import { count, num, percent, seconds } from "./format.js";
import { follow, key } from "./live.js";
import { drawLegend, drawMap, whoAnswers } from "./map.js";
import { drawRequests } from "./requests.js";

const THEME = "tutti-theme";
let status = null;
let connection = "unknown";

function factView() {
  const term = h("dt"), what = h("dd");
  return {
    node: h("div", {}, term, what),
    update([name, text]) {
      setText(term, name);
      setText(what, text);
    },
  };
}

function drawHead(live) {
  setText(byId("model"), String(status?.model ?? "no model known"));
  const serving = Boolean(status?.serving) && !live.status_error;
  const words = live.status_error ? "no word from the coordinator" : serving ? (status.degraded ? "serving, degraded" : "serving") : "not serving";
  const pill = byId("state");
  setText(pill, words);
  setAttribute(pill, "data-state", live.status_error || !serving ? "bad" : status.degraded ? "busy" : "good");
  setText(byId("why"), live.status_error ?? (serving ? String(status.degraded ?? "") : String(status?.why_not_serving ?? "")));
  document.title = `${serving ? "" : "! "}${status?.model ?? "tutti"} – tutti`;
  const pipelines = status?.pipelines ?? [];
  const total = pipelines.reduce((sum, one) => sum + num(one.blocks_total), 0);
  const used = pipelines.reduce((sum, one) => sum + num(one.blocks_in_use), 0);
  const workers = pipelines.reduce((sum, one) => sum + (one.stages ?? []).filter((stage) => stage.worker?.worker_id).length, 0);
  const spare = (status?.idle_workers ?? []).length;
  sync(byId("facts"), [
    ["pipelines", `${pipelines.filter((one) => one.state === "serving").length} of ${pipelines.length}`],
    ["workers", spare > 0 ? `${workers} + ${spare} spare` : `${workers}`],
    ["KV in use", percent(total > 0 ? used / total : null)],
    ["tokens since the start", count(num(status?.requests?.generated_tokens))],
    ["up", status ? seconds(Math.floor(num(status.uptime_seconds))) : "–"],
    ["build", String(status?.build ?? live.build ?? "–").replace(/-([0-9a-f]{7})[0-9a-f]*(-dirty)?$/, " $1")],
  ], ([name]) => name, factView);
}

function onEvent(live) {
  if (live.status) {
    status = live.status;
    drawMap(status);
    drawStatusEvents(status);
  }
  if (live.status || live.status_error || !status) drawHead(live);
  live.status ??= status;
  drawCharts(live);
  drawRequests(live);
  document.body.dataset.stale = live.status_error ? "yes" : "no";
  setText(byId("answering"), whoAnswers(status));
  const pulse = byId("pulse");
  pulse.classList.toggle("beat");
}

let open = null;

function onState(state, why) {
  if (state === connection) return;
  const before = connection;
  connection = state;
  const words = { live: "live", lost: `lost: ${why}`, locked: `locked: ${why}` }[state];
  const pulse = byId("pulse");
  setAttribute(pulse, "data-state", state);
  setAttribute(pulse, "aria-label", words);
  setAttribute(pulse, "title", words);
  document.body.dataset.connection = state;
  byId("door").hidden = state !== "locked";
  if (state === "locked") {
    setText(byId("door-why"), key.get() ? why : "This server shows its state for an operator’s key. It is kept by this tab until it is closed.");
    setText(byId("model"), "locked");
    byId("key").focus();
  }
  if (state === "lost" || before === "lost") noteConnection(state, why);
}

function startTheme() {
  const button = byId("theme");
  const next = { auto: "light", light: "dark", dark: "auto" };
  const show = (theme) => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    setText(button, theme);
    setAttribute(button, "aria-label", `Colours: ${theme === "auto" ? "as the system has them" : theme}; change to ${next[theme]}`);
  };
  const stored = localStorage.getItem(THEME);
  let theme = stored in next ? stored : "auto";
  show(theme);
  button.addEventListener("click", () => {
    theme = next[theme];
    localStorage.setItem(THEME, theme);
    show(theme);
  });
}

function startDoor() {
  byId("door").addEventListener("submit", (event) => {
    event.preventDefault();
    key.set(byId("key").value.trim());
    byId("key").value = "";
    connection = "unknown";
    open?.();
  });
}

startTheme();
startDoor();
drawLegend();
startCharts();
startChat(() => whoAnswers(status));
follow({ event: onEvent, state: onState, unlocked: () => new Promise((done) => { open = done; }) });
