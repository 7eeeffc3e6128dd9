// The device map: pipelines, their stages in the order that tokens pass them, and who is spare.

import { Bar, byId, h, setAttribute, setLength, setText, sync } from "./dom.js";
import { bytes, count, millis, num, percent, plural, rate, seconds } from "./format.js";
import { Rates } from "./rates.js";

const rates = new Rates();
// How long a place shows that it is another's now.
const FRESH_S = 12;
const places = new Map();

const LEGEND = [["weights", "weights"], ["kv", "KV"], ["work", "work space"], ["kept", "kept rows"], ["rest", "rest of the process"],
  ["compute", "computing"], ["exchange", "waiting for ranks"], ["wait", "waiting for a stage"]];

function layersText(stage) {
  const first = num(stage.first_layer), layers = num(stage.num_layers);
  const range = layers === 0 ? "no layers" : layers === 1 ? `layer ${first}` : `layers ${first}–${first + layers - 1}`;
  return [stage.has_embedding && "embedding", range, stage.has_head && "head"].filter(Boolean).join(" · ");
}

// Who has held this place before, if that changed lately: {name, at}.
function history(place, name, now) {
  const known = places.get(place);
  if (known === undefined) places.set(place, { name, before: "", at: -Infinity });
  else if (known.name !== name) places.set(place, { name, before: known.name || known.before, at: now });
  return places.get(place);
}

function memoryParts(memory) {
  const held = ["weights", "kv", "activations", "kept_rows"].map((kind) => num(memory[kind]));
  const known = held.reduce((a, b) => a + b, 0);
  const total = Math.max(num(memory.budget), num(memory.resident), known, 1);
  const rest = Math.max(0, num(memory.resident) - known);
  return { total, parts: [["weights", held[0] / total], ["kv", held[1] / total], ["work", held[2] / total],
    ["kept", held[3] / total], ["rest", rest / total]] };
}

// What the GPU's driver says of it; "" where it says nothing.
function gpuText(gpu) {
  if (!gpu) return "";
  const words = [];
  if (num(gpu.total_bytes) > 0) words.push(`GPU ${bytes(gpu.used_bytes)} of ${bytes(gpu.total_bytes)}`);
  if (num(gpu.cuda_bytes) > 0) words.push(`CUDA ${bytes(gpu.cuda_bytes)}`);
  if (num(gpu.other_bytes) > 0) words.push(`others ${bytes(gpu.other_bytes)}${gpu.holders ? ` (${gpu.holders})` : ""}`);
  if (gpu.busy_share !== undefined) words.push(`${percent(num(gpu.busy_share))} busy`);
  if (gpu.power_watts !== undefined) words.push(`${num(gpu.power_watts).toFixed(0)} W`);
  if (gpu.temperature_celsius !== undefined) words.push(`${num(gpu.temperature_celsius).toFixed(0)} °C`);
  if (num(gpu.age_seconds) >= 10) words.push(`${num(gpu.age_seconds).toFixed(0)} s old`);
  if (gpu.trouble) words.push(gpu.trouble);
  return words.join(" · ");
}

class RankView {
  constructor() {
    this.name = h("b", { class: "name" });
    this.device = h("span", { class: "device" });
    this.badge = h("span", { class: "badge" });
    this.activity = new Bar("thin");
    this.says = h("p", { class: "says" });
    this.memory = new Bar("");
    this.holds = h("p", { class: "says holds" });
    this.gpu = h("p", { class: "says gpu" });
    this.node = h("div", { class: "rank" }, h("p", { class: "who" }, this.name, this.device, this.badge), this.activity.node, this.says,
      this.memory.node, this.holds, this.gpu);
  }

  update({ stage, pipeline, before, now }) {
    const worker = stage.worker ?? {};
    const name = String(worker.worker_id ?? "");
    const place = `${num(pipeline.pipeline)}/${num(stage.stage)}/${num(stage.rank)}`;
    const past = history(place, name, now);
    const fresh = now - past.at < FRESH_S && past.before !== "";
    const ranks = num(stage.num_ranks);
    setText(this.name, name || (past.before ? past.before : "nobody"));
    setText(this.device, name ? `${worker.device ?? ""}${ranks > 1 ? ` · rank ${num(stage.rank)}` : ""}` : "");
    const state = !name ? "lost" : worker.leaving ? "leaving" : fresh ? "fresh" : "here";
    setAttribute(this.node, "data-state", state);
    const took = past.before === name ? "back again" : `took ${past.before}’s place`;
    setText(this.badge, { lost: "lost", leaving: "draining", fresh: took, here: "" }[state]);
    this.showActivity(stage, place + pipeline.epoch, before, now, pipeline);
    this.showMemory(stage, name);
  }

  showActivity(stage, place, before, now, pipeline) {
    const loaded = num(stage.loaded_share);
    const speed = (field) => Math.min(1, rates.of(place + field, num(stage[field]), now));
    const computing = speed("compute_seconds_total"), exchange = speed("exchange_wait_seconds_total"), wait = speed("wait_seconds_total");
    if (!stage.worker?.worker_id) {
      this.activity.update([], "nobody computes here");
      setText(this.says, "waits for a worker");
      return;
    }
    if (loaded < 1 && pipeline.state !== "serving") {
      this.activity.update([["loading", loaded]], `loaded ${percent(loaded)}`);
      setText(this.says, stage.fetch || `loads its shard, ${percent(loaded)}`);
      return;
    }
    const own = Math.max(0, computing - exchange);
    this.activity.update([["compute", own], ["exchange", exchange], ["wait", Math.min(wait, 1 - computing)]],
      `computing ${percent(own)}, waiting for ranks ${percent(exchange)}, for ${before} ${percent(wait)}`);
    const words = [`computes ${percent(own)}`];
    if (wait >= 0.005) words.push(`waits for ${before} ${percent(wait)}`);
    if (exchange >= 0.005) words.push(`for ranks ${percent(exchange)}`);
    if (num(stage.step_seconds) > 0) {
      const plan = num(stage.predicted_step_seconds);
      words.push(`step ${millis(num(stage.step_seconds) * 1000)}${plan > 0 ? ` (plan ${millis(plan * 1000)})` : ""}`);
    }
    if (num(stage.slowdown) > 1.25) words.push(`${num(stage.slowdown).toFixed(1)} times slower`);
    setText(this.says, words.join(" · "));
  }

  showMemory(stage, name) {
    const memory = name ? stage.actual ?? {} : {};
    const plan = stage.predicted ?? {};
    const { parts } = memoryParts(memory);
    const label = ["weights", "kv", "activations", "kept_rows", "resident", "budget"].map((kind) =>
      `${{ kv: "KV", activations: "work space", kept_rows: "kept rows" }[kind] ?? kind} ${bytes(memory[kind])}` +
      (num(plan[kind]) > 0 && kind !== "budget" ? ` (plan ${bytes(plan[kind])})` : "")).join(", ");
    this.memory.update(parts, label);
    setText(this.holds, name ? `weights ${bytes(memory.weights)} · KV ${bytes(memory.kv)} · ` +
      `${bytes(memory.resident)} of ${bytes(memory.budget)}` : "");
    setText(this.gpu, gpuText(name ? stage.worker.gpu : null));
  }
}

class StageView {
  constructor() {
    this.flow = h("span", { class: "flow", "aria-hidden": "true" });
    this.speed = h("span", { class: "wire-speed" });
    this.note = h("span", { class: "wire-note" });
    this.wire = h("div", { class: "wire" }, this.speed, this.flow, this.note);
    this.title = h("h4", {});
    this.layers = h("span", { class: "layers-text" });
    this.strip = h("div", { class: "strip", "aria-hidden": "true" }, h("span"));
    this.ranks = h("div", { class: "ranks" });
    this.card = h("article", { class: "stage" }, h("header", {}, this.title, this.layers), this.strip, this.ranks);
    this.node = h("div", { class: "step" }, this.wire, this.card);
  }

  update({ ranks, previous, pipeline, layers, now }) {
    const [stage] = ranks;
    setText(this.title, `Stage ${num(stage.stage)}`);
    setText(this.layers, layersText(stage));
    setLength(this.strip, "--from", num(stage.first_layer) / layers);
    setLength(this.strip, "--share", num(stage.num_layers) / layers);
    setLength(this.strip, "--count", layers);
    setLength(this.node, "--weight", Math.max(1, Math.min(3, num(stage.num_layers) * ranks.length)));
    const before = previous ? previous.map((one) => one.worker?.worker_id).filter(Boolean).join(", ") : "tokens";
    sync(this.ranks, ranks.map((one) => ({ stage: one, pipeline, before, now })), (item) => num(item.stage.rank), () => new RankView());
    const lost = ranks.some((one) => !one.worker?.worker_id);
    setAttribute(this.card, "data-lost", lost || null);
    this.wire.hidden = !previous;
    if (previous) this.showWire(ranks, previous, pipeline, now);
  }

  showWire(ranks, previous, pipeline, now) {
    const name = (kind) => `${num(pipeline.pipeline)}/${pipeline.epoch}/${num(previous[0].stage)}/${kind}`;
    const sent = previous.reduce((sum, one) => sum + num(one.activation_bytes_out), 0);
    const speed = rates.of(name("sent"), sent, now);
    const from = new Set(previous.map((one) => one.worker?.worker_id)), to = new Set(ranks.map((one) => one.worker?.worker_id));
    const links = (pipeline.links ?? []).filter((link) => from.has(link.from) && to.has(link.to) && link.purpose === "activation");
    const down = links.find((link) => !link.up);
    const state = from.has(undefined) || to.has(undefined) || down ? "down" : speed > 0 ? "flowing" : "quiet";
    setAttribute(this.wire, "data-state", state);
    setText(this.speed, state === "down" ? "down" : rate(speed));
    const perToken = num(previous[0].activation_bytes_per_token);
    setText(this.note, state === "down" ? "" : perToken > 0 ? `${bytes(perToken)} a token` : "");
    setAttribute(this.wire, "title", down ? `${down.from} to ${down.to}: ${down.error || "not up"}` : null);
    // A beat of the dashes: quicker for more, on a scale that the eye can tell.
    setLength(this.flow, "--beat", `${Math.max(0.25, 2.4 - 0.35 * Math.log10(1 + speed)).toFixed(2)}s`);
  }
}

class PipelineView {
  constructor() {
    this.title = h("h3", {});
    this.state = h("span", { class: "pill" });
    this.facts = h("p", { class: "pipeline-facts" });
    this.steps = h("div", { class: "steps" });
    this.kvText = h("p", { class: "kv-text" });
    this.kv = new Bar("cells");
    this.rankWire = h("p", { class: "says" });
    this.warning = h("p", { class: "warning" });
    this.node = h("section", { class: "pipeline" },
      h("header", {}, this.title, this.state, this.facts), this.steps,
      h("div", { class: "kv-row" }, this.kvText, this.kv.node), this.rankWire, this.warning);
  }

  update({ pipeline, now }) {
    const stages = pipeline.stages ?? [];
    setText(this.title, `Pipeline ${num(pipeline.pipeline)}`);
    const state = String(pipeline.state ?? "unknown");
    setText(this.state, state);
    setAttribute(this.state, "data-state", state === "serving" ? "good" : state === "loading" || state === "linking" ? "busy" : "bad");
    setAttribute(this.node, "data-state", state === "serving" ? "serving" : "broken");
    setText(this.facts, [plural(num(pipeline.running), "sequence"), `${count(num(pipeline.waiting))} waiting`,
      `${rates.of(`${num(pipeline.pipeline)}/${pipeline.epoch}/steps`, num(pipeline.steps), now).toFixed(0)} steps/s`,
      num(pipeline.backlog_tokens) > 0 && `${count(pipeline.backlog_tokens)} prompt tokens to compute`,
      num(pipeline.preemptions) > 0 && plural(pipeline.preemptions, "preemption"), pipeline.numerics_class].filter(Boolean).join(" · "));
    const groups = new Map();
    for (const stage of stages) groups.set(num(stage.stage), [...(groups.get(num(stage.stage)) ?? []), stage]);
    const ordered = [...groups.entries()].sort((a, b) => a[0] - b[0]).map(([, ranks]) => ranks);
    const layers = Math.max(1, ...stages.map((stage) => num(stage.first_layer) + num(stage.num_layers)));
    sync(this.steps, ordered.map((ranks, i) => ({ ranks, previous: ordered[i - 1], pipeline, layers, now })),
      (item) => num(item.ranks[0].stage), () => new StageView());
    this.showCache(pipeline);
    this.showTrouble(pipeline, stages, now);
  }

  showCache(pipeline) {
    const total = Math.max(1, num(pipeline.blocks_total));
    const used = num(pipeline.blocks_in_use) / total, cached = num(pipeline.blocks_cached) / total;
    const asked = num(pipeline.prefix_lookup_tokens);
    const text = `KV ${percent(used)} in use · ${percent(cached)} kept for prompts that begin alike` +
      (asked > 0 ? ` · ${percent(num(pipeline.prefix_hit_tokens) / asked)} of prompt tokens found` : "") +
      ` · room for ${count(num(pipeline.kv_tokens_total))} tokens`;
    setText(this.kvText, text);
    this.kv.update([["used", used], ["cached", cached]], text);
  }

  showTrouble(pipeline, stages, now) {
    const exchange = stages.reduce((sum, stage) => sum + num(stage.exchange_bytes_out), 0);
    const split = stages.some((stage) => num(stage.num_ranks) > 1);
    const speed = rates.of(`${num(pipeline.pipeline)}/${pipeline.epoch}/exchange`, exchange, now);
    setText(this.rankWire, split ? `ranks exchange ${rate(speed)}` : "");
    const rebuilt = num(pipeline.rebuilt_tokens);
    setText(this.warning, [pipeline.straggler && `slow: ${pipeline.straggler}`,
      ...(pipeline.links ?? []).filter((link) => !link.up).map((link) => `no ${link.purpose} link from ${link.from} to ${link.to}` +
        (link.error ? `: ${link.error}` : "")),
      rebuilt > 0 && `${count(rebuilt)} tokens rebuilt beside stages that were kept`].filter(Boolean).join(" · "));
  }
}

function spareView() {
  const name = h("b", { class: "name" }), device = h("span", { class: "device" }), task = h("span", { class: "task" });
  const node = h("div", { class: "spare" }, name, device, task);
  return {
    node,
    update(worker) {
      setText(name, String(worker.worker_id ?? ""));
      setText(device, String(worker.device ?? ""));
      setText(task, worker.leaving ? "draining" : worker.standby ? `ready for ${worker.standby}` : worker.activity || "spare");
      setAttribute(node, "data-state", worker.leaving ? "leaving" : "here");
    },
  };
}

// Workers that were here and are not: {name, device, place, at}.
const missing = new Map();
let present = new Map();
// A loss that nothing has come of for so long is history.
const MISSED_S = 1800;

// Who was lost before this page was opened, by the reason that a pipeline ended for.
const LOST = /^worker (\S+) \(stage (\d+)[^)]*\) was lost/;

function noteEarlier(loss, at) {
  const [, name, stage] = LOST.exec(loss.cause ?? "") ?? [];
  if (name && !missing.has(name)) missing.set(name, { name, device: "", place: `stage ${stage} of pipeline ${num(loss.pipeline)}`, at });
}

function noteMissing(status, now) {
  const here = new Map();
  for (const pipeline of status.pipelines ?? []) {
    for (const stage of pipeline.stages ?? []) {
      if (!stage.worker?.worker_id) continue;
      here.set(stage.worker.worker_id, { device: stage.worker.device, place: `stage ${num(stage.stage)} of pipeline ${num(pipeline.pipeline)}` });
    }
  }
  for (const worker of status.idle_workers ?? []) here.set(worker.worker_id, { device: worker.device, place: "" });
  for (const [name, was] of present) if (!here.has(name)) missing.set(name, { name, ...was, at: now });
  for (const loss of status.recoveries ?? []) noteEarlier(loss, now - num(loss.seconds_ago));
  for (const [name, { at }] of missing) if (here.has(name) || now < at || now - at > MISSED_S) missing.delete(name);
  present = here;
}

function missingView() {
  const name = h("b", { class: "name" }), device = h("span", { class: "device" }), task = h("span", { class: "task" });
  const node = h("div", { class: "spare", "data-state": "lost" }, name, device, task);
  return {
    node,
    update({ worker, now }) {
      setText(name, worker.name);
      setText(device, String(worker.device ?? ""));
      setText(task, [worker.place && `held ${worker.place}`, `gone for ${seconds(Math.floor(now - worker.at))}`].filter(Boolean).join(" · "));
    },
  };
}

export function drawLegend() {
  byId("legend").append(...LEGEND.map(([kind, text]) => h("li", {}, h("span", { class: `swatch ${kind}`, "aria-hidden": "true" }), text)));
}

export function drawMap(status) {
  const now = num(status.uptime_seconds);
  sync(byId("pipelines"), (status.pipelines ?? []).map((pipeline) => ({ pipeline, now })), (item) => num(item.pipeline.pipeline),
    () => new PipelineView());
  const spares = byId("spares");
  spares.title ||= "Workers that hold no place in a pipeline";
  sync(spares, status.idle_workers ?? [], (worker) => String(worker.worker_id), spareView);
  noteMissing(status, now);
  sync(byId("lost"), [...missing.values()].map((worker) => ({ worker, now })), (item) => item.worker.name, missingView);
  rates.sweep(now);
}

// Who may answer now, in words: known where one pipeline has work.
export function whoAnswers(status) {
  const serving = (status?.pipelines ?? []).filter((pipeline) => pipeline.state === "serving");
  const busy = serving.filter((pipeline) => num(pipeline.running) > 0);
  const words = (pipeline) => `pipeline ${num(pipeline.pipeline)}: ` + (pipeline.stages ?? []).map((stage) => stage.worker?.worker_id)
    .filter(Boolean).join(" → ");
  if (serving.length === 1) return words(serving[0]);
  if (busy.length === 1) return words(busy[0]);
  if (busy.length > 1) return `one of pipelines ${busy.map((pipeline) => num(pipeline.pipeline)).join(", ")}`;
  return serving.length > 0 ? `${serving.length} pipelines serve` : "no pipeline serves";
}
