// The table of decisions: what is done differently from stock, why, what it costs and saves, where.

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
  const order = decisions
    .map((_, row) => row)
    .sort((a, b) => (decisions[a].position || 0) - (decisions[b].position || 0) || a - b);
  const taken = new Map();
  for (const row of order) {
    // What only waits or is moved may be there as an operation like any other.
    const key = `${decisions[row].kind} ${decisions[row].op}`;
    const found = places.get(key) || places.get(`run ${decisions[row].op}`) || [];
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
    return fill(
      "decisions",
      "Decisions",
      make("p", { class: "empty" }, "None: the step runs as stock TensorFlow would run it."),
    );
  }
  const column = (name) => decisions.map((decision) => String(decision[name] ?? ""));
  const ops = column("op");
  const targets = ops.map((op) => (buffers ? buffers.find(op) : undefined));
  const reasons = decisions.map((decision, row) => decisionReason(decision, targets[row], buffers));
  const texts = {
    op: ops,
    op_type: column("op_type"),
    before: column("before"),
    trigger: column("trigger"),
    reason: reasons,
  };
  const kinds = [...new Set(column("kind"))];
  const places = placesOf(decisions, steps.after);
  const lazy = new Map();
  let chosen = -1; // row
  const rank = (name) => (row) => {
    if (!lazy.has(name)) lazy.set(name, ranksOf(texts[name]));
    return lazy.get(name)[row];
  };
  const number = (name) => (row) => Number(decisions[row][name]) || 0;
  const text = (key, label, extra = {}) => ({
    key,
    label,
    by: rank(key),
    show: (row) =>
      key === "reason"
        ? make("span", {}, ...breakable(texts[key][row]))
        : texts[key][row] && nameElement(texts[key][row]),
    ...extra,
  });
  const time = (key, label) => ({
    key,
    label,
    numeric: true,
    by: number(key),
    show: (row) => (decisions[row][key] ? formatTime(decisions[row][key]) : NOTHING),
  });
  const columns = [
    text("op", "Operation", { class: "wide" }),
    {
      key: "kind",
      label: "Decision",
      by: (row) => kinds.indexOf(String(decisions[row].kind)),
      show: (row) => chip2(decisions[row].kind),
    },
    {
      key: "tensor_bytes",
      label: "Frees",
      numeric: true,
      by: number("tensor_bytes"),
      show: (row) => (decisions[row].tensor_bytes ? formatBytes(decisions[row].tensor_bytes) : NOTHING),
    },
    time("cost_us", "Costs"),
    text("before", "Wanted by", { class: "wide" }),
    text("trigger", "Waits for", { class: "wide" }),
    {
      key: "position",
      label: "Position",
      numeric: true,
      by: (row) => places[row],
      show: (row) => (places[row] < 0 ? NOTHING : formatCount(places[row] + 1)),
    },
    text("reason", "Reason", { class: "text" }),
  ];
  if (decisions.some((decision) => decision.transfer_us))
    columns.splice(4, 0, time("transfer_us", "Link"), time("stall_us", "Stall"));
  const chip2 = (kind) =>
    make(
      "span",
      { class: "chip" },
      make("span", { class: "key", style: { background: `var(--kind-${cssName(kind)}, var(--unlisted))` } }),
      KIND_WORDS[kind] || String(kind),
    );
  const countOf = (kind) => decisions.reduce((sum, decision) => sum + (decision.kind === kind), 0);
  const grid = new Grid({
    id: "decisions",
    noun: ["decision", "decisions"],
    count: decisions.length,
    sort: { key: "tensor_bytes", down: true },
    hint: "Operation, type, reader, reason",
    columns,
    picked: (row) => row === chosen,
    detail: (row) =>
      targets[row] === undefined
        ? make(
            "div",
            { class: "held" },
            make("span", { class: "lanes muted" }, "It makes no buffer of its own that is listed."),
            timelineButton(),
          )
        : heldElement(state, targets[row]),
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
      const lists = [
        ...Object.values(texts),
        decisions.map((decision) => KIND_WORDS[decision.kind] || String(decision.kind)),
      ];
      const tests = words.map((word) => lists.map((list) => holding(list, word)));
      return (row) => tests.every((found) => found.some((list) => list[row]));
    },
    filters: [
      {
        label: "Decision",
        choices: [
          ["", "all"],
          ...kinds.map((kind) => [kind, `${KIND_WORDS[kind] || kind} (${formatCount(countOf(kind))})`]),
        ],
        test: (value) => (row) => String(decisions[row].kind) === value,
      },
    ],
  });
  const cost = decisions.reduce((sum, decision) => sum + (Number(decision.cost_us) || 0), 0);
  const priced = [...new Set(column("priced_by").filter(Boolean))].map((by) =>
    by === "profile" ? "measured" : "estimated",
  );
  const how = priced.length ? ` (${priced.join(" and ")})` : "";
  const words =
    `What is done differently from stock, operation by operation. Together ${formatTime(cost)} of added ` +
    `work${how}. Choose one to go to its place on the timeline.`;
  const section = fill("decisions", "Decisions", make("p", { class: "intro" }, words), grid.build());
  state.listen((what) => {
    if (what !== "selected" || chosen < 0 || targets[chosen] === state.selected) return;
    chosen = -1; // another buffer was chosen elsewhere
    grid.showPage();
  });
  return section;
}
