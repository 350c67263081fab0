// Asks the bridge once a second for what the view in the address shows, and writes it into the page.

import { Charts, History } from "./charts.js";
import { Grid, bytes, el, line, moment, recordsView, say, seconds, shown, told, views } from "./views.js";
import { recordsPage } from "./records.js";

const EVERY = 1000;
const PATIENCE = 10_000;  // a node that is frozen takes the question, and never answers it
const byId = (id) => document.getElementById(id);
const history = new History();
const state = { view: "", search: "", sort: "", page: 1, item: "", partition: 0, worker: null };
let shownView = null;  // what is in #content: { key, update, close }
let timer = 0;
let asking = null;
let paused = false;
let since = 0;
let answered = 0;

// ---- the address: view, search, sort, page and item are in it, so that links lead to the same place

function read() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const found = new URLSearchParams(query ?? "");
  state.view = Object.hasOwn(views, path) || path === "records" ? path : "overview";
  state.search = found.get("search") ?? "";
  state.sort = found.get("sort") ?? "";
  state.page = Math.max(1, Number.parseInt(found.get("page") ?? "1", 10) || 1);
  state.item = found.get("item") ?? "";
  state.partition = Math.max(0, Number.parseInt(found.get("partition") ?? "0", 10) || 0);
  const worker = found.get("worker");
  state.worker = worker !== null && /^\d{1,4}$/.test(worker) ? Number(worker) : null;
}

function address(changes = {}) {
  const wanted = { ...state, ...changes };
  const query = new URLSearchParams();
  for (const name of ["search", "sort", "item"]) if (wanted[name]) query.set(name, wanted[name]);
  if (wanted.page > 1) query.set("page", wanted.page);
  if (wanted.view === "records") query.set("partition", wanted.partition);
  if (wanted.worker !== null) query.set("worker", wanted.worker);
  return `#/${wanted.view}${query.size ? `?${query}` : ""}`;
}

function go(changes, { replace = false } = {}) {
  window.history[replace ? "replaceState" : "pushState"](null, "", address(changes));
  read();
  show();
  poll();
}

// ---- asking

async function poll() {
  clearTimeout(timer);
  asking?.abort();
  if (document.hidden) return;
  const mine = asking = new AbortController();
  // records are read when someone asks for them, and not once a second
  const query = new URLSearchParams({ view: state.view === "records" ? "overview" : state.view, page: state.page });
  if (state.view !== "records") for (const name of ["search", "sort", "item"]) if (state[name]) query.set(name, state[name]);
  if (state.worker !== null) query.set("worker", state.worker);
  let pause = EVERY;
  const late = setTimeout(() => mine.abort(new TypeError("no answer in time")), PATIENCE);
  try {
    const found = await told(await fetch(`api/state?${query}`, { signal: mine.signal, cache: "no-store" }));
    if (mine !== asking) return;
    answered = Date.now();
    update(found);
  } catch (error) {
    if (mine !== asking || error.name === "AbortError") return;
    pause = 3 * EVERY;
    lost(error);
  } finally {
    clearTimeout(late);
  }
  if (!paused) timer = setTimeout(poll, pause);
}

function lost(error) {
  const when = answered ? ` The last answer came ${moment(answered / 1000)}.` : "";
  badge("bad", error instanceof TypeError ? "No answer" : "Not shown");
  say(byId("facts"), `${error instanceof TypeError ? "The bridge does not answer." : error.message}${when}`);
}

document.addEventListener("visibilitychange", () => {
  clearTimeout(timer);
  if (document.hidden) asking?.abort();
  else if (!paused) poll();
});

// ---- the head of the page

function badge(kind, text) {
  const element = byId("health");
  element.className = `badge ${kind}`;
  say(element, text);
}

function update({ workers, worker, answer }) {
  showWorkers(workers, worker);
  if (answer === null) {
    badge("bad", "No worker answers");
    return;
  }
  const { node, counters } = answer;
  if (node.since !== since) { history.clear(); since = node.since; }
  history.add(node.now, counters);
  if (node.draining) badge("warn", "Stopping");
  else if (node.ready === null) badge("warn", "Being checked");
  else badge(node.ready ? "good" : "bad", node.ready ? "Ready" : "Not ready");
  say(byId("node"), `${node.name} ${node.id >= 0 ? `· node ${node.id}` : ""}`);
  const ready = node.ready === null ? "" : ` ${node.ready ? "Ready" : "Not ready"} since ${moment(node.ready_since)}.`;
  say(byId("facts"), `Version ${node.version}, started ${moment(node.since)}.${ready}`);
  document.title = `${(views[state.view] ?? recordsView).title} – bridge ${node.name}`;
  showSilent(answer.silent);
  if (answer.view === state.view && shownView) shownView.update(answer, workers);
}

// The nodes of which nothing is in what is shown.
function showSilent(silent) {
  const list = byId("silent");
  const text = silent.map((one) => `Node ${one.node} (${one.name}) is not shown: ${one.reason}.`);
  list.hidden = !text.length;
  if (list.dataset.text === text.join("\n")) return;
  list.dataset.text = text.join("\n");
  list.replaceChildren(...text.map((one) => el("p", { class: "warn" }, one)));
}

function showWorkers(workers, worker) {
  byId("worker-label").hidden = !workers.length;
  const select = byId("worker");
  if (select.options.length !== workers.length) {
    select.replaceChildren(...workers.map((one) => el("option", { value: one.index }, one.index)));
  }
  if (worker !== null && document.activeElement !== select) select.value = String(worker);
}

// ---- the views

function show() {
  const view = views[state.view] ?? recordsView;
  const key = `${state.view}\n${state.item}\n${state.view === "records" ? state.partition : ""}`;
  for (const link of byId("views").querySelectorAll("a")) {
    if (link.dataset.view === state.view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
    link.setAttribute("href", address({ view: link.dataset.view, search: "", sort: "", page: 1, item: "" }));
  }
  if (shownView?.key === key) {
    shownView.refresh?.();
    return;
  }
  const moved = shownView !== null;
  shownView?.close?.();
  say(byId("title"), state.item ? `${view.title}: ${state.item}` : view.title);
  say(byId("note"), view.note);
  const made = state.view === "overview" ? overview()
    : state.view === "records" ? recordsPage({ ...state }, address({ view: "topics" })) : state.item && view.details ? details(view) : listing(view);
  shownView = { key, ...made };
  byId("content").replaceChildren(made.element);
  if (moved) byId("title").focus();
}

function overview() {
  const facts = el("dl");
  const checks = new Grid(CHECKS, "Checks of readiness", () => {}, null);
  const alerts = new Grid(ALERTS, "Alerts", () => {}, null);
  const firing = el("section", {}, el("h3", {}, "Alerts"), el("p", { class: "quiet" }, "As each node finds the conditions of "
    + "config/alerts.yml in its own numbers, every 15 s. What was before its start it does not know."), alerts.element);
  const workers = new Grid(WORKERS, "Worker processes", () => {}, null);
  const workersPart = el("div", { hidden: "" }, el("h3", {}, "Workers"), workers.element);
  const charts = new Charts(history);
  const readiness = el("section", {}, el("h3", {}, "Readiness"), checks.element);
  const minutes = el("section", {}, el("h3", {}, "The last minutes"), charts.element);
  const element = el("div", {}, facts, firing, minutes, readiness, workersPart);
  const values = new Map();
  const fact = (label, text) => {
    if (!values.has(label)) {
      values.set(label, el("dd"));
      facts.append(el("div", {}, el("dt", {}, label), values.get(label)));
    }
    say(values.get(label), text);
  };
  return {
    element,
    close: () => charts.close(),
    redraw: () => charts.redraw(),
    update: ({ node, counters, overview: found }, processes) => {
      fact("Topics", shown("count", found.topics));
      fact("Groups", shown("count", found.groups));
      fact("Worst lag", found.worst ? `${shown("count", found.worst.lag)} records: ${found.worst.group}` : "none");
      fact("Alerts", found.firing ? shown("count", found.firing) : "none");
      firing.hidden = !found.alerts.length;
      alerts.update(found.alerts);
      fact("Running for", seconds(Math.max(0, node.now - node.since)));
      fact("Version", `${node.version}, codec ${found.codec}`);
      fact("Namespace", found.namespace);
      fact("Pulsar", found.pulsar.replace("Pulsar Server", "") || "–");
      fact("Nodes", `${found.nodes}${found.is_controller ? ", this one is the controller" : ""}`);
      fact("Cluster id", found.cluster || "–");
      fact("Connections", `${shown("count", counters.connections)}, ${shown("count", counters.paused)} not read`);
      fact("Open partitions", shown("count", counters.partitions));
      fact("Held for requests", bytes(counters.request_bytes));
      fact("Held for answers", bytes(counters.answer_bytes));
      if (counters.stalled) fact("Pulsar stores nothing for", seconds(counters.stalled));
      fact("Topics that Pulsar does not acknowledge", unacknowledged(counters.slow_topics, found.slow_topics));
      checks.update(found.checks.map((one) => ({
        check: one.check, state: one.reason === null ? "holds" : "ERROR", reason: one.reason,
        age: found.checked,
      })));
      const [upper, lower] = node.ready === false ? [readiness, minutes] : [minutes, readiness];
      if (upper.nextElementSibling !== lower) firing.after(upper, lower);
      workersPart.hidden = !processes.length;
      workers.update(processes);
      charts.update();
    },
  };
}

const unacknowledged = (count, named) => count
  ? `${shown("count", count)}: ${Object.entries(named).map(([topic, age]) => `${topic} for ${seconds(age)}`).join(", ")}`
  : "none";

const plain = (key, label, kind = "text", more = {}) => ({ key, label, kind, sorts: false, ...more });
const CHECKS = [plain("check", "Check"), plain("state", "State"), plain("reason", "Reason", "text", { long: true }),
  plain("age", "Looked at, ago", "seconds")];
const ALERTS = [plain("alert", "Alert"), plain("what", "What", "text", { long: true }), plain("severity", "Severity"),
  plain("since", "Since", "moment"), plain("node", "Node", "id")];
const WORKERS = [plain("index", "Worker", "count"), plain("state", "State"), plain("pid", "Process"),
  plain("restarts", "Restarts", "count"), plain("ports", "Kafka ports")];

function listing(view) {
  const search = el("input", { type: "search", id: "search", autocomplete: "off", spellcheck: "false", maxlength: 200 });
  const count = el("p", { role: "status", class: "quiet" });
  const sort = (one) => go({ sort: (state.sort || view.order) === one.key ? `-${one.key}` : one.key, page: 1 });
  const link = view.details ? (row) => address({ item: String(row[view.key ?? "name"]), search: "", sort: "", page: 1 }) : null;
  const grid = new Grid(view.columns, view.title, sort, link, address);
  const pages = pager();
  let typing = 0;
  search.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => go({ search: search.value, page: 1 }, { replace: true }), 150);
  });
  const refresh = () => {
    if (document.activeElement !== search) search.value = state.search;
    grid.sorted(state.sort || view.order);
  };
  refresh();
  return {
    element: el("div", {}, el("div", { class: "tools" }, el("label", { for: "search" }, "Search"), search, count),
      grid.element, pages.element),
    refresh,
    close: () => clearTimeout(typing),
    update: ({ table }) => {
      const all = `${shown("count", table.total)} ${table.total === 1 ? view.one : view.many}`;
      say(count, state.search ? `${shown("count", table.found)} of ${all}` : all);
      grid.update(table.rows);
      pages.update(table.page, table.pages);
    },
  };
}

function details(view) {
  const grids = view.parts.filter((part) => !part.chart)
    .map((part) => ({ ...part, grid: new Grid(part.columns, part.title, () => {}, null, address) }));
  const charts = view.parts.filter((part) => part.chart)
    .map((part) => ({ ...part, place: el("div", { class: "history" }) }));
  const missing = el("p", { role: "status" });
  const body = el("div", {}, ...charts.flatMap((one) => [el("h3", {}, one.title), one.place]), ...grids.flatMap((one) => [el("h3", {}, one.title), one.grid.element]));
  const pages = pager();
  const left = el("p", { class: "quiet" });
  const back = el("a", { href: address({ item: "", page: 1 }) }, `All ${view.title.toLowerCase()}`);
  return {
    element: el("div", {}, el("p", {}, back), missing, body, pages.element, left),
    update: ({ item }) => {
      if (item.name !== state.item) return;
      body.hidden = item.found === null;
      say(missing, item.found === null ? `There is no such ${view.one}, as far as the nodes that answer know.` : "");
      if (item.found === null) return;
      const more = { topic: item.name, look: item.found.shows_records === true };
      for (const one of grids) one.grid.update(item.found[one.key].map((row) => ({ ...more, ...row })));
      for (const one of charts) chart(one.place, item.found[one.key]);
      pages.update(item.found.page, item.found.pages);
      say(left, item.found.left_out ? `${item.found.left_out} members are not shown.` : "");
    },
  };
}

// The lag over time, from [time, records] of each half minute.
function chart(place, points) {
  if (place.dataset.points === JSON.stringify(points)) return;
  place.dataset.points = JSON.stringify(points);
  if (points.length < 2) {
    place.replaceChildren(el("p", { class: "quiet" }, "Not known yet: its coordinator notes it every half minute."));
    return;
  }
  const values = points.map(([, records]) => records);
  const most = shown("count", Math.max(...values));
  const text = `From ${moment(points[0][0])} to ${moment(points.at(-1)[0])}: at most ${most}, now ${shown("count", values.at(-1))} records.`;
  place.replaceChildren(line(values, 600, 100, text), el("p", { class: "quiet" }, text));
}

function pager() {
  const before = el("button", { type: "button" }, "Previous page");
  const after = el("button", { type: "button" }, "Next page");
  const where = el("span", { role: "status" });
  const element = el("nav", { id: "pages", "aria-label": "Pages", hidden: "" }, before, where, after);
  let page = 1;
  let pages = 1;
  before.addEventListener("click", () => { if (page > 1) go({ page: page - 1 }); });
  after.addEventListener("click", () => { if (page < pages) go({ page: page + 1 }); });
  return {
    element,
    update: (at, of) => {
      [page, pages] = [at, of];
      element.hidden = of < 2;
      say(where, `Page ${at} of ${of}`);
      before.setAttribute("aria-disabled", String(at <= 1));
      after.setAttribute("aria-disabled", String(at >= of));
    },
  };
}

// ---- controls

function colours(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  shownView?.redraw?.();
}

function remembered() {
  try { return localStorage.getItem("theme") ?? ""; } catch { return ""; }
}

byId("theme").value = remembered();
colours(remembered());
byId("theme").addEventListener("change", (event) => {
  try { localStorage.setItem("theme", event.target.value); } catch { /* not remembered */ }
  colours(event.target.value);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => shownView?.redraw?.());
byId("live").addEventListener("click", () => {
  paused = !paused;
  byId("live").setAttribute("aria-pressed", String(paused));
  if (paused) clearTimeout(timer);
  else poll();
});
byId("worker").addEventListener("change", (event) => go({ worker: Number(event.target.value), item: "", page: 1 }));
byId("skip").addEventListener("click", (event) => { event.preventDefault(); byId("main").focus(); });
byId("views").append(...Object.entries(views).map(([name, view]) => el("li", {}, el("a", { "data-view": name }, view.title))));
const arrived = () => { read(); show(); poll(); };
window.addEventListener("hashchange", arrived);
window.addEventListener("popstate", arrived);
arrived();
