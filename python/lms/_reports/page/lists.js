// What stands below the tables: kept tensors, peaks side by side, further facts, words.

function showKept(report) {
  const kept = report.kept || [];
  if (!kept.length) return null;
  const rows = kept.map((item) =>
    make(
      "tr",
      {},
      make("th", { scope: "row", class: "text" }, String(item.reason ?? "")),
      make("td", { class: "number" }, formatBytes(item.bytes || 0)),
      make("td", { class: "number" }, formatCount(item.tensors || 0)),
    ),
  );
  const head = make(
    "tr",
    {},
    make("th", { scope: "col" }, "Reason"),
    make("th", { scope: "col", class: "number" }, "Size"),
    make("th", { scope: "col", class: "number" }, "Tensors"),
  );
  return fill(
    "kept",
    "Kept in memory, and why",
    make(
      "div",
      { class: "grid plain" },
      make("table", { "aria-labelledby": "kept-title" }, make("thead", {}, head), make("tbody", {}, ...rows)),
    ),
  );
}

/** What the user asked for tensor by tensor (lms.keep and so on), and what each came to. */
function showHints(report) {
  const hints = report.hints || [];
  if (!hints.length) return null;
  const cost = (us) => (us ? `${us > 0 ? "+" : "\u2212"}${formatTime(Math.abs(us))}` : NOTHING);
  const peak = (bytes) => (bytes ? formatBytes(bytes) : NOTHING);
  const columns = [
    ["Where", "text", (hint) => String(hint.where ?? "")],
    ["Hint", "", (hint) => String(hint.kind ?? "")],
    ["Tensors", "number", (hint) => formatCount(hint.tensors || 0)],
    ["Size", "number", (hint) => formatBytes(hint.bytes || 0)],
    ["Costs", "number", (hint) => cost(hint.cost_us)],
    ["Peak with it", "number", (hint) => peak(hint.peak_bytes)],
    ["Without it", "number", (hint) => peak(hint.peak_without_bytes)],
    ["Not followed", "number", (hint) => (hint.not_followed ? formatCount(hint.not_followed) : NOTHING)],
  ];
  const head = columns.map(([label, kind]) => make("th", { scope: "col", class: kind || null }, label));
  const rows = hints.map((hint) =>
    make(
      "tr",
      {},
      ...columns.map(([label, kind, show], index) =>
        make(
          index ? "td" : "th",
          { scope: index ? null : "row", class: kind || null, "data-label": label },
          index ? show(hint) : make("span", {}, ...breakable(show(hint))),
        ),
      ),
    ),
  );
  const table = make(
    "table",
    { "aria-labelledby": "hints-title" },
    make("thead", {}, make("tr", {}, ...head)),
    make("tbody", {}, ...rows),
  );
  const words =
    "What the program asked for (lms.keep, lms.recompute, lms.swap), and what each costs beside a plan without it.";
  return fill(
    "hints",
    "Hints",
    make("p", { class: "intro" }, words),
    make("div", { class: "grid fixed hints" }, table),
  );
}

/** Bars: peaks side by side, on one scale. */
function showMeasured(report) {
  if (!report.peak_before_bytes) return null;
  const measured = report.measured_peak_bytes || 0;
  const rewritten = report.status === "rewritten";
  const bars = [["Predicted, stock", report.peak_before_bytes, "stock"]];
  if (rewritten) bars.push(["Predicted, with lms", report.peak_after_bytes, "after"]);
  if (measured)
    bars.push([
      `Measured${report.measured_steps ? `, ${formatCount(report.measured_steps)} ${report.measured_steps === 1 ? "step" : "steps"}` : ""}`,
      measured,
      "measured",
    ]);
  if (report.budget_bytes && report.budget_bytes < 4 * report.peak_before_bytes)
    bars.push(["Budget", report.budget_bytes, "budget"]);
  const most = Math.max(...bars.map((bar) => bar[1]));
  const resident = report.resident_bytes || 0;
  const rows = bars.map(([label, bytes, kind]) => {
    const part = kind === "budget" ? 0 : Math.min(resident, bytes);
    return make(
      "div",
      { class: "row" },
      make("dt", {}, label),
      make(
        "dd",
        {},
        make(
          "span",
          { class: "track" },
          make(
            "span",
            { class: `fill ${kind}`, style: { width: `${(bytes / most) * 100}%` } },
            part ? make("span", { class: "part", style: { width: `${(part / bytes) * 100}%` } }) : null,
          ),
        ),
        make("span", { class: "value" }, formatBytes(bytes)),
      ),
    );
  });
  const notes = [];
  if (measured) notes.push(`The measured peak is ${againstPrediction(report)}.`);
  else
    notes.push(
      "Nothing was measured: that takes a second call of the function, on a CPU, with no other call beside it.",
    );
  if (resident)
    notes.push(
      `The darker part, ${formatBytes(resident)}, is there during the whole step: weights, optimizer slots, arguments.`,
    );
  return fill(
    "measured",
    "Predicted beside measured",
    make("dl", { class: "bars" }, ...rows),
    ...notes.map((note) => make("p", { class: "intro" }, note)),
  );
}

function showFacts(report) {
  const priced = report.profile
    ? `${formatShare(report.profiled_share || 0, 0)} measured times (${report.profile})`
    : report.step_time_us
      ? "estimates"
      : "";
  const where = [report.swap_tier, report.swap_directory && `(${report.swap_directory})`].filter(Boolean).join(" ");
  const facts = [
    ["Device", report.device],
    ["Other devices of the step", (report.other_devices || []).join(", ")],
    [
      "Operations",
      report.nodes_before
        ? report.status === "rewritten"
          ? `${formatCount(report.nodes_before)}, rewritten ${formatCount(report.nodes_after || 0)}`
          : formatCount(report.nodes_before)
        : "",
    ],
    ["Resident before the step", report.resident_bytes ? formatBytes(report.resident_bytes) : ""],
    ["Time of the step, predicted", report.step_time_us ? formatTime(report.step_time_us) : ""],
    ["Priced by", priced],
    ["Sizes assumed", (report.sizes || []).join("; ")],
    ["Swapping", where ? `to ${where}${report.link ? `, ${report.link}` : ""}` : report.swap_note],
    [
      "Swapped in a step",
      report.swapped_bytes
        ? `${formatBytes(report.swapped_bytes)}, ${formatShare(report.swap_hidden || 0, 0)} of the transfers hidden, ${formatTime((report.swap_stall || 0) * 1e6)} waited`
        : "",
    ],
    ["Stage", report.status === "failed" ? report.stage : ""],
    ["Number of the report", Number.isFinite(report.sequence) ? String(report.sequence) : ""],
  ].filter(([, value]) => value);
  return facts.length
    ? fill(
        "facts",
        "More about it",
        make(
          "dl",
          { class: "facts" },
          ...facts.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, String(value))]),
        ),
      )
    : null;
}

function showTerms() {
  return fill(
    "terms",
    "What the words mean",
    make(
      "dl",
      { class: "facts terms" },
      ...TERMS.flatMap(([term, meaning]) => [make("dt", {}, term), make("dd", {}, meaning)]),
    ),
  );
}
