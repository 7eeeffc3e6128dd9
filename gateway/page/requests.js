// The requests under way, one row each.

import { byId, h, setText, sync } from "./dom.js";
import { count, millis, num, plural, seconds } from "./format.js";

function rowView() {
  const cells = Array.from({ length: 7 }, (_, i) => h("td", i < 2 ? { class: "text" } : {}));
  return {
    node: h("tr", {}, ...cells),
    update(request) {
      const kind = `${request.kind}${request.outputs > 1 ? ` × ${request.outputs}` : ""}${request.stream ? "" : ", whole"}`;
      const texts = [`${kind} ${String(request.id).slice(0, 8)}`, request.tenant || "–", seconds(request.seconds),
        request.prompt_tokens > 0 ? count(request.prompt_tokens) : "–", count(request.tokens), millis(request.ttft_ms), millis(request.itl_ms)];
      texts.forEach((text, i) => setText(cells[i], text));
    },
  };
}

function emptyView() {
  const cell = h("td", { class: "text none", colspan: "7", text: "none through this gateway" });
  return { node: h("tr", {}, cell), update() {} };
}

export function drawRequests(live) {
  const requests = live.requests ?? [];
  const body = byId("requests").tBodies[0];
  const rows = requests.length > 0 ? requests : [{ id: "" }];
  sync(body, rows, (request) => request.id || "none", (request) => (request.id ? rowView() : emptyView()));
  const all = live.traffic.under_way;
  const counters = live.status?.requests ?? {};
  const failed = num(counters.failed), refused = num(counters.refused), recovered = num(counters.recovered);
  setText(byId("counters"), [all > requests.length ? `${count(requests.length)} of ${count(all)} shown` : plural(all, "request"),
    live.status && `${count(num(live.status.waiting))} wait for room`,
    live.status && `${count(num(counters.finished))} finished since the coordinator began`,
    failed > 0 && `${count(failed)} failed`, refused > 0 && `${count(refused)} refused`,
    recovered > 0 && `${count(recovered)} outlived a loss`].filter(Boolean).join(" · "));
}
