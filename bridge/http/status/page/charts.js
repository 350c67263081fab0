// Small charts of the last five minutes, as long as this page is open; drawn by uPlot.

import { bytes, el, say, seconds } from "./views.js";

const MOST = 300;
const hours = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });
const clock = (seconds) => hours.format(new Date(seconds * 1000));
const each = (value) => `${new Intl.NumberFormat("en", { maximumFractionDigits: 1 }).format(value)}/s`;

export const CHARTS = [
  { title: "Requests", lines: [["requests", "requests"]], format: each },
  { title: "Bytes", lines: [["bytes_in", "in"], ["bytes_out", "out"]], format: (value) => `${bytes(value)}/s` },
  { title: "Errors answered", lines: [["errors", "errors"]], format: each },
  { title: "Pulsar's receipts", lines: [["receipt", "mean delay"]], format: seconds },
  { title: "Connections", lines: [["connections", "open"], ["paused", "not read"]], format: (value) => String(value) },
  { title: "Memory", lines: [["memory", "process"], ["cache_bytes", "records kept"]], format: bytes },
];
const RATES = ["requests", "errors", "bytes_in", "bytes_out"];
const LEVELS = ["connections", "paused", "memory", "cache_bytes"];

export class History {
  constructor() {
    this.clear();
  }

  clear() {
    this.before = null;
    this.times = [];
    this.values = Object.fromEntries([...RATES, ...LEVELS, "receipt"].map((name) => [name, []]));
  }

  // What the node counted up to its time `now`; numbers that only grow become rates.
  add(now, counters) {
    const before = this.before;
    this.before = { now, counters };
    const passed = before ? now - before.now : 0;
    if (passed <= 0 || passed > 30) return;
    this.times.push(now);
    for (const name of RATES) this.values[name].push(Math.max(0, counters[name] - before.counters[name]) / passed);
    for (const name of LEVELS) this.values[name].push(counters[name]);
    const receipts = counters.receipts - before.counters.receipts;
    const took = counters.receipt_seconds - before.counters.receipt_seconds;
    this.values.receipt.push(receipts > 0 ? took / receipts : null);
    if (this.times.length > MOST) for (const list of [this.times, ...Object.values(this.values)]) list.shift();
  }
}

export class Charts {
  constructor(history) {
    this.history = history;
    this.charts = CHARTS.map((chart) => {
      const caption = el("figcaption", {}, el("b", {}, chart.title),
        ...chart.lines.flatMap(([, label], index) => [el("span", { class: index ? "second" : "first" }, label), " "]));
      const canvas = el("div", { "aria-hidden": "true" });
      return { ...chart, caption, canvas, figure: el("figure", {}, caption, canvas), plot: null };
    });
    this.element = el("div", { class: "charts" }, ...this.charts.map((one) => one.figure));
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.element);
  }

  close() {
    this.observer.disconnect();
    for (const one of this.charts) one.plot?.destroy();
  }

  redraw() {
    for (const one of this.charts) { one.plot?.destroy(); one.plot = null; }
    this.update();
  }

  update() {
    for (const one of this.charts) {
      const data = [this.history.times, ...one.lines.map(([name]) => this.history.values[name])];
      one.lines.forEach(([name, label], index) => say(one.caption.children[index + 1], describe(label, this.history.values[name], one.format)));
      if (this.history.times.length < 2 || !one.canvas.clientWidth) continue;
      if (one.plot) one.plot.setData(data);
      else one.plot = this.plot(one, data);
    }
  }

  resize() {
    for (const one of this.charts) if (one.plot) one.plot.setSize({ width: one.canvas.clientWidth, height: 130 });
  }

  plot(one, data) {
    const colour = (name) => getComputedStyle(one.caption.querySelector(name) ?? one.figure).color;
    const text = getComputedStyle(one.figure).color;
    const line = getComputedStyle(one.figure).borderTopColor;
    const axis = { stroke: text, grid: { stroke: line, width: 1 }, ticks: { show: false }, font: "11px sans-serif" };
    return new uPlot({
      width: one.canvas.clientWidth, height: 130, legend: { show: false }, cursor: { show: false },
      scales: { y: { range: (plot, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
      axes: [{ ...axis, size: 24, space: 70, values: (plot, ticks) => ticks.map(clock) }, { ...axis, size: 64, values: (plot, ticks) => ticks.map(one.format) }],
      series: [{}, ...one.lines.map((_, index) => ({ stroke: colour(index ? ".second" : ".first"), width: 1.5, points: { show: false } }))],
    }, data, one.canvas);
  }
}

function describe(label, values, format) {
  const known = values.filter((value) => value !== null);
  if (!known.length) return `${label}: nothing yet.`;
  return `${label}: ${format(known[known.length - 1])}, at most ${format(Math.max(...known))}.`;
}
