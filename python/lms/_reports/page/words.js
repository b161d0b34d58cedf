// What the page says in words.

const STATUS = {
  rewritten: ["good", "Rewritten", "The step was rewritten and is predicted to keep its budget."],
  fits: ["good", "Fits", "The step keeps its budget as it is. Nothing was changed."],
  infeasible: ["bad", "Infeasible", "No plan was found that keeps this budget. The step runs unchanged."],
  skipped: ["calm", "Skipped", "There was nothing to do here. The graph is as it was."],
  failed: ["bad", "Failed", "Something went wrong inside lms. The graph is as it was, and training goes on."],
};

const KIND_WORDS = {
  run: "runs",
  recompute: "recompute",
  move: "move",
  swap_out: "swap out",
  swap_in: "swap in",
  order: "order",
};

const STEP_WORDS = { before: "stock", after: "with lms" };

/** Why a decision was made, where the report has no words of its own for it. */
const DECISION_WHY = {
  recompute: "dropped after its last earlier use, computed again just before it is wanted",
  move: "nobody reads it earlier, so it runs later",
  swap_out: "copied out while nobody reads it",
  swap_in: "copied back just before it is wanted",
  order: "waits for its trigger, so that the order planned is the one that runs",
};

const TERMS = [
  ["Peak", "The most bytes in use at any moment of the step, everything included that is there during all of it."],
  ["Budget", "What the device may hold at the peak: weights, inputs and activations together."],
  ["Stock, with lms", "The step as TensorFlow would run it, and as it was rewritten."],
  [
    "Operation, position",
    "The step's operations in the order that was assumed. The rewritten step has more of them, so the same number " +
      "is not the same operation in both.",
  ],
  ["Buffer", "Memory that one tensor holds, or several that share it: a tensor and its reshapes, for example."],
  ["Live", "Held in memory at that position: made already, and still to be read."],
  ["Activation", "Made in the forward pass and read again in the backward pass."],
  ["Gradient", "Made in the backward pass."],
  ["Resident", "There during the whole step: weights, optimizer slots, arguments, constants."],
  ["Scratch", "What an operation needs for itself while it runs."],
  [
    "Recomputed",
    "Dropped after its last use in the forward pass, and computed again just before the backward pass reads it.",
  ],
  ["Moved", "Computed later than stock would, once; nobody needed it earlier."],
  ["Swapped", "Copied out of the device's memory, and back in time for its next reader."],
  ["Order", "An edge that makes an operation wait, so that memory is used as planned."],
  ["Added time", "Predicted time that the decisions add, as a share of the step's own."],
  [
    "Bound",
    "No plan for this budget is predicted to add less time than this. What lies between is what could still be won.",
  ],
  ["Measured peak", "What a later call of the step really took of TensorFlow's allocator."],
];

/** "__inference_multi_step_on_iterator_10157" -> "multi_step_on_iterator". */
function friendlyName(name) {
  return name.replace(/^__(?:inference|forward|backward)_/, "").replace(/_\d+$/, "") || name;
}

/** The sentences under the title. */
function sentences(report) {
  const [, , status] = STATUS[report.status] || ["calm", report.status, `Status: ${report.status}.`];
  const text = [];
  const peak = formatBytes(report.peak_before_bytes || 0);
  const budget = report.budget_bytes ? formatBytes(report.budget_bytes) : "";
  if (report.status === "rewritten") {
    const added = report.predicted_time_overhead || 0;
    const share = 1 - report.peak_after_bytes / report.peak_before_bytes;
    text.push(
      `Rewritten: the predicted peak is ${formatBytes(report.peak_after_bytes)} instead of ${peak}` +
        ` (${formatShare(share, 0)} less), ${added < 0.0005 ? "in the same time" : `for ${formatShare(added)} more time`}.`,
    );
  } else if (report.status === "fits" && report.peak_before_bytes) {
    text.push(`Fits: the predicted peak is ${peak}${budget && `, the budget ${budget}`}. Nothing was changed.`);
  } else if (report.status === "infeasible") {
    text.push(
      `Infeasible: no plan was found that keeps ${budget ? `the budget of ${budget}` : "this budget"}. The step runs unchanged.`,
    );
    if (report.min_budget_bytes) {
      text.push(`The least budget that a plan was found for is ${formatBytes(report.min_budget_bytes)}.`);
    }
  } else {
    text.push(status);
  }
  return text;
}
