// What each view shows, and how values are written. All text from outside goes through textContent, never into markup.

const number = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const time = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });

export function bytes(value) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) { value /= 1000; unit += 1; }
  return `${number.format(value)} ${units[unit]}`;
}

export function seconds(value) {
  if (value < 1) return `${number.format(value * 1000)} ms`;
  if (value < 120) return `${number.format(value)} s`;
  if (value < 7200) return `${whole.format(value / 60)} min`;
  if (value < 172800) return `${number.format(value / 3600)} h`;
  return `${whole.format(value / 86400)} days`;
}

// Clients write what timestamps they like: not each is a time that there is.
export function moment(value) {
  const at = new Date(value * 1000);
  return Number.isNaN(at.getTime()) ? `${whole.format(value)} s after 1970` : time.format(at);
}

export const kinds = {
  text: (value) => value,
  count: (value) => whole.format(value),
  id: (value) => String(value),
  rate: (value) => `${number.format(value)}/s`,
  bytes,
  byterate: (value) => `${bytes(value)}/s`,
  seconds,
  moment,
  yes: (value) => (value ? "yes" : "no"),
  trend: (value) => value,
  content: (value) => value,
};

export function shown(kind, value) {
  return value === null || value === undefined || value === "" ? "–" : String(kinds[kind](value));
}

// Of a group: what is not known is in no sum, so the sum says that it is one of the rest.
function lag(row) {
  const known = shown("count", row.lag);
  if (!row.unknown) return known;
  const unknown = `${shown("count", row.unknown)} of ${shown("count", row.partitions)} partitions unknown`;
  return row.lag ? `≥ ${known}, ${unknown}` : unknown;
}

function records(row) {
  const known = shown("count", row.records);
  return row.records != null && row.counted < row.partitions ? `≥ ${known}` : known;
}

const look = (row) => (row.look ? ["records", { item: row.topic, partition: row.partition }, "Look"] : null);

function behind(row) {
  const known = shown("seconds", row.behind);
  return row.at_least && row.behind ? `≥ ${known}` : known;
}

// An element with attributes and children; children that are no elements become text.
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null) made.setAttribute(name, value);
  }
  made.append(...children.map((child) => (child instanceof Node ? child : document.createTextNode(String(child)))));
  return made;
}

export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// What an answer says; an Error with its words where it says that there is none. A node that starts answers in plain text.
export async function told(response) {
  if (response.status === 401) throw new Error("The token is asked for again: reload the page.");
  const isJson = response.headers.get("Content-Type")?.startsWith("application/json");
  const found = isJson ? await response.json() : { error: (await response.text()).trim() };
  if (!response.ok) throw new Error(found.error || `The bridge answers ${response.status}.`);
  return found;
}

const column = (key, label, kind = "text", more = {}) => ({ key, label, kind, sorts: true, ...more });
const fixed = (key, label, kind = "text", more = {}) => ({ key, label, kind, sorts: false, ...more });

export const views = {
  overview: { title: "Overview", note: "The cluster, and this node: whether it serves, since when, and how busy it is." },
  nodes: {
    title: "Nodes", one: "node", many: "nodes", order: "id",
    note: "The members of the cluster, in the newest view that this node has.",
    columns: [
      column("name", "Name"), column("id", "Id", "id"), column("health", "Health"), column("state", "State"),
      column("role", "Role", "text", { short: true }), column("alerts", "Alerts", "count"), column("connections", "Connections", "count"),
      column("partition_slots", "Partition slots", "count"), column("group_slots", "Group slots", "count"),
      column("rack", "Rack"), column("weight", "Weight", "count"), column("version", "Version"),
      column("addresses", "Addresses", "text", { long: true }),
    ],
  },
  brokers: {
    title: "Brokers", one: "broker", many: "brokers", order: "address",
    note: "The brokers of Pulsar that each node has connections to. The delay is the time to an answer or a receipt, "
      + "smoothed.",
    columns: [
      column("address", "Address"), column("node", "Node", "id"), column("state", "State"), column("delay", "Delay", "seconds"),
      column("answered", "Last answer, ago", "seconds"), column("waiting", "Requests waiting", "count"),
      column("producers", "Producers", "count"), column("readers", "Readers", "count"),
      column("connections", "Connections", "count"), column("version", "Pulsar"),
    ],
  },
  topics: {
    title: "Topics", one: "topic", many: "topics", order: "name", details: true,
    note: "All topics. Records and rates are of the partitions whose ends a node knows (≥: of some it is not known); "
      + "bytes are what the nodes have written and read since they started.",
    columns: [
      column("name", "Topic"), column("partitions", "Partitions", "count"),
      fixed("leaders", "Leader of (node: partitions)"),
      column("records", "Records", "count", { says: records }), fixed("size", "Stored", "bytes"),
      column("rate", "Records a second", "rate"), column("groups", "Groups", "count"), column("in_rate", "In", "byterate"),
      column("out_rate", "Out", "byterate"), column("bytes_in", "Written", "bytes"), column("bytes_out", "Read", "bytes"),
    ],
    parts: [
      { key: "partitions", title: "Partitions", columns: [
        fixed("partition", "Partition", "id"), fixed("leader", "Leader, node", "id"),
        fixed("start", "First offset", "count"), fixed("end", "End", "count"), fixed("records", "Records", "count"),
        fixed("size", "Stored", "bytes"), fixed("look", "Records", "text", { link: look }),
      ] },
      { key: "readers", title: "Groups that read it", columns: [
        fixed("group", "Group", "text", { link: (row) => ["groups", { item: row.group }, row.group] }),
        fixed("lag", "Lag, records", "count"),
      ] },
      { key: "configs", title: "Configs", columns: [
        fixed("name", "Config"), fixed("value", "Value", "text", { long: true }), fixed("own", "Set for this topic", "yes"),
      ] },
    ],
  },
  groups: {
    title: "Groups", one: "group", many: "groups", order: "-lag", details: true,
    note: "All groups, those that are furthest behind first. ≥: of some partitions it is not known. Where no client "
      + "reads, Pulsar was asked, some seconds ago.",
    columns: [
      column("name", "Group"), column("state", "State"), column("members", "Members", "count"),
      column("lag", "Lag, records", "count", { says: lag }), fixed("trend", "Lately", "trend"),
      column("behind", "Behind", "seconds", { says: behind }),
      column("partitions", "Partitions", "count"), column("protocol", "Protocol"),
      column("generation", "Generation", "count"), column("node", "Coordinator", "id"),
    ],
    parts: [
      { key: "history", title: "Lag in the last hour", chart: true },
      { key: "partitions", title: "Partitions", columns: [
        fixed("topic", "Topic"), fixed("partition", "Partition", "id"), fixed("member", "Member"),
        fixed("committed", "Committed", "count"), fixed("end", "End", "count"), fixed("lag", "Lag, records", "count"),
        fixed("behind", "Behind", "seconds"), fixed("committed_at", "Committed at", "moment"),
      ] },
      { key: "members", title: "Members", columns: [
        fixed("id", "Member"), fixed("client_id", "Client id"), fixed("host", "Host"),
        fixed("instance_id", "Instance id"), fixed("assigned", "Has", "text", { long: true }),
      ] },
    ],
  },
  clients: {
    title: "Clients", one: "kind of client", many: "kinds of clients", order: "-connections",
    note: "By the software that they say they are; old clients say nothing. Counted by all nodes since they started.",
    columns: [
      column("name", "Software"), column("version", "Version"), column("connections", "Connections", "count"),
      column("requests", "Requests", "count"), column("errors", "Errors", "count"),
      column("bytes_in", "Sent by them", "bytes"), column("bytes_out", "Sent to them", "bytes"),
    ],
  },
  events: {
    title: "Events", one: "kind of event", many: "kinds of events", order: "-at", details: true, key: "text",
    note: "The notable lines of the nodes' logs, those of one kind together: the latest of each, and how many there were.",
    columns: [
      column("text", "Event"), column("at", "Latest", "moment"), column("level", "Level", "text", { short: true }),
      column("count", "Count", "count"), column("node", "Nodes"),
      fixed("explanation", "What it means", "text", { long: true }),
      fixed("fields", "Details of the latest", "text", { long: true }), column("logger", "Logger"),
    ],
    parts: [
      { key: "events", title: "The last of this kind, 16 of a node at most", columns: [
        fixed("at", "When", "moment"), fixed("node", "Node", "id"), fixed("level", "Level", "text", { short: true }),
        fixed("fields", "Details", "text", { long: true }), fixed("logger", "Logger"),
      ] },
    ],
  },
  acls: {
    title: "ACLs", one: "ACL", many: "ACLs", order: "principal",
    note: "Access control entries, where kafka.authorizer is kafka. kafka-acls changes them.",
    columns: [
      column("principal", "Principal"), column("permission", "Permission"), column("operation", "Operation"),
      column("type", "Resource type"), column("resource", "Resource"), column("pattern", "Pattern"), column("host", "Host"),
    ],
  },
  users: {
    title: "Users", one: "user", many: "users", order: "name",
    note: "The users that are kept in Pulsar, with their SCRAM mechanisms and iterations. kafka-configs changes them.",
    columns: [column("name", "User"), column("mechanisms", "Mechanisms")],
  },
  quotas: {
    title: "Quotas", one: "quota", many: "quotas", order: "entity",
    note: "The quotas of users, client ids and addresses. kafka-configs changes them.",
    columns: [column("entity", "Entity"), column("key", "Quota"), column("value", "Value", "count")],
  },
  settings: {
    title: "Settings", one: "setting", many: "settings", order: "position",
    note: "The settings in force on this node. Secrets are not shown.",
    columns: [
      column("name", "Setting"), column("value", "Value", "text", { long: true }),
      column("usual", "Default", "text", { long: true }), column("changed", "Changed", "yes"),
    ],
  },
};

export const recordsView = {
  title: "Records", note: "Read only: no group and no producer knows of it. Each look is told to the audit log.",
};

const NUMBERS = new Set(["count", "rate", "bytes", "byterate", "seconds"]);
const BAD = new Set(["silent", "gone", "Dead", "ERROR", "CRITICAL", "Not ready", "no answer", "critical"]);
const WARN = new Set(["leaving", "warning", "Stopping", "Being checked", "NotReady", "drained", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling",
  "WARNING"]);

const TONED = new Set(["state", "level", "health", "severity"]);

// A line of numbers that are not below 0, as inline SVG; `label` says it in words.
export function line(points, width, height, label) {
  const most = Math.max(1, ...points);
  const at = (value, index) => `${((index * (width - 2)) / (points.length - 1) + 1).toFixed(1)},`
    + `${(height - 2 - (value * (height - 4)) / most).toFixed(1)}`;
  const make = (tag, attributes) => {
    const made = document.createElementNS(document.getElementById("pen").namespaceURI, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    return made;
  };
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label });
  svg.append(make("polyline", { points: points.map(at).join(" "), class: "line" }));
  return svg;
}

function tone(text) {
  return BAD.has(text) ? "bad" : WARN.has(text) ? "warn" : "";
}

// A table whose rows stay the same elements while their values change, so that focus and selection stay.
export class Grid {
  constructor(columns, caption, onSort, link, go = null) {
    this.columns = columns;
    this.link = link;
    this.go = go;  // makes the address of what a cell leads to
    this.rows = new Map();
    this.heads = new Map();
    // roles are written out: on a narrow screen rows are shown as blocks, which would take them away
    const heads = columns.map((one) => {
      const head = el("th", { scope: "col", role: "columnheader", class: NUMBERS.has(one.kind) ? "number" : undefined });
      if (one.sorts) {
        const button = el("button", { type: "button" }, one.label, el("span", { "aria-hidden": "true" }));
        button.addEventListener("click", () => onSort(one));
        head.append(button);
        this.heads.set(one.key, head);
      } else {
        head.append(one.label);
      }
      return head;
    });
    this.body = el("tbody", { role: "rowgroup" });
    const table = el("table", { role: "table", class: "cards", "aria-label": caption },
      el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, ...heads)), this.body);
    this.empty = el("p", { class: "empty" }, "There is nothing to show.");
    this.element = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, table, this.empty);
  }

  sorted(sort) {
    const key = sort.replace(/^-/, "");
    for (const [name, head] of this.heads) {
      const state = name !== key ? null : sort.startsWith("-") ? "descending" : "ascending";
      if (state) head.setAttribute("aria-sort", state);
      else head.removeAttribute("aria-sort");
      say(head.querySelector("span"), state === null ? "" : state === "ascending" ? " ▲" : " ▼");
    }
  }

  update(rows) {
    const active = document.activeElement;
    const seen = new Map();
    let at = this.body.firstElementChild;
    rows.forEach((row, index) => {
      let key = this.key(row);
      while (seen.has(key)) key += `\n${index}`;
      const tr = this.rows.get(key) ?? this.made();
      seen.set(key, tr);
      this.fill(tr, row);
      if (tr === at) at = at.nextElementSibling;
      else this.body.insertBefore(tr, at);
    });
    for (const [key, tr] of this.rows) if (!seen.has(key)) tr.remove();
    this.rows = seen;
    this.empty.hidden = rows.length > 0;
    if (active !== document.activeElement && active?.isConnected) active.focus({ preventScroll: true });
  }

  key(row) {
    return JSON.stringify(this.columns.slice(0, 2).map((one) => row[one.key]));
  }

  made() {
    return el("tr", { role: "row" }, ...this.columns.map((one, index) => {
      const long = one.long ? "long" : one.short ? "short" : NUMBERS.has(one.kind) ? "number" : undefined;
      return index ? el("td", { role: "cell", class: long, "data-label": one.label })
        : el("th", { role: "rowheader", scope: "row" }, ...(this.link ? [el("a")] : []));
    }));
  }

  fill(tr, row) {
    tr.classList.toggle("here", row.here === true);
    this.columns.forEach((one, index) => {
      const cell = tr.children[index];
      if (one.link || one.kind === "trend") { this.fillOther(cell, one, row); return; }
      const text = one.says ? one.says(row) : shown(one.kind, row[one.key]);
      if (!index && this.link) {
        const href = this.link(row);
        if (cell.firstChild.getAttribute("href") !== href) cell.firstChild.setAttribute("href", href);
        say(cell.firstChild, text);
      } else if (cell.textContent !== text) {
        cell.textContent = text;
        if (TONED.has(one.key)) cell.classList.toggle("bad", tone(text) === "bad");
        if (TONED.has(one.key)) cell.classList.toggle("warn", tone(text) === "warn");
      }
    });
  }

  // A link to another view, or a small chart.
  fillOther(cell, one, row) {
    if (one.kind === "trend") {
      if (cell.dataset.points === String(row[one.key] ?? "")) return;
      cell.dataset.points = row[one.key] ?? "";
      const points = cell.dataset.points.split(" ").filter(Boolean).map(Number);
      cell.replaceChildren(points.length > 1 ? line(points, 90, 20, `Lag lately: from ${points[0]} to ${points.at(-1)}`) : "–");
      return;
    }
    const [view, changes, text] = one.link(row) ?? [];
    if (!view || !this.go) { say(cell, "–"); return; }
    const href = this.go({ view, search: "", sort: "", page: 1, item: "", partition: 0, ...changes });
    if (cell.firstElementChild?.getAttribute("href") === href) return;
    cell.replaceChildren(el("a", { href }, text));
  }
}
