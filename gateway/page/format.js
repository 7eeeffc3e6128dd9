// Figures as people read them. Missing ones are an en dash.

const NONE = "–";
const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

// protobuf's JSON has 64-bit integers as texts, and leaves out what is zero.
export const num = (value) => {
  const number = Number(value ?? 0);
  return Number.isFinite(number) ? number : 0;
};

const known = (value) => value !== null && value !== undefined && Number.isFinite(Number(value));

// Three digits that count.
function three(value) {
  if (value >= 99.95) return WHOLE.format(value);
  return value >= 9.995 ? value.toFixed(1) : value.toFixed(2);
}

export const count = (value) => (known(value) ? WHOLE.format(Number(value)) : NONE);

export const short = (value) => {
  if (!known(value)) return NONE;
  const number = Number(value);
  if (number >= 1e6) return `${three(number / 1e6)} M`;
  if (number >= 1e4) return `${three(number / 1e3)} k`;
  return number >= 100 || Number.isInteger(number) ? WHOLE.format(number) : three(number);
};

export function bytes(value) {
  let number = num(value);
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (number < 1024) return `${unit === "B" ? WHOLE.format(number) : three(number)} ${unit}`;
    number /= 1024;
  }
  return `${three(number)} TiB`;
}

export const rate = (value) => {
  const number = num(value);
  if (number < 1) return "0 B/s";
  if (number < 1e3) return `${WHOLE.format(number)} B/s`;
  if (number < 1e6) return `${three(number / 1e3)} kB/s`;
  return number < 1e9 ? `${three(number / 1e6)} MB/s` : `${three(number / 1e9)} GB/s`;
};

export const percent = (share) => (known(share) ? `${Math.round(Number(share) * 100)} %` : NONE);

export function millis(value) {
  if (!known(value)) return NONE;
  const number = Number(value);
  if (number < 1) return `${number.toFixed(2)} ms`;
  return number < 1000 ? `${three(number)} ms` : seconds(number / 1000);
}

export function seconds(value) {
  if (!known(value)) return NONE;
  const number = Number(value);
  if (number < 10) return `${number.toFixed(1)} s`;
  if (number < 60) return `${Math.round(number)} s`;
  const minutes = Math.floor(number / 60);
  if (minutes < 60) return `${minutes} min ${String(Math.floor(number % 60)).padStart(2, "0")} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${String(minutes % 60).padStart(2, "0")} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export const clock = (date) => date.toLocaleTimeString("en-GB", { hour12: false });

export const plural = (number, word) => `${count(number)} ${word}${Number(number) === 1 ? "" : "s"}`;
