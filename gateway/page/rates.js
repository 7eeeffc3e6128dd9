// Counters that only grow, as speeds over the last few seconds.

const SPAN_S = 4;

export class Rates {
  constructor() {
    this.samples = new Map();
  }
  // Of `value` counted until `now`, in seconds of the same clock; a counter that began anew has none.
  of(name, value, now) {
    const list = this.samples.get(name) ?? [];
    const last = list[list.length - 1];
    if (last && (value < last.value || now < last.now)) list.length = 0;
    if (!last || now > last.now || list.length === 0) list.push({ now, value });
    while (list.length > 2 && list[1].now <= now - SPAN_S) list.shift();
    this.samples.set(name, list);
    const first = list[0];
    return now > first.now ? (value - first.value) / (now - first.now) : 0;
  }
  // Counters that nobody has named since `now` are forgotten.
  sweep(now) {
    for (const [name, list] of this.samples) {
      if (list[list.length - 1].now < now - 10 * SPAN_S) this.samples.delete(name);
    }
  }
}
