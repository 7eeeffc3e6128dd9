// Losses, recoveries, refusals and what else changed between two looks, the latest first.

import { byId, h, setAttribute, setText, sync } from "./dom.js";
import { clock, count, millis, num, seconds } from "./format.js";

const KEPT = 60;
const happened = [];
let last = null;
let told = 0;

function say(kind, title, text = "", at = new Date()) {
  happened.unshift({ key: ++told, kind, title, text, at });
  happened.length = Math.min(happened.length, KEPT);
}

const workersOf = (status) => {
  const found = new Map();
  for (const pipeline of status.pipelines ?? []) {
    for (const stage of pipeline.stages ?? []) {
      const name = stage.worker?.worker_id;
      if (name) found.set(name, { place: `stage ${num(stage.stage)} of pipeline ${num(pipeline.pipeline)}`, worker: stage.worker });
    }
  }
  for (const worker of status.idle_workers ?? []) found.set(worker.worker_id, { place: "", worker });
  return found;
};

function compareWorkers(before, now) {
  const old = workersOf(before), present = workersOf(now);
  for (const [name, { place }] of old) {
    if (!present.has(name)) say("bad", `${name} is gone`, place ? `it held ${place}` : "it was spare");
  }
  for (const [name, { place, worker }] of present) {
    const known = old.get(name);
    if (!known) say("good", `${name} has joined`, place ? `it holds ${place}` : "it is spare");
    else if (place && place !== known.place) say("note", `${name} took a place`, place);
    if (worker.leaving && known && !known.worker.leaving) say("note", `${name} is draining`, place);
  }
}

function comparePipelines(before, now) {
  const old = new Map((before.pipelines ?? []).map((pipeline) => [num(pipeline.pipeline), pipeline]));
  for (const pipeline of now.pipelines ?? []) {
    const known = old.get(num(pipeline.pipeline));
    const name = `Pipeline ${num(pipeline.pipeline)}`;
    if (known && known.state !== pipeline.state) say(pipeline.state === "serving" ? "good" : "busy", `${name}: ${pipeline.state}`);
    else if (known && known.epoch !== pipeline.epoch) say("good", `${name} formed anew`, "between two looks");
    if (pipeline.straggler && known?.straggler !== pipeline.straggler) say("bad", `${name} has a slow stage`, pipeline.straggler);
    for (const link of pipeline.links ?? []) {
      const was = (known?.links ?? []).find((one) => one.from === link.from && one.to === link.to && one.purpose === link.purpose);
      if (was?.up && !link.up) say("bad", `No link from ${link.from} to ${link.to}`, link.error ?? "");
    }
  }
}

const recoveries = new Map();

// A recovery is one event whose text grows as its parts come.
function tellRecoveries(status) {
  const now = num(status.uptime_seconds);
  for (const recovery of [...(status.recoveries ?? [])].reverse()) {
    const ended = now - num(recovery.seconds_ago);
    const key = `${num(recovery.pipeline)}/${recovery.cause}/${ended.toFixed(0)}`;
    const near = [...recoveries.keys()].find((one) => recoveries.get(one).pipeline === num(recovery.pipeline) &&
      Math.abs(recoveries.get(one).ended - ended) < 0.5);
    let entry = recoveries.get(near ?? key);
    if (!entry) {
      say("bad", "", "", new Date(Date.now() - num(recovery.seconds_ago) * 1000));
      entry = { pipeline: num(recovery.pipeline), ended, event: happened[0] };
      recoveries.set(key, entry);
    }
    const done = num(recovery.recovered_ms) > 0;
    entry.event.kind = done ? "good" : "bad";
    entry.event.title = `${count(recovery.sequences ?? 0)} sequences of pipeline ${num(recovery.pipeline)} ` +
      (done ? `went on after ${millis(recovery.recovered_ms)}` : "are to go on");
    const parts = [["unheard", recovery.unheard_ms], ["formed", recovery.formed_ms], ["loaded", recovery.loaded_ms],
      ["serving", recovery.serving_ms]].filter(([, ms]) => num(ms) > 0).map(([word, ms]) => `${word} ${millis(ms)}`);
    entry.event.text = [recovery.cause, parts.join(" · ")].filter(Boolean).join(" — ");
  }
}

const refusals = new Map();

function tellRefused(status) {
  for (const peer of status.refused_peers ?? []) {
    const key = `${peer.peer}/${peer.worker_id}/${peer.reason}`;
    const times = num(peer.times);
    if (refusals.get(key)?.times === times) continue;
    const title = `Turned away: ${peer.worker_id || peer.peer || "a stranger"}${times > 1 ? `, ${count(times)} times` : ""}`;
    const known = refusals.get(key);
    if (known && happened.includes(known.event)) {
      known.event.title = title;
      known.event.at = new Date(Date.now() - num(peer.seconds_ago) * 1000);
    } else {
      say("bad", title, String(peer.reason ?? ""), new Date(Date.now() - num(peer.seconds_ago) * 1000));
    }
    refusals.set(key, { times, event: known && happened.includes(known.event) ? known.event : happened[0] });
  }
}

export function noteConnection(state, why) {
  if (state === "lost") say("bad", "This page lost the gateway", why);
  if (state === "live" && last) say("good", "This page hears the gateway again");
  drawEvents();
}

function eventView() {
  const time = h("time"), title = h("b"), text = h("span");
  const node = h("li", {}, time, h("p", {}, title, " ", text));
  return {
    node,
    update(event) {
      setAttribute(node, "data-kind", event.kind);
      setText(time, clock(event.at));
      setText(title, event.title);
      setText(text, event.text);
    },
  };
}

function drawEvents() {
  const list = byId("events");
  const sorted = [...happened].sort((a, b) => b.at - a.at || b.key - a.key);
  if (sorted.length === 0) sorted.push({ key: 0, kind: "none", title: "Nothing yet", text: "since this page was opened", at: new Date() });
  sync(list, sorted, (event) => event.key, eventView);
}

export function drawStatusEvents(status) {
  if (last) {
    if (num(status.uptime_seconds) < num(last.uptime_seconds)) {
      say("note", "Another coordinator answers", `it has run for ${seconds(status.uptime_seconds)}`);
    }
    compareWorkers(last, status);
    comparePipelines(last, status);
    if (status.degraded && status.degraded !== last.degraded) say("busy", "Something is missing", status.degraded);
  }
  tellRecoveries(status);
  tellRefused(status);
  last = status;
  drawEvents();
}
