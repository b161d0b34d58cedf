// Which pixel of the timeline is which position: axes, zoom and sizes. Knows no page and no colors.

/** Kinds of operations that are marked below the plot. */
const EVENTS = ["recompute", "move", "swap_out", "swap_in"];

/** The last index at which ascending `values` is not above `value`. */
function bisect(values, value) {
  let [low, high] = [0, values.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (values[middle] <= value) low = middle;
    else high = middle - 1;
  }
  return low;
}

class Plot {
  constructor(base, overlay, model) {
    this.base = base;
    this.overlay = overlay;
    this.model = model;
    this.steps = [model.steps.before, model.steps.after].filter(Boolean);
    this.axis = "positions";
    this.view = [0, this.domain()];
    this.events = new Map(this.steps.map((step) => [step, this.eventsOf(step)]));
  }

  eventsOf(step) {
    const found = [];
    for (let position = 0; position < step.count; position++) {
      const kind = step.kind(position);
      if (kind !== "run") found.push([position, kind]);
    }
    return found;
  }

  hasTimes() {
    return this.steps.every((step) => step.times);
  }
  domain() {
    return Math.max(...this.steps.map((step) => (this.axis === "time" ? step.times[step.count] : step.count)));
  }
  setAxis(axis) {
    this.axis = axis;
    this.view = [0, this.domain()];
  }

  /** Shows from..to of the axis, within what there is. */
  setView(from, to) {
    const all = this.domain();
    const least = this.axis === "time" ? all / 1e5 : Math.min(all, 8);
    const span = Math.min(all, Math.max(least, to - from));
    const left = Math.max(0, Math.min(all - span, from));
    this.view = [left, left + span];
  }
  zoomed() {
    return this.view[1] - this.view[0] < this.domain() * 0.9999;
  }

  /** Fits the canvases to their box; `width` and `height` in CSS pixels. */
  resize(width, height) {
    const scale = Math.max(1, window.devicePixelRatio || 1);
    for (const canvas of [this.base, this.overlay]) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
      canvas.getContext("2d").setTransform(scale, 0, 0, scale, 0, 0);
    }
    const left = width < 520 ? 54 : 66;
    this.width = width;
    this.height = height;
    this.box = { left, top: 22, right: width - 10, bottom: height - 66 };
  }

  // ---- from positions to pixels and back

  begin(step, position) {
    return this.axis === "time" ? step.times[position] : position;
  }
  /** Where an axis value is drawn. */
  x(value) {
    const { left, right } = this.box;
    return left + ((value - this.view[0]) / (this.view[1] - this.view[0])) * (right - left);
  }
  value(x) {
    const { left, right } = this.box;
    return this.view[0] + ((x - left) / (right - left)) * (this.view[1] - this.view[0]);
  }
  y(bytes) {
    return this.box.bottom - (bytes / this.top) * (this.box.bottom - this.box.top);
  }
  /** The position that runs at an axis value; -1 beyond the step's end. */
  positionAt(step, value) {
    if (
      value >=
      this.begin(step, step.count - 1) +
        (this.axis === "time" ? step.times[step.count] - step.times[step.count - 1] : 1)
    )
      return -1;
    if (this.axis === "time") return Math.min(step.count - 1, bisect(step.times, Math.max(0, value)));
    return Math.max(0, Math.min(step.count - 1, Math.floor(value)));
  }
  /** Of the positions under a pixel the one with the most memory; the last one beyond the end. */
  positionUnder(step, x) {
    const first = this.positionAt(step, this.value(Math.max(this.box.left, x - 0.5)));
    if (first < 0) return step.count - 1;
    let last = this.positionAt(step, this.value(Math.min(this.box.right, x + 0.5)) - 1e-9);
    if (last < 0) last = step.count - 1;
    let best = first;
    for (let at = first + 1; at <= last; at++) if (step.bytes[at] > step.bytes[best]) best = at;
    return best;
  }

  /** For each pixel column the position to show there; -1 for none. */
  columns(step) {
    const { left, right } = this.box;
    const result = new Int32Array(Math.max(1, Math.floor(right - left)));
    for (let column = 0; column < result.length; column++) {
      const first = this.positionAt(step, this.value(left + column));
      result[column] = first < 0 ? -1 : this.positionUnder(step, left + column + 0.5);
    }
    return result;
  }
}
