// Which layers hold the memory at the peak. The sums are the report's (layers.py), not the page's.

const LAYERS_SHOWN = 20;

function showLayers(report, layers) {
  if (!layers.length) return null;
  const rewritten = report.status === "rewritten";
  const size = (bytes) => (bytes ? formatBytes(bytes) : NOTHING);
  const columns = [
    ["Layer", "text", (layer) => String(layer.layer ?? "")],
    [rewritten ? "Stock" : "Size", "number", (layer) => size(layer.before_bytes)],
    ["Weights", "number", (layer) => size(layer.weight_bytes)],
  ];
  if (rewritten) {
    columns.splice(2, 0, ["With lms", "number", (layer) => size(layer.after_bytes)]);
    columns.push(["Dropped or swapped", "number", (layer) => size(layer.dropped_bytes)]);
    columns.push(["Costs", "number", (layer) => (layer.added_us ? `+${formatTime(layer.added_us)}` : NOTHING)]);
  }
  const row = (layer) =>
    make(
      "tr",
      {},
      ...columns.map(([label, kind, show], index) =>
        make(
          index ? "td" : "th",
          { scope: index ? null : "row", class: kind, "data-label": label },
          index ? show(layer) : make("span", {}, ...breakable(show(layer))),
        ),
      ),
    );
  const head = columns.map(([label, kind]) => make("th", { scope: "col", class: kind }, label));
  const body = make("tbody", {}, ...layers.slice(0, LAYERS_SHOWN).map(row));
  const table = make(
    "table",
    { "aria-labelledby": "layers-title" },
    make("thead", {}, make("tr", {}, ...head)),
    body,
  );
  let more = null;
  if (layers.length > LAYERS_SHOWN) {
    const label = `Show all ${formatCount(layers.length)} layers`;
    more = make("button", { type: "button", class: "quiet more" }, label);
    more.addEventListener("click", () => {
      const first = LAYERS_SHOWN;
      body.append(...layers.slice(first).map(row));
      more.remove();
      body.rows[first].cells[0].tabIndex = -1;
      body.rows[first].cells[0].focus();
    });
  }
  const words = rewritten
    ? "What each layer holds when memory is highest, in the step as stock TensorFlow runs it and with lms: activations, gradients and weights."
    : "What each layer holds when memory is highest: activations, gradients and weights.";
  return fill(
    "layers",
    "Memory by layer, at the peak",
    make("p", { class: "intro" }, words),
    make("div", { class: "grid fixed" }, table),
    more,
  );
}
