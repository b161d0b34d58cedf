// The table of buffers, and what tables of rows share.

const lowerCase = new WeakMap(); // a list of texts -> the same in small letters

/** For each text of `texts` whether it holds `word`. */
function holding(texts, word) {
  if (!lowerCase.has(texts))
    lowerCase.set(
      texts,
      texts.map((text) => String(text).toLowerCase()),
    );
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
    const words = held
      .slice(0, 3)
      .map(([first, last]) =>
        first === last ? formatCount(first + 1) : `${formatCount(first + 1)}\u2013${formatCount(last + 1)}`,
      );
    if (held.length > 3) words.push(`and ${formatCount(held.length - 3)} times more`);
    return make(
      "div",
      { class: "lane" },
      make("span", { class: "muted" }, step.label),
      make("span", { class: "track" }, ...spans),
      make("span", {}, words.join(", ") || "not held"),
    );
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
      const tests = words.map((word) => [
        holding(strings, word),
        holding(details.roles, word),
        holding(details.fates, word),
      ]);
      return (row) =>
        tests.every(
          ([texts, roles, fates]) =>
            texts[buffers.name[row]] ||
            texts[buffers.type[row]] ||
            texts[buffers.reason[row]] ||
            roles[buffers.role[row]] ||
            fates[buffers.fate[row]],
        );
    },
    filters: [
      {
        label: "Role",
        choices: choicesOf(buffers.role, details.roles),
        test: (value) => (row) => buffers.role[row] === Number(value),
      },
      {
        label: "Fate",
        choices: choicesOf(buffers.fate, details.fates),
        test: (value) => (row) => buffers.fate[row] === Number(value),
      },
    ],
    columns: [
      {
        key: "name",
        label: "Name",
        class: "wide",
        by: rank(buffers.name),
        show: (row) => nameElement(buffers.nameOf(row)),
      },
      {
        key: "bytes",
        label: "Size",
        numeric: true,
        by: (row) => buffers.bytes[row],
        show: (row) => formatBytes(buffers.bytes[row]),
      },
      { key: "role", label: "Role", by: (row) => buffers.role[row], show: (row) => chip("role", buffers.roleOf(row)) },
      { key: "fate", label: "Fate", by: (row) => buffers.fate[row], show: (row) => chip("fate", buffers.fateOf(row)) },
      {
        key: "cost",
        label: "Added time",
        numeric: true,
        by: (row) => buffers.cost[row],
        show: (row) => (buffers.cost[row] ? formatTime(buffers.cost[row]) : NOTHING),
      },
      { key: "type", label: "Made by", by: rank(buffers.type), show: (row) => buffers.typeOf(row) },
      {
        key: "reason",
        label: "Reason",
        class: "text",
        by: rank(buffers.reason),
        show: (row) => make("span", {}, ...breakable(buffers.reasonOf(row))),
      },
    ],
  });
  return grid;
}

function showBuffers(state) {
  const { buffers, details } = state.model;
  const grid = buffersGrid(state);
  const omitted =
    details.omitted && details.omitted.buffers
      ? `${formatCount(details.omitted.buffers)} smaller buffers, ${formatBytes(details.omitted.bytes)} together, are not listed.`
      : "";
  const section = fill(
    "buffers",
    "Buffers",
    make(
      "p",
      { class: "intro" },
      "What the step holds in memory, and what became of it. Choose one to see on the timeline when it " +
        `is held. ${omitted}`,
    ),
    grid.build(),
  );
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
