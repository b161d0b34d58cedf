// The top of the page: what happened, in words and in figures.

function figure(label, value, note, kind) {
  return make(
    "div",
    { class: `figure${kind ? ` ${kind}` : ""}` },
    make("dt", {}, label),
    make("dd", {}, value, note ? make("span", { class: "note" }, note) : null),
  );
}

/** The prediction that a measured peak is to be compared with. */
function predictedPeak(report) {
  return report.status === "rewritten" ? report.peak_after_bytes : report.peak_before_bytes;
}

/** "usually 9.9 MiB", where half of the orders that TensorFlow may take need less than all of them. */
function usualPeak(report, key, highest) {
  const peaks = (report.order_peaks || {})[key] || [];
  const usual = peaks[Math.floor((peaks.length - 1) / 2)];
  return usual && usual <= 0.98 * highest ? `usually ${formatBytes(usual)}` : "";
}

/** "0.2% above what was predicted". */
function againstPrediction(report) {
  const predicted = predictedPeak(report);
  if (!predicted || !report.measured_peak_bytes) return "";
  const by = report.measured_peak_bytes / predicted - 1;
  if (Math.abs(by) < 0.0005) return "as predicted";
  return `${formatShare(Math.abs(by))} ${by > 0 ? "above" : "below"} the prediction`;
}

function keyFigures(report) {
  const figures = [];
  const budget = report.budget_bytes || 0;
  const against = (bytes) => (budget ? `${formatShare(bytes / budget, 0)} of the budget` : "");
  const notes = (bytes, key) => [against(bytes), usualPeak(report, key, bytes)].filter(Boolean).join("; ");
  const rewritten = report.status === "rewritten";
  if (report.peak_before_bytes) {
    figures.push(
      figure(
        rewritten ? "Predicted peak, stock" : "Predicted peak",
        formatBytes(report.peak_before_bytes),
        notes(report.peak_before_bytes, "before"),
        rewritten ? "stock" : "after",
      ),
    );
  }
  if (rewritten) {
    figures.push(
      figure(
        "Predicted peak, with lms",
        formatBytes(report.peak_after_bytes),
        notes(report.peak_after_bytes, "after"),
        "after",
      ),
    );
  }
  if (report.measured_peak_bytes) {
    figures.push(figure("Measured peak", formatBytes(report.measured_peak_bytes), againstPrediction(report)));
  }
  if (budget) {
    const asked = report.budget ? `asked for: ${report.budget}` : "";
    figures.push(figure("Budget", formatBytes(budget), asked, "budget"));
  } else if (report.budget) {
    figures.push(figure("Budget asked for", report.budget, ""));
  }
  if (report.min_budget_bytes) {
    figures.push(figure("Least budget found", formatBytes(report.min_budget_bytes), "for which there is a plan"));
  }
  if (rewritten) {
    const bound =
      report.time_overhead_bound > 0
        ? `no plan adds less than ${formatShare(report.time_overhead_bound)}`
        : "predicted";
    figures.push(figure("Added time", `+${formatShare(report.predicted_time_overhead || 0)}`, bound));
  }
  if (report.optimizer_seconds || report.planner_seconds) {
    const all = `of ${(report.optimizer_seconds || 0).toFixed(2)} s in lms`;
    figures.push(figure("Planning", `${(report.planner_seconds || 0).toFixed(2)} s`, all));
  }
  return figures;
}

function showSummary(report) {
  const name = String(report.function || "");
  const [kind, word] = STATUS[report.status] || ["calm", String(report.status || "unknown")];
  document.title = `${friendlyName(name) || "a step"}: ${word.toLowerCase()} (lms)`;
  const text = sentences(report);
  const reason = String(report.reason || "");
  const stage = report.status === "failed" && report.stage ? ` Stage: ${report.stage}.` : "";
  const warnings = report.warnings || [];
  const parts = [
    make(
      "div",
      { class: "headline" },
      make("h1", { id: "title", class: "name", title: name }, friendlyName(name) || "A step"),
      make("span", { class: `status ${kind}` }, word),
    ),
    make("p", { class: "lead" }, text.join(" ")),
    reason
      ? make(
          "p",
          { class: "reason" },
          reason[0].toUpperCase() + reason.slice(1) + (/[.!?]$/.test(reason) ? "" : ".") + stage,
        )
      : null,
    make(
      "p",
      { class: "where" },
      [name && name !== friendlyName(name) ? name : "", report.device || ""].filter(Boolean).join(" \u00b7 "),
    ),
  ];
  const figures = keyFigures(report);
  if (figures.length) parts.push(make("dl", { class: "figures" }, ...figures));
  if (warnings.length) {
    parts.push(
      make(
        "div",
        { class: "warnings", role: "note" },
        make("h2", {}, warnings.length === 1 ? "Warning" : `${warnings.length} warnings`),
        make("ul", {}, ...warnings.map((warning) => make("li", {}, String(warning)))),
      ),
    );
  }
  document.getElementById("summary").append(...parts.filter(Boolean));
}
