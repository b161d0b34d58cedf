// The report as typed arrays: everything that hovering, searching and sorting ask for is laid out
// once, here. Buffers are numbered by size, the largest first, so that a scan finds the largest
// first and lists need no sorting.

/** Memory over one timeline, position by position. */
class Step {
  constructor(key, bytes, columns, details, end) {
    this.key = key;
    this.label = STEP_WORDS[key];
    this.count = bytes.length;
    this.bytes = Float64Array.from(bytes, (value) => value || 0);
    this.columns = columns;
    this.details = details;
    this.peak = this.bytes.reduce((best, value, index) => (value > this.bytes[best] ? index : best), 0);
    this.times = this.startTimes(end);
    this.intervals = null; // of the buffers; see layIntervals
    this.roleBytes = null; // per role, the bytes listed at each position
    this.liveCount = null;
  }

  word(column, list, position) {
    const at = this.columns && this.columns[column] ? this.columns[column][position] : undefined;
    const value = at === undefined ? undefined : this.details[list][at];
    return value === undefined ? "" : String(value);
  }
  op(position) {
    return this.word("op", "strings", position);
  }
  type(position) {
    return this.word("type", "strings", position);
  }
  kind(position) {
    return this.word("kind", "kinds", position) || "run";
  }
  phase(position) {
    return this.word("phase", "phases", position);
  }

  /** Where each position begins, in us, and where the last ends; null where that is unknown. */
  startTimes(end) {
    const start = this.columns && this.columns.start_us;
    if (!start || start.length !== this.count || this.count < 2) return null;
    const times = new Float64Array(this.count + 1);
    let latest = 0;
    for (let index = 0; index < this.count; index++) {
      latest = Math.max(latest, start[index] || 0); // threads: never backwards
      times[index] = latest;
    }
    const took = this.columns.took_us ? this.columns.took_us[this.count - 1] || 0 : 0;
    times[this.count] = took > 0 ? latest + took : Math.max(end || 0, latest + latest / this.count);
    return latest > 0 ? times : null;
  }
  /** "12.3 ms into the step, for 0.4 ms"; "" where nothing is known. */
  when(position) {
    const { start_us: start, took_us: took } = this.columns || {};
    if (!this.times || !start) return "";
    return `${formatTime(start[position])} into the step${took ? `, takes ${formatTime(took[position])}` : ""}`;
  }
  /** Whether the buffers listed explain all bytes, everywhere. */
  explained() {
    for (let position = 0; position < this.count; position++) {
      let listed = 0;
      for (const sums of this.roleBytes) listed += sums[position];
      if (this.bytes[position] - listed >= 1) return false;
    }
    return true;
  }
}

/** All buffers, as columns; `order[i]` is the report's number of buffer i. */
class Buffers {
  constructor(details) {
    const table = details.buffers;
    this.details = details;
    this.count = table.bytes.length;
    this.order = Uint32Array.from({ length: this.count }, (_, index) => index);
    this.order.sort((a, b) => table.bytes[b] - table.bytes[a] || a - b);
    const column = (name, type) => type.from(this.order, (index) => (table[name] ? table[name][index] || 0 : 0));
    this.bytes = column("bytes", Float64Array);
    this.cost = column("cost_us", Float64Array);
    this.role = column("role", Uint8Array);
    this.fate = column("fate", Uint8Array);
    this.name = column("name", Uint32Array);
    this.type = column("type", Uint32Array);
    this.reason = column("reason", Uint32Array);
    this.byName = new Map();
    for (let index = this.count - 1; index >= 0; index--) this.byName.set(this.nameOf(index), index);
  }
  nameOf(index) {
    return String(this.details.strings[this.name[index]] ?? "");
  }
  typeOf(index) {
    return String(this.details.strings[this.type[index]] ?? "");
  }
  reasonOf(index) {
    return String(this.details.strings[this.reason[index]] ?? "");
  }
  roleOf(index) {
    return String(this.details.roles[this.role[index]] ?? "other");
  }
  fateOf(index) {
    return String(this.details.fates[this.fate[index]] ?? "");
  }
  /** The buffer that a decision's op makes; undefined where none is listed. */
  find(op) {
    return this.byName.get(op) ?? this.byName.get(`${op}:0`) ?? this.byName.get(op.replace(/:\d+$/, ""));
  }
  /** [[first, last], ...] during which it is held in `step`. */
  held(index, step) {
    const { first, last, from } = step.intervals;
    const result = [];
    for (let at = from[index]; at < from[index + 1]; at++) result.push([first[at], last[at]]);
    return result;
  }
}

/** Lays the buffers' intervals in `step` flat, by buffer, and sums their bytes by role. */
function layIntervals(step, buffers) {
  const lists = buffers.details.buffers[step.key] || [];
  const total = lists.reduce((sum, list) => sum + list.length, 0);
  const first = new Int32Array(total);
  const last = new Int32Array(total);
  const from = new Uint32Array(buffers.count + 1);
  const roles = buffers.details.roles.length;
  const roleBytes = Array.from({ length: roles }, () => new Float64Array(step.count + 1));
  const live = new Int32Array(step.count + 1);
  let at = 0;
  for (let index = 0; index < buffers.count; index++) {
    from[index] = at;
    for (const [begin, end] of lists[buffers.order[index]] || []) {
      const [left, right] = [Math.max(0, begin), Math.min(step.count - 1, end)];
      if (right < left) continue;
      [first[at], last[at]] = [left, right];
      at++;
      const sums = roleBytes[buffers.role[index]] || roleBytes[roles - 1];
      sums[left] += buffers.bytes[index];
      sums[right + 1] -= buffers.bytes[index];
      live[left]++;
      live[right + 1]--;
    }
  }
  from[buffers.count] = at;
  for (let position = 1; position <= step.count; position++) {
    live[position] += live[position - 1];
    for (const sums of roleBytes) sums[position] += sums[position - 1];
  }
  step.intervals = { first, last, from };
  step.roleBytes = roleBytes;
  step.liveCount = live;
}

/**
 * The buffers live at a position, largest first, at most `limit`: {buffers, copies, count}, copies
 * telling how many instances of each are held. One pass over the intervals: microseconds.
 */
function liveAt(step, buffers, position, limit) {
  const { first, last, from } = step.intervals;
  const found = [];
  const copies = [];
  for (let index = 0; index < buffers.count && found.length < limit; index++) {
    let held = 0;
    for (let at = from[index]; at < from[index + 1]; at++) {
      if (first[at] <= position && position <= last[at]) held++;
    }
    if (held) {
      found.push(index);
      copies.push(held);
    }
  }
  return { buffers: found, copies, count: step.liveCount[position] };
}

/** {report, steps: {before, after}, buffers}: what is not in the report is null. */
function readModel(report) {
  const details = report.details || null;
  const timeline = report.timeline || {};
  const steps = {};
  for (const key of ["before", "after"]) {
    const columns = (details && details[key]) || null;
    const bytes = (columns && columns.bytes) || timeline[key] || [];
    const added = key === "after" ? 1 + (report.predicted_time_overhead || 0) : 1;
    steps[key] = bytes.length ? new Step(key, bytes, columns, details, (report.step_time_us || 0) * added) : null;
  }
  const buffers = details && details.buffers && details.buffers.bytes.length ? new Buffers(details) : null;
  for (const step of [steps.before, steps.after]) {
    if (step && buffers) layIntervals(step, buffers);
  }
  return { report, details, steps, buffers };
}
