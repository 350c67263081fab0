// A look at records: asked for when someone wants it. What they hold is text in text nodes, whatever it says.

import { el, moment, say, shown, told } from "./views.js";

const STARTS = [["newest", "the newest"], ["offset", "from an offset"], ["time", "from a time"]];
const PATIENCE = 30_000;  // more than a look takes

export function recordsPage(state, back) {
  const partition = el("input", { type: "number", id: "partition", min: 0, value: state.partition });
  const start = el("select", { id: "start" }, ...STARTS.map(([value, text]) => el("option", { value }, text)));
  const offset = el("input", { type: "number", id: "offset", min: 0, value: 0 });
  const time = el("input", { type: "datetime-local", id: "time", step: 1 });
  const key = el("input", { type: "text", id: "key", autocomplete: "off", spellcheck: "false", maxlength: 500 });
  const button = el("button", { type: "submit" }, "Look");
  const next = el("button", { type: "button", hidden: "" }, "Next records");
  const said = el("p", { role: "status" });
  const list = el("div", { class: "records" });
  const label = (text, input) => el("label", {}, text, " ", input);
  const [offsetLabel, timeLabel] = [label("Offset", offset), label("Time", time)];
  const form = el("form", { class: "tools" }, label("Partition", partition), label("Begin with", start), offsetLabel,
    timeLabel, label("Key (text, or 0x and its bytes)", key), button, next);
  const element = el("div", {}, el("p", {}, el("a", { href: back }, "The topic")), form, said, list);
  let following = 0;

  const choose = () => {
    offsetLabel.hidden = start.value !== "offset";
    timeLabel.hidden = start.value !== "time";
  };
  start.addEventListener("change", choose);
  choose();

  async function look() {
    if (button.getAttribute("aria-disabled")) return;
    const query = new URLSearchParams({ view: "records", item: state.item, partition: partition.value || 0, start: start.value });
    if (start.value === "offset") query.set("at", offset.value || 0);
    if (start.value === "time") query.set("at", time.value ? new Date(time.value).getTime() : 0);
    if (key.value) query.set("key", key.value);
    if (state.worker !== null) query.set("worker", state.worker);
    button.setAttribute("aria-disabled", "true");
    say(said, "Reading …");
    try {
      const { answer } = await told(await fetch(`api/state?${query}`, { cache: "no-store", signal: AbortSignal.timeout(PATIENCE) }));
      if (answer === null) throw new Error("No worker answers.");
      show(answer.item.found);
    } catch (error) {
      list.replaceChildren();
      next.hidden = true;
      say(said, error.message);
    } finally {
      button.removeAttribute("aria-disabled");
    }
  }

  function show(found) {
    following = found.next;
    next.hidden = start.value === "newest" || found.next >= found.end;
    const stopped = found.stopped ? ` Not all was read: ${found.stopped}.` : "";
    say(said, `${found.records.length} records. The partition has offsets ${found.start} to ${found.end - 1}; `
      + `${shown("bytes", found.read)} were read from ${found.since} on.${stopped}`);
    list.replaceChildren(...found.records.map(record));
  }

  form.addEventListener("submit", (event) => { event.preventDefault(); look(); });
  next.addEventListener("click", () => {
    start.value = "offset";
    choose();
    offset.value = following;
    look();
  });
  look();
  return { element, update: () => {} };
}

function record(one) {
  const time = one.timestamp === null ? "no timestamp" : moment(one.timestamp / 1000);
  const headers = one.headers.map(([name, value]) => el("li", {}, el("bdi", {}, name), ": ", inline(value)));
  if (one.more_headers) headers.push(el("li", {}, `${one.more_headers} more`));
  return el("article", {},
    el("h3", {}, `Offset ${one.offset}`),
    el("p", { class: "quiet" }, `${time}, written by a client of ${one.writer}`),
    el("p", {}, "Key: ", inline(one.key)),
    ...(headers.length ? [el("p", {}, "Headers:"), el("ul", {}, ...headers)] : []),
    el("p", {}, "Value: ", about(one.value)),
    ...(one.value.kind === "none" ? [] : [el("pre", { tabindex: "0", role: "region", "aria-label": `Value of offset ${one.offset}` },
      one.value.text)]));
}

function inline(content) {
  if (content.kind === "none") return el("span", { class: "quiet" }, "null");
  return el("bdi", { class: content.kind === "hex" ? "hex" : undefined }, content.text,
    content.cut || content.kind === "hex" ? ` (${about(content)})` : "");
}

function about(content) {
  if (content.kind === "none") return "null";
  return `${content.kind === "hex" ? "bytes" : content.kind}, ${shown("bytes", content.bytes)}${content.cut ? ", the beginning" : ""}`;
}
