// The tables: buffers, decisions, what is kept; and the lists below them.

const lowerCase = new WeakMap(); // a list of texts -> the same in small letters

/** For each text of `texts` whether it holds `word`. */
function holding(texts, word) {
  if (!lowerCase.has(texts)) lowerCase.set(texts, texts.map((text) => String(text).toLowerCase()));
  return Uint8Array.from(lowerCase.get(texts), (text) => (text.includes(word) ? 1 : 0));
}

function chip(group, name) {
  const color = `var(--${group}-${cssName(name)}, var(--unlisted))`;
  return make("span", { class: "chip" }, make("span", { class: "key", style: { background: color } }), name);
}

/** Goes up to the timeline; the reader's place in the table stays. */
function timelineButton() {
  const go = (event) => {
    event.stopPropagation();
    document.getElementById("timeline").scrollIntoView();
    document.getElementById("stage").focus({ preventScroll: true });
  };
  return makeButton({ class: "quiet", on: { click: go } }, "Show on the timeline");
}

/** When a buffer is held, in each step: a lane and the operations, counted from 1. */
function heldElement(state, buffer) {
  const { steps, buffers } = state.model;
  const lanes = [steps.before, steps.after].filter(Boolean).map((step) => {
    const held = buffers.held(buffer, step);
    const spans = held.slice(0, 200).map(([first, last]) => {
      const style = { left: `${(first / step.count) * 100}%`, width: `${((last - first + 1) / step.count) * 100}%` };
      return make("span", { style });
    });
    const words = held.slice(0, 3).map(([first, last]) => (first === last ? formatCount(first + 1) : `${formatCount(first + 1)}\u2013${formatCount(last + 1)}`));
    if (held.length > 3) words.push(`and ${formatCount(held.length - 3)} times more`);
    return make("div", { class: "lane" }, make("span", { class: "muted" }, step.label), make("span", { class: "track" }, ...spans), make("span", {}, words.join(", ") || "not held"));
  });
  return make("div", { class: "held" }, make("div", { class: "lanes" }, ...lanes), timelineButton());
}

function choicesOf(column, names) {
  const counts = new Array(names.length).fill(0);
  for (const value of column) counts[value]++;
  const there = names.map((name, index) => [String(index), `${name} (${formatCount(counts[index])})`, counts[index]]);
  return [["", "all"], ...there.filter((choice) => choice[2])];
}

function buffersGrid(state) {
  const { buffers, details } = state.model;
  const strings = details.strings;
  let ranks = null;
  const rank = (column) => (row) => (ranks ||= ranksOf(strings))[column[row]];
  const grid = new Grid({
    id: "buffers",
    noun: ["buffer", "buffers"],
    count: buffers.count,
    sort: { key: "bytes", down: true },
    hint: "Name, type, role, fate or reason",
    bytes: (row) => buffers.bytes[row],
    picked: (row) => row === state.selected,
    choose: (row) => state.select(row),
    detail: (row) => heldElement(state, row),
    search(words) {
      const tests = words.map((word) => [holding(strings, word), holding(details.roles, word), holding(details.fates, word)]);
      return (row) =>
        tests.every(([texts, roles, fates]) => texts[buffers.name[row]] || texts[buffers.type[row]] || texts[buffers.reason[row]] || roles[buffers.role[row]] || fates[buffers.fate[row]]);
    },
    filters: [
      { label: "Role", choices: choicesOf(buffers.role, details.roles), test: (value) => (row) => buffers.role[row] === Number(value) },
      { label: "Fate", choices: choicesOf(buffers.fate, details.fates), test: (value) => (row) => buffers.fate[row] === Number(value) },
    ],
    columns: [
      { key: "name", label: "Name", class: "wide", by: rank(buffers.name), show: (row) => nameElement(buffers.nameOf(row)) },
      { key: "bytes", label: "Size", numeric: true, by: (row) => buffers.bytes[row], show: (row) => formatBytes(buffers.bytes[row]) },
      { key: "role", label: "Role", by: (row) => buffers.role[row], show: (row) => chip("role", buffers.roleOf(row)) },
      { key: "fate", label: "Fate", by: (row) => buffers.fate[row], show: (row) => chip("fate", buffers.fateOf(row)) },
      { key: "cost", label: "Added time", numeric: true, by: (row) => buffers.cost[row], show: (row) => (buffers.cost[row] ? formatTime(buffers.cost[row]) : NOTHING) },
      { key: "type", label: "Made by", by: rank(buffers.type), show: (row) => buffers.typeOf(row) },
      { key: "reason", label: "Reason", class: "text", by: rank(buffers.reason), show: (row) => buffers.reasonOf(row) },
    ],
  });
  return grid;
}

function showBuffers(state) {
  const { buffers, details } = state.model;
  const grid = buffersGrid(state);
  const omitted = details.omitted && details.omitted.buffers ? `${formatCount(details.omitted.buffers)} smaller buffers, ${formatBytes(details.omitted.bytes)} together, are not listed.` : "";
  const section = fill("buffers", "Buffers", make("p", { class: "intro" }, `What the step holds in memory, and what became of it. Choose one to see on the timeline when it is held. ${omitted}`), grid.build());
  const live = new Set();
  const box = make("input", { type: "checkbox", id: "only-live" });
  const only = () => {
    if (!box.checked && !grid.tests.has("live")) return;
    live.clear();
    if (box.checked) for (const row of liveAt(state.step, buffers, state.position, Infinity).buffers) live.add(row);
    grid.filter("live", box.checked ? (row) => live.has(row) : null);
  };
  box.addEventListener("change", only);
  const where = make("span", {}, "");
  const label = make("label", { class: "check" }, box, where);
  grid.extra.append(label);
  const name = () => {
    label.hidden = !state.pinned;
    where.textContent = `Live at operation ${formatCount(state.position + 1)}`;
    if (!state.pinned) box.checked = false;
    only();
  };
  label.hidden = true;
  state.listen((what) => {
    if (what === "pin" || what === "active") name();
    if (what === "selected") grid.turnTo(state.selected === null ? -1 : state.selected);
  });
  return section;
}

/** The reason that a decision has in words: the buffer's own, else what its kind means. */
function decisionReason(decision, buffer, buffers) {
  if (decision.reason) return String(decision.reason);
  const own = buffer === undefined ? "" : buffers.reasonOf(buffer);
  return own || DECISION_WHY[decision.kind] || "";
}

/**
 * Where each decision is carried out in the rewritten step; -1 where that is not known. Decisions
 * have the planner's positions, of another order: of several about one op the first is the first.
 */
function placesOf(decisions, step) {
  const result = new Int32Array(decisions.length).fill(-1);
  if (!step || !step.columns) return result;
  const places = new Map();
  for (let position = 0; position < step.count; position++) {
    const key = `${step.kind(position)} ${step.op(position)}`;
    if (places.has(key)) places.get(key).push(position);
    else places.set(key, [position]);
  }
  const order = decisions.map((_, row) => row).sort((a, b) => (decisions[a].position || 0) - (decisions[b].position || 0) || a - b);
  const taken = new Map();
  for (const row of order) {
    const key = `${decisions[row].kind === "order" ? "run" : decisions[row].kind} ${decisions[row].op}`;
    const found = places.get(key) || [];
    const next = taken.get(key) || 0;
    taken.set(key, next + 1);
    if (found.length) result[row] = found[Math.min(next, found.length - 1)];
  }
  return result;
}

function showDecisions(state) {
  const { buffers, report, steps } = state.model;
  const decisions = report.decisions || [];
  if (!decisions.length) {
    if (report.status === "rewritten" || !steps.before) return null;
    return fill("decisions", "Decisions", make("p", { class: "empty" }, "None: the step runs as stock TensorFlow would run it."));
  }
  const column = (name) => decisions.map((decision) => String(decision[name] ?? ""));
  const ops = column("op");
  const targets = ops.map((op) => (buffers ? buffers.find(op) : undefined));
  const reasons = decisions.map((decision, row) => decisionReason(decision, targets[row], buffers));
  const texts = { op: ops, op_type: column("op_type"), before: column("before"), trigger: column("trigger"), reason: reasons };
  const kinds = [...new Set(column("kind"))];
  const places = placesOf(decisions, steps.after);
  const lazy = new Map();
  let chosen = -1; // row
  const rank = (name) => (row) => {
    if (!lazy.has(name)) lazy.set(name, ranksOf(texts[name]));
    return lazy.get(name)[row];
  };
  const number = (name) => (row) => Number(decisions[row][name]) || 0;
  const text = (key, label, extra = {}) => ({ key, label, by: rank(key), show: (row) => (texts[key][row] && key !== "op_type" && key !== "reason" ? nameElement(texts[key][row]) : texts[key][row]), ...extra });
  const time = (key, label) => ({ key, label, numeric: true, by: number(key), show: (row) => (decisions[row][key] ? formatTime(decisions[row][key]) : NOTHING) });
  const columns = [
    text("op", "Operation", { class: "wide" }),
    { key: "kind", label: "Decision", by: (row) => kinds.indexOf(String(decisions[row].kind)), show: (row) => chip2(decisions[row].kind) },
    { key: "tensor_bytes", label: "Frees", numeric: true, by: number("tensor_bytes"), show: (row) => (decisions[row].tensor_bytes ? formatBytes(decisions[row].tensor_bytes) : NOTHING) },
    time("cost_us", "Costs"),
    text("before", "Wanted by", { class: "wide" }),
    text("trigger", "Waits for", { class: "wide" }),
    { key: "position", label: "Position", numeric: true, by: (row) => places[row], show: (row) => (places[row] < 0 ? NOTHING : formatCount(places[row] + 1)) },
    text("reason", "Reason", { class: "text" }),
  ];
  if (decisions.some((decision) => decision.transfer_us)) columns.splice(4, 0, time("transfer_us", "Link"), time("stall_us", "Stall"));
  const chip2 = (kind) => make("span", { class: "chip" }, make("span", { class: "key", style: { background: `var(--kind-${cssName(kind)}, var(--unlisted))` } }), KIND_WORDS[kind] || String(kind));
  const countOf = (kind) => decisions.reduce((sum, decision) => sum + (decision.kind === kind), 0);
  const grid = new Grid({
    id: "decisions",
    noun: ["decision", "decisions"],
    count: decisions.length,
    sort: { key: "tensor_bytes", down: true },
    hint: "Operation, type, reader, reason",
    columns,
    picked: (row) => row === chosen,
    detail: (row) => (targets[row] === undefined ? make("div", { class: "held" }, make("span", { class: "lanes muted" }, "It makes no buffer of its own that is listed."), timelineButton()) : heldElement(state, targets[row])),
    choose: (row) => {
      chosen = row === chosen ? -1 : row;
      if (chosen < 0) {
        state.unpin();
        if (state.selected !== null) state.select(null);
        else grid.showPage();
        return;
      }
      if (targets[row] === undefined && state.selected !== null) state.select(null);
      if (targets[row] !== undefined && targets[row] !== state.selected) state.select(targets[row]);
      if (places[row] >= 0) {
        state.activate("after");
        state.pin(places[row]);
      }
      grid.showPage();
    },
    search(words) {
      const lists = [...Object.values(texts), decisions.map((decision) => KIND_WORDS[decision.kind] || String(decision.kind))];
      const tests = words.map((word) => lists.map((list) => holding(list, word)));
      return (row) => tests.every((found) => found.some((list) => list[row]));
    },
    filters: [
      { label: "Decision", choices: [["", "all"], ...kinds.map((kind) => [kind, `${KIND_WORDS[kind] || kind} (${formatCount(countOf(kind))})`])], test: (value) => (row) => String(decisions[row].kind) === value },
    ],
  });
  const cost = decisions.reduce((sum, decision) => sum + (Number(decision.cost_us) || 0), 0);
  const priced = [...new Set(column("priced_by").filter(Boolean))].map((by) => (by === "profile" ? "measured" : "estimated"));
  const words = `What is done differently from stock, operation by operation. Together ${formatTime(cost)} of added work${priced.length ? ` (${priced.join(" and ")})` : ""}. Choose one to go to its place on the timeline.`;
  const section = fill("decisions", "Decisions", make("p", { class: "intro" }, words), grid.build());
  state.listen((what) => {
    if (what !== "selected" || chosen < 0 || targets[chosen] === state.selected) return;
    chosen = -1; // another buffer was chosen elsewhere
    grid.showPage();
  });
  return section;
}

function showKept(report) {
  const kept = report.kept || [];
  if (!kept.length) return null;
  const rows = kept.map((item) =>
    make("tr", {}, make("th", { scope: "row", class: "text" }, String(item.reason ?? "")), make("td", { class: "number" }, formatBytes(item.bytes || 0)), make("td", { class: "number" }, formatCount(item.tensors || 0))),
  );
  const head = make("tr", {}, make("th", { scope: "col" }, "Reason"), make("th", { scope: "col", class: "number" }, "Size"), make("th", { scope: "col", class: "number" }, "Tensors"));
  return fill("kept", "Kept in memory, and why", make("div", { class: "grid plain" }, make("table", { "aria-labelledby": "kept-title" }, make("thead", {}, head), make("tbody", {}, ...rows))));
}

/** Bars: peaks side by side, on one scale. */
function showMeasured(report) {
  if (!report.peak_before_bytes) return null;
  const measured = report.measured_peak_bytes || 0;
  const rewritten = report.status === "rewritten";
  const bars = [["Predicted, stock", report.peak_before_bytes, "stock"]];
  if (rewritten) bars.push(["Predicted, with lms", report.peak_after_bytes, "after"]);
  if (measured) bars.push([`Measured${report.measured_steps ? `, ${formatCount(report.measured_steps)} ${report.measured_steps === 1 ? "step" : "steps"}` : ""}`, measured, "measured"]);
  if (report.budget_bytes && report.budget_bytes < 4 * report.peak_before_bytes) bars.push(["Budget", report.budget_bytes, "budget"]);
  const most = Math.max(...bars.map((bar) => bar[1]));
  const unit = unitOf(most);
  const resident = report.resident_bytes || 0;
  const rows = bars.map(([label, bytes, kind]) => {
    const part = kind === "budget" ? 0 : Math.min(resident, bytes);
    return make(
      "div",
      { class: "row" },
      make("dt", {}, label),
      make("dd", {}, make("span", { class: "track" }, make("span", { class: `fill ${kind}`, style: { width: `${(bytes / most) * 100}%` } }, part ? make("span", { class: "part", style: { width: `${(part / bytes) * 100}%` } }) : null)), make("span", { class: "value" }, formatBytes(bytes, unit))),
    );
  });
  const notes = [];
  if (measured) notes.push(`The measured peak is ${againstPrediction(report)}.`);
  else notes.push("Nothing was measured: that takes a second call of the function, on a CPU, with no other call beside it.");
  if (resident) notes.push(`The darker part, ${formatBytes(resident)}, is there during the whole step: weights, optimizer slots, arguments.`);
  return fill("measured", "Predicted beside measured", make("dl", { class: "bars" }, ...rows), ...notes.map((note) => make("p", { class: "intro" }, note)));
}

function showFacts(report) {
  const priced = report.profile ? `${formatShare(report.profiled_share || 0, 0)} measured times (${report.profile})` : report.step_time_us ? "estimates" : "";
  const where = [report.swap_tier, report.swap_directory && `(${report.swap_directory})`].filter(Boolean).join(" ");
  const facts = [
    ["Device", report.device],
    ["Other devices of the step", (report.other_devices || []).join(", ")],
    ["Operations", report.nodes_before ? (report.status === "rewritten" ? `${formatCount(report.nodes_before)}, rewritten ${formatCount(report.nodes_after || 0)}` : formatCount(report.nodes_before)) : ""],
    ["Resident before the step", report.resident_bytes ? formatBytes(report.resident_bytes) : ""],
    ["Time of the step, predicted", report.step_time_us ? formatTime(report.step_time_us) : ""],
    ["Priced by", priced],
    ["Sizes assumed", (report.sizes || []).join("; ")],
    ["Swapping", where ? `to ${where}${report.link ? `, ${report.link}` : ""}` : report.swap_note],
    ["Swapped in a step", report.swapped_bytes ? `${formatBytes(report.swapped_bytes)}, ${formatShare(report.swap_hidden || 0, 0)} of the transfers hidden, ${formatTime((report.swap_stall || 0) * 1e6)} waited` : ""],
    ["Stage", report.status === "failed" ? report.stage : ""],
    ["Number of the report", Number.isFinite(report.sequence) ? String(report.sequence) : ""],
  ].filter(([, value]) => value);
  return facts.length ? fill("facts", "More about it", make("dl", { class: "facts" }, ...facts.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, String(value))]))) : null;
}

function showTerms() {
  return fill("terms", "What the words mean", make("dl", { class: "facts terms" }, ...TERMS.flatMap(([term, meaning]) => [make("dt", {}, term), make("dd", {}, meaning)])));
}
