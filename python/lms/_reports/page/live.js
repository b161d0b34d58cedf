// What is live at one position: figures, shares by role, and the buffers, largest first. It is
// filled anew at every move of the pointer, so its elements are made once and used again.

const LIVE_ROWS = 40;

class Live {
  constructor(state) {
    this.state = state;
    this.model = state.model;
    this.limit = LIVE_ROWS;
    this.rows = [];
    this.roles = this.model.buffers ? this.rolesThere() : [];
    state.listen((what) => {
      if (what !== "selected") this.limit = LIVE_ROWS;
      this.show();
    });
  }

  /** The roles that any buffer has: their lines stay where they are while the pointer moves. */
  rolesThere() {
    const there = new Set(this.model.buffers.role);
    return stackedRoles(this.model.details.roles)
      .filter((role) => there.has(role.index))
      .reverse();
  }

  build() {
    this.where = make("span", { class: "where" });
    this.pin = makeButton({
      class: "quiet",
      id: "pin",
      on: { click: () => (this.state.pinned ? this.state.unpin() : this.state.pin(this.state.position)) },
    });
    this.op = make("p", { class: "op" });
    this.bytes = make("span", { class: "bytes", id: "live-bytes" });
    this.note = make("span", { class: "muted" });
    this.bar = make("div", { class: "bar", "aria-hidden": "true" });
    this.shares = make("ul", { class: "shares", "aria-label": "Bytes by role" });
    this.count = make("h3", { id: "live-count" });
    this.list = make("ol", { class: "live-list", "aria-labelledby": "live-count" });
    this.more = makeButton({ class: "quiet more", on: { click: () => this.showMore() } });
    const steps = [this.model.steps.before, this.model.steps.after].filter(Boolean);
    this.unlisted = Boolean(this.model.buffers) && !steps.every((step) => step.explained());
    for (const role of [...this.roles.map((each) => each.name), ...(this.unlisted ? [""] : [])]) {
      const color = role ? `var(--role-${cssName(role)}, var(--unlisted))` : "var(--unlisted)";
      const value = make("span", { class: "value" });
      const segment = make("span", { style: { background: color } });
      this.bar.append(segment);
      const row = make(
        "li",
        {},
        make("span", { class: "key", style: { background: color } }),
        role || "not listed",
        value,
      );
      this.shares.append(row);
      row.parts = { value, segment };
    }
    this.show();
    const listed = this.model.buffers
      ? [
          this.bar,
          this.shares,
          this.count,
          make(
            "div",
            { class: "scroll", tabindex: "0", role: "group", "aria-labelledby": "live-count" },
            this.list,
            this.more,
          ),
        ]
      : [
          make(
            "p",
            { class: "empty" },
            "This report came without its list of buffers, so there is nothing to say about what is live.",
          ),
        ];
    return make(
      "aside",
      { class: "live", "aria-label": "At this position" },
      make("div", { class: "head" }, this.where, this.pin),
      make("p", {}, this.bytes, this.note),
      this.op,
      ...listed,
    );
  }

  show() {
    const { step, position, pinned } = this.state;
    const bytes = step.bytes[position];
    const budget = this.model.report.budget_bytes || 0;
    const phase = step.phase(position);
    const place = `${formatCount(position + 1)} of ${formatCount(step.count)}`;
    this.where.textContent = [step.label, place, phase].filter(Boolean).join(" \u00b7 ");
    this.pin.textContent = pinned ? "Unpin" : "Pin";
    this.pin.setAttribute("aria-pressed", String(pinned));
    this.bytes.textContent = formatBytes(bytes);
    this.note.textContent = budget ? ` ${formatShare(bytes / budget, 0)} of the budget` : "";
    const kind = step.kind(position);
    const type = step.type(position);
    const name = step.op(position);
    this.op.hidden = !step.columns;
    this.op.replaceChildren(
      ...(name
        ? [
            make(
              "span",
              { class: "type" },
              kind === "run" ? type : `${KIND_WORDS[kind] || kind}: ${type}`,
              make("span", { class: "when" }, step.when(position)),
            ),
            nameElement(name),
          ]
        : []),
    );
    if (this.model.buffers) this.showBuffers(step, position, bytes);
  }

  showBuffers(step, position, bytes) {
    let listed = 0;
    const rows = this.shares.children;
    const sums = this.roles.map((role) => step.roleBytes[role.index][position]);
    for (const sum of sums) listed += sum;
    if (this.unlisted) sums.push(Math.max(0, bytes - listed));
    const all = Math.max(bytes, listed, 1);
    sums.forEach((sum, index) => {
      const { value, segment } = rows[index].parts;
      value.textContent = formatBytes(sum);
      segment.style.width = `${(sum / all) * 100}%`;
    });
    const { buffers } = this.model;
    const live = liveAt(step, buffers, position, this.limit);
    this.count.textContent = live.count ? `${formatCount(live.count)} live buffers` : "No listed buffer is live here";
    const largest = live.buffers.length ? buffers.bytes[live.buffers[0]] : 1;
    live.buffers.forEach((buffer, index) => this.fillRow(this.row(index), buffer, live.copies[index], largest));
    this.rows.forEach((row, index) => (row.item.hidden = index >= live.buffers.length));
    let copies = 0;
    for (const held of live.copies) copies += held;
    const rest = live.count - copies;
    this.more.hidden = rest <= 0;
    this.more.textContent = `and ${formatCount(rest)} smaller ones: show more`;
  }

  row(index) {
    if (index < this.rows.length) return this.rows[index];
    const [key, path, last, meta, value] = ["key", "path", "last", "meta", "value"].map((name) =>
      make("span", { class: name }),
    );
    const name = make("span", { class: "name" }, make("bdi", {}, path, last));
    const button = makeButton({ on: { click: () => this.state.select(row.buffer) } }, key, name, meta, value);
    const item = make("li", {}, button);
    const row = { item, button, key, path, last, name, meta, value, buffer: null };
    this.rows.push(row);
    this.list.append(item);
    return row;
  }

  fillRow(row, buffer, copies, largest) {
    const { buffers } = this.model;
    const pressed = String(buffer === this.state.selected);
    row.button.setAttribute("aria-pressed", pressed);
    row.button.style.setProperty("--share", `${(buffers.bytes[buffer] / largest) * 100}%`);
    if (row.buffer === buffer && row.copies === copies) return;
    row.buffer = buffer;
    row.copies = copies;
    const name = shortName(buffers.nameOf(buffer));
    const cut = name.lastIndexOf("/") + 1;
    row.path.textContent = name.slice(0, cut);
    row.last.textContent = name.slice(cut);
    row.name.title = buffers.nameOf(buffer);
    const words = [buffers.roleOf(buffer), buffers.fateOf(buffer), copies > 1 ? `held ${copies} times` : ""];
    row.meta.textContent = words.filter(Boolean).join(" \u00b7 ");
    row.value.textContent = formatBytes(buffers.bytes[buffer]);
    row.key.style.background = `var(--role-${cssName(buffers.roleOf(buffer))}, var(--unlisted))`;
  }

  showMore() {
    this.limit = Math.min(this.limit * 5, this.model.buffers.count);
    this.show();
  }
}
