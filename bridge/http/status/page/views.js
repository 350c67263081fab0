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

export const moment = (value) => time.format(new Date(value * 1000));

export const kinds = {
  text: (value) => value,
  count: (value) => whole.format(value),
  rate: (value) => `${number.format(value)}/s`,
  bytes,
  byterate: (value) => `${bytes(value)}/s`,
  seconds,
  moment,
  yes: (value) => (value ? "yes" : "no"),
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

const column = (key, label, kind = "text", more = {}) => ({ key, label, kind, sorts: true, ...more });
const fixed = (key, label, kind = "text", more = {}) => ({ key, label, kind, sorts: false, ...more });

export const views = {
  overview: { title: "Overview", note: "This node: whether it serves, since when, and how busy it is." },
  nodes: {
    title: "Nodes", one: "node", many: "nodes", order: "id",
    note: "The members of the cluster, in the newest view that this node has.",
    columns: [
      column("name", "Name"), column("id", "Id", "count"), column("state", "State"), column("role", "Role"),
      column("partition_slots", "Partition slots", "count"), column("group_slots", "Group slots", "count"),
      column("rack", "Rack"), column("weight", "Weight", "count"), column("version", "Version"),
      column("addresses", "Addresses", "text", { long: true }),
    ],
  },
  brokers: {
    title: "Brokers", one: "broker", many: "brokers", order: "address",
    note: "The brokers of Pulsar that this node has connections to. The delay is the time to an answer or a receipt, "
      + "smoothed.",
    columns: [
      column("address", "Address"), column("state", "State"), column("delay", "Delay", "seconds"),
      column("answered", "Last answer, ago", "seconds"), column("waiting", "Requests waiting", "count"),
      column("producers", "Producers", "count"), column("readers", "Readers", "count"),
      column("connections", "Connections", "count"), column("version", "Pulsar"),
    ],
  },
  topics: {
    title: "Topics", one: "topic", many: "topics", order: "name", details: true,
    note: "The topics that clients of this node have used. Records and rates are of the partitions that are open here; "
      + "bytes are what this node has written and read since it started.",
    columns: [
      column("name", "Topic"), column("partitions", "Partitions", "count"), column("led", "Led here", "count"),
      column("open", "Open here", "count"), column("records", "Records", "count"),
      column("rate", "Records a second", "rate"), column("in_rate", "In", "byterate"),
      column("out_rate", "Out", "byterate"), column("bytes_in", "Written", "bytes"), column("bytes_out", "Read", "bytes"),
    ],
    parts: [
      { key: "partitions", title: "Partitions", columns: [
        fixed("partition", "Partition", "count"), fixed("leader", "Leader, node id", "count"),
        fixed("start", "First offset", "count"), fixed("end", "End", "count"), fixed("records", "Records", "count"),
        fixed("followed", "Followed here", "yes"),
      ] },
    ],
  },
  groups: {
    title: "Groups", one: "group", many: "groups", order: "name", details: true,
    note: "The groups that this node coordinates; other nodes have others. ≥: of some partitions it is not known. Where "
      + "no client of this node reads, Pulsar was asked, some seconds ago.",
    columns: [
      column("name", "Group"), column("state", "State"), column("members", "Members", "count"),
      column("lag", "Lag, records", "count", { says: lag }), column("behind", "Behind", "seconds", { says: behind }),
      column("partitions", "Partitions", "count"), column("protocol", "Protocol"),
      column("generation", "Generation", "count"),
    ],
    parts: [
      { key: "partitions", title: "Partitions", columns: [
        fixed("topic", "Topic"), fixed("partition", "Partition", "count"), fixed("committed", "Committed", "count"),
        fixed("end", "End", "count"), fixed("lag", "Lag, records", "count"),
        fixed("behind", "Behind", "seconds"), fixed("committed_at", "Committed at", "moment"),
      ] },
      { key: "members", title: "Members", columns: [
        fixed("id", "Member"), fixed("client_id", "Client id"), fixed("host", "Host"),
        fixed("instance_id", "Instance id"),
      ] },
    ],
  },
  clients: {
    title: "Clients", one: "kind of client", many: "kinds of clients", order: "-connections",
    note: "By the software that they say they are; old clients say nothing. Counted by this node since it started.",
    columns: [
      column("name", "Software"), column("version", "Version"), column("connections", "Connections", "count"),
      column("requests", "Requests", "count"), column("errors", "Errors", "count"),
      column("bytes_in", "Sent by them", "bytes"), column("bytes_out", "Sent to them", "bytes"),
    ],
  },
  events: {
    title: "Events", one: "event", many: "events", order: "-at",
    note: "The last notable lines of this node's log, 16 of a kind at most. The count is of all of that kind.",
    columns: [
      column("text", "Event"), column("at", "When", "moment"), column("level", "Level", "text", { short: true }),
      column("count", "Count", "count"), fixed("explanation", "What it means", "text", { long: true }),
      fixed("fields", "Details", "text", { long: true }), column("logger", "Logger"),
    ],
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

const NUMBERS = new Set(["count", "rate", "bytes", "byterate", "seconds"]);
const BAD = new Set(["silent", "gone", "Dead", "ERROR", "CRITICAL"]);
const WARN = new Set(["leaving", "drained", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling",
  "WARNING"]);

function tone(text) {
  return BAD.has(text) ? "bad" : WARN.has(text) ? "warn" : "";
}

// A table whose rows stay the same elements while their values change, so that focus and selection stay.
export class Grid {
  constructor(columns, caption, onSort, link) {
    this.columns = columns;
    this.link = link;
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
      const text = one.says ? one.says(row) : shown(one.kind, row[one.key]);
      if (!index && this.link) {
        const href = this.link(row);
        if (cell.firstChild.getAttribute("href") !== href) cell.firstChild.setAttribute("href", href);
        say(cell.firstChild, text);
      } else if (cell.textContent !== text) {
        cell.textContent = text;
        if (one.key === "state" || one.key === "level") cell.classList.toggle("bad", tone(text) === "bad");
        if (one.key === "state" || one.key === "level") cell.classList.toggle("warn", tone(text) === "warn");
      }
    });
  }
}
