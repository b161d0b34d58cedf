// The drawing of the timeline: memory over the step, by role, on two canvases (the picture, and
// what moves above it).

/** From the bottom up: what stays first, what comes and goes above it. */
const STACK = ["weight", "constant", "argument", "other", "activation", "gradient", "result", "scratch"];

/** 1, 2 or 5 times a power of ten: about `count` steps up to `span`. */
function niceStep(span, count) {
  const rough = span / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
}

/** A time on an axis whose ticks are `step` us apart: in one unit, with the digits it needs. */
function formatTick(value, step) {
  const [size, unit] = [
    [1e6, "s"],
    [1e3, "ms"],
    [1, "\u00b5s"],
  ].find(([size]) => step >= size / 10) || [1, "\u00b5s"];
  return `${(value / size).toFixed(step < size ? Math.ceil(-Math.log10(step / size)) : 0)} ${unit}`;
}

class Picture extends Plot {
  draw(active) {
    const colors = theme.colors;
    const pen = this.base.getContext("2d");
    const { left, top, right, bottom } = this.box;
    const step = this.model.steps[active];
    const budget = this.model.report.budget_bytes || 0;
    const highest = Math.max(1, ...this.steps.map((each) => each.bytes[each.peak]));
    this.top = Math.max(highest, budget <= highest * 1.6 ? budget : 0) * 1.1;
    pen.clearRect(0, 0, this.width, this.height);
    pen.font = `11px ${colors.font}`;
    const columns = new Map(this.steps.map((each) => [each, this.columns(each)]));

    this.drawPhases(pen, step, columns.get(step));
    this.drawScale(pen);
    pen.save();
    pen.beginPath();
    pen.rect(left, top, right - left, bottom - top + 1);
    pen.clip();
    if (step.roleBytes) this.drawStack(pen, step, columns.get(step));
    else this.drawTotal(pen, step, columns.get(step), colors[active === "after" ? "after" : "stock"]);
    for (const each of this.steps.slice().sort((a) => (a === step ? 1 : -1))) {
      this.drawLine(pen, columns.get(each), each, each === step);
    }
    pen.restore();
    this.labels = [];
    this.drawBudget(pen, budget);
    for (const each of this.steps) this.drawPeak(pen, each, each === step);
    this.labelBudget(pen, budget);
    this.drawEvents(pen, step);
  }

  /**
   * The phase to show over each column: operations of one run in the midst of another, so it is the
   * one that most of those around belong to (most of the time, on the axis of time).
   */
  phases(step, columns) {
    const names = [...new Set(Array.from({ length: step.count }, (_, position) => step.phase(position)))];
    const sums = names.map(() => new Float64Array(columns.length + 1)); // up to each column
    const took = this.axis === "time" && step.columns && step.columns.took_us;
    const { left } = this.box;
    const whole = step.count * ((this.view[1] - this.view[0]) / this.domain());
    for (let position = 0; position < step.count; position++) {
      const column = Math.floor(this.x(this.begin(step, position)) - left);
      if (column < 0 || column >= columns.length) continue;
      sums[names.indexOf(step.phase(position))][column + 1] += took ? took[position] || 0 : 1;
    }
    for (const sum of sums) for (let column = 0; column < columns.length; column++) sum[column + 1] += sum[column];
    const reach = whole > columns.length / 2 ? Math.round(columns.length / 60) : 0;
    return Array.from(columns, (position, column) => {
      if (position < 0) return "";
      const [from, to] = [Math.max(0, column - reach), Math.min(columns.length, column + reach + 1)];
      const around = sums.map((sum) => sum[to] - sum[from]);
      const most = around.indexOf(Math.max(...around));
      return around[most] > 0 && reach ? names[most] : step.phase(position);
    });
  }

  drawPhases(pen, step, columns) {
    const { left, top, bottom } = this.box;
    const phases = this.phases(step, columns);
    let from = 0;
    for (let column = 1; column <= columns.length; column++) {
      if (column < columns.length && phases[column] === phases[from]) continue;
      const name = phases[from];
      if (name) {
        pen.fillStyle = theme.of("phase", name);
        pen.fillRect(left + from, top - 18, column - from, 14);
        pen.globalAlpha = 0.25;
        pen.fillRect(left + from, top, column - from, bottom - top);
        pen.globalAlpha = 1;
        if (column - from > pen.measureText(name).width + 10) {
          pen.fillStyle = theme.colors.ink;
          pen.textBaseline = "middle";
          pen.textAlign = "left";
          pen.fillText(name, left + from + 5, top - 10.5);
        }
      }
      from = column;
    }
  }

  drawScale(pen) {
    const colors = theme.colors;
    const { left, top, right, bottom } = this.box;
    const unit = unitOf(this.top);
    const size = 1024 ** unit;
    const step = niceStep(this.top / size, Math.max(2, (bottom - top) / 48));
    pen.strokeStyle = colors.line;
    pen.fillStyle = colors.muted;
    pen.lineWidth = 1;
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    const digits = step < 1 ? Math.ceil(-Math.log10(step)) : 0;
    for (let value = 0; value * size <= this.top; value += step) {
      const y = Math.round(this.y(value * size)) + 0.5;
      pen.beginPath();
      pen.moveTo(left, y);
      pen.lineTo(right, y);
      pen.stroke();
      pen.fillText(`${value.toFixed(digits)}${this.width < 520 && value ? "" : ` ${UNITS[unit]}`}`, left - 7, y);
    }
    pen.textAlign = "center";
    pen.textBaseline = "top";
    const [from, to] = this.view;
    const wide = niceStep(to - from, Math.max(2, (right - left) / 110));
    const bottomLine = this.height - 16;
    for (let value = Math.ceil(from / wide) * wide; value <= to; value += wide) {
      const x = this.x(value);
      const text = this.axis === "time" ? formatTick(value, wide) : formatCount(value);
      const half = pen.measureText(text).width / 2;
      if (x + half > this.width || x - half < 0) continue;
      pen.fillText(text, x, bottomLine);
    }
  }

  /** An area between `lower` (null: zero) and `upper`, which have a value for each column. */
  drawArea(pen, columns, upper, lower, color, alpha) {
    const { left } = this.box;
    pen.beginPath();
    pen.moveTo(left, this.y(0));
    let end = 0;
    for (let column = 0; column < columns.length; column++) {
      if (columns[column] < 0) break;
      const y = this.y(upper[column]);
      pen.lineTo(left + column, y);
      pen.lineTo(left + column + 1, y);
      end = column + 1;
    }
    for (let column = end - 1; column >= 0; column--) {
      const y = this.y(lower ? lower[column] : 0);
      pen.lineTo(left + column + 1, y);
      pen.lineTo(left + column, y);
    }
    pen.closePath();
    pen.globalAlpha = alpha;
    pen.fillStyle = color;
    pen.fill();
    pen.globalAlpha = 1;
  }

  drawTotal(pen, step, columns, color) {
    const bytes = Float64Array.from(columns, (position) => (position < 0 ? 0 : step.bytes[position]));
    this.drawArea(pen, columns, bytes, null, color, 0.18);
  }

  drawStack(pen, step, columns) {
    let lower = new Float64Array(columns.length);
    const draw = (bytesAt, color) => {
      const upper = Float64Array.from(
        columns,
        (position, column) => lower[column] + (position < 0 ? 0 : Math.max(0, bytesAt(position, column))),
      );
      if (upper.some((value, column) => value > lower[column])) this.drawArea(pen, columns, upper, lower, color, 0.82);
      lower = upper;
    };
    for (const role of stackedRoles(this.model.details.roles)) {
      draw((position) => step.roleBytes[role.index][position], theme.of("role", role.name));
    }
    draw((position, column) => step.bytes[position] - lower[column], theme.colors.unlisted);
  }

  drawLine(pen, columns, step, active) {
    const { left } = this.box;
    pen.beginPath();
    for (let column = 0; column < columns.length && columns[column] >= 0; column++) {
      const y = this.y(step.bytes[columns[column]]);
      if (column) pen.lineTo(left + column, y);
      else pen.moveTo(left, y);
      pen.lineTo(left + column + 1, y);
    }
    pen.strokeStyle = theme.colors[step.key === "after" ? "after" : "stock"];
    pen.lineWidth = active ? 1.75 : 1.25;
    pen.lineJoin = "round";
    pen.setLineDash(active ? [] : [4, 3]);
    pen.stroke();
    pen.setLineDash([]);
  }

  /** Text at the first of `places` ([x, y]: its left end, its line) that no other label has. */
  label(pen, text, color, places) {
    pen.font = `600 11px ${theme.colors.font}`;
    const width = pen.measureText(text).width;
    const { left, right } = this.box;
    const fitted = places(width).map(([x, y]) => [Math.max(left + 4, Math.min(right - width - 4, x)), y]);
    const free = ([x, y]) =>
      !this.labels.some(
        (other) => x < other[0] + other[2] + 6 && other[0] < x + width + 6 && Math.abs(y - other[1]) < 13,
      );
    const [x, y] = fitted.find(free) || fitted[0];
    this.labels.push([x, y, width]);
    pen.textAlign = "left";
    pen.textBaseline = "alphabetic";
    pen.lineJoin = "round";
    pen.lineWidth = 3.5;
    pen.strokeStyle = theme.colors.surface;
    pen.strokeText(text, x, y);
    pen.fillStyle = color;
    pen.fillText(text, x, y);
    pen.font = `11px ${theme.colors.font}`;
  }

  drawBudget(pen, budget) {
    if (!budget || budget > this.top) return;
    const y = Math.round(this.y(budget)) + 0.5;
    this.stroke(
      pen,
      theme.colors.budget,
      1.25,
      [7, 4],
      [
        [this.box.left, y],
        [this.box.right, y],
      ],
    );
  }
  /** After the peaks' labels: it can stand in more places than they. */
  labelBudget(pen, budget) {
    if (!budget) return;
    const above = budget > this.top;
    const text = `budget ${formatBytes(budget)}${above ? " \u2191" : ""}`;
    const lines = above ? [this.box.top + 12] : [this.y(budget) - 5, this.y(budget) + 14];
    this.label(pen, text, theme.colors.budget, (width) =>
      lines.flatMap((y) => [
        [this.box.left + 6, y],
        [this.box.right - width - 6, y],
      ]),
    );
  }

  stroke(pen, color, width, dash, points) {
    pen.strokeStyle = color;
    pen.lineWidth = width;
    pen.setLineDash(dash);
    pen.beginPath();
    for (const point of points) pen.lineTo(...point);
    pen.stroke();
    pen.setLineDash([]);
  }

  drawPeak(pen, step, active) {
    const x = this.x(this.begin(step, step.peak) + (this.axis === "time" ? 0 : 0.5));
    if (x < this.box.left - 1 || x > this.box.right + 1) return;
    const y = this.y(step.bytes[step.peak]);
    const color = theme.colors[step.key === "after" ? "after" : "stock"];
    pen.beginPath();
    pen.arc(x, y, active ? 4 : 3.25, 0, 7);
    pen.fillStyle = color;
    pen.fill();
    pen.strokeStyle = theme.colors.surface;
    pen.lineWidth = 1.5;
    pen.stroke();
    const text = `${this.steps.length > 1 ? `${step.label}: ` : "peak "}${formatBytes(step.bytes[step.peak])}`;
    this.label(pen, text, color, (width) => [
      [x - width / 2, y - 8],
      [x + 8, y - 8],
      [x - width - 8, y - 8],
      [x - width / 2, y + 18],
    ]);
  }

  /** Ticks where something is computed again, moved or swapped. */
  drawEvents(pen, step) {
    const { left, right, bottom } = this.box;
    const drawn = new Set();
    for (const [position, kind] of this.events.get(step)) {
      const x = Math.round(this.x(this.begin(step, position)));
      if (x < left || x > right || drawn.has(`${x}${kind}`)) continue;
      drawn.add(`${x}${kind}`);
      pen.fillStyle = theme.of("kind", kind);
      pen.fillRect(x, bottom + 5 + (kind.startsWith("swap") ? 6 : 0), 1.5, 5);
    }
  }

  // ---- what moves

  /** mark: {x: where the pointer is or null, from: where a range began or null}. */
  drawOverlay(state, mark) {
    const colors = theme.colors;
    const pen = this.overlay.getContext("2d");
    const { left, top, right, bottom } = this.box;
    pen.clearRect(0, 0, this.width, this.height);
    this.drawHeld(pen, state);
    pen.save();
    pen.beginPath();
    pen.rect(left, 0, right - left + 1, this.height);
    pen.clip();
    if (mark.from !== null) {
      pen.fillStyle = colors.pin;
      pen.globalAlpha = 0.15;
      pen.fillRect(mark.from, top, mark.x - mark.from, bottom - top);
      pen.globalAlpha = 1;
    }
    const middle = this.axis === "time" ? 0 : 0.5;
    if (state.pinned && mark.x !== null) this.drawCursor(pen, mark.x, [3, 3], colors.muted, null);
    const x = this.x(this.begin(state.step, state.position) + middle);
    this.drawCursor(pen, x, state.pinned ? [] : [2, 2], state.pinned ? colors.pin : colors.ink, state);
    pen.restore();
  }

  drawCursor(pen, x, dash, color, state) {
    const { top, bottom } = this.box;
    const middle = Math.round(x) + 0.5;
    // Above what it points at it would strike the labels out.
    const from = state && !state.pinned ? this.y(state.step.bytes[state.position]) : top;
    this.stroke(pen, color, state && state.pinned ? 1.75 : 1, dash, [
      [middle, from],
      [middle, bottom + 16],
    ]);
    if (!state) return;
    pen.beginPath();
    pen.arc(x, this.y(state.step.bytes[state.position]), 3.5, 0, 7);
    pen.fillStyle = color;
    pen.fill();
    if (state.pinned) {
      pen.beginPath();
      pen.moveTo(x - 5, top - 4);
      pen.lineTo(x + 6, top - 4);
      pen.lineTo(x + 0.5, top + 4);
      pen.fill();
    }
  }

  /** When the chosen buffer is held, in both steps. */
  drawHeld(pen, state) {
    const colors = theme.colors;
    const { left, top, right, bottom } = this.box;
    const chosen = state.selected !== null && this.model.buffers;
    const lane = bottom + 22;
    pen.font = `11px ${colors.font}`;
    pen.textBaseline = "middle";
    if (!chosen) return;
    this.steps.forEach((step, row) => {
      const y = lane + row * 12;
      pen.fillStyle = colors.muted;
      pen.textAlign = "right";
      pen.fillText(step.label, left - 7, y + 4.5);
      pen.fillStyle = colors.line;
      pen.fillRect(left, y + 3.5, right - left, 1);
      for (const [first, last] of this.model.buffers.held(state.selected, step)) {
        const from = Math.max(left, this.x(this.begin(step, first)));
        const to = Math.min(right, this.x(this.axis === "time" ? step.times[last + 1] : last + 1));
        if (to < left || from > right) continue;
        pen.fillStyle = colors.selected;
        pen.fillRect(from, y, Math.max(2, to - from), 8);
        if (step === state.step) {
          pen.globalAlpha = 0.08;
          pen.fillRect(from, top, Math.max(2, to - from), bottom - top);
          pen.globalAlpha = 1;
        }
      }
    });
  }
}

/** [{name, index}] of the report's roles, from the bottom of the stack up. */
function stackedRoles(roles) {
  const all = roles.map((name, index) => ({ name: String(name), index }));
  const rank = (role) => (STACK.includes(role.name) ? STACK.indexOf(role.name) : STACK.indexOf("other"));
  return all.sort((a, b) => rank(a) - rank(b) || a.index - b.index);
}
