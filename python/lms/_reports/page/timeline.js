// The timeline: the plot, its controls, and what pointers and keys do on it.

/** A row of buttons of which one is pressed. `choices`: [[value, label], ...]. */
function segmented(label, choices, value, chosen) {
  const buttons = choices.map(([key, text]) =>
    makeButton({ "aria-pressed": String(key === value), "data-value": key, on: { click: () => chosen(key) } }, text),
  );
  const group = make("div", { class: "segmented", role: "group", "aria-label": label }, ...buttons);
  group.show = (key) =>
    buttons.forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.value === key)));
  return group;
}

class Timeline {
  constructor(state) {
    this.state = state;
    this.model = state.model;
    this.mark = { x: null, from: null };
    const base = make("canvas", { class: "base", "aria-hidden": "true" });
    const overlay = make("canvas", { class: "overlay", "aria-hidden": "true" });
    this.tip = make("div", { class: "tip", "aria-hidden": "true", hidden: true });
    this.stage = make(
      "div",
      {
        class: "stage",
        id: "stage",
        tabindex: "0",
        role: "slider",
        "aria-label": "Position in the step",
        "aria-describedby": "timeline-help",
        "aria-valuemin": "1",
      },
      base,
      overlay,
      this.tip,
    );
    this.plot = new Picture(base, overlay, this.model);
    this.listen();
    state.listen((what) => this.changed(what));
    theme.listeners.push(() => this.redraw());
    // Chromium prints what a canvas was told while "beforeprint" ran, and that incompletely: paper
    // gets a picture of it. The theme's own listener, which comes first, has drawn it in light.
    this.paper = make("img", { class: "paper", alt: "", hidden: true });
    this.stage.append(this.paper);
    addEventListener("beforeprint", () => {
      this.paper.src = base.toDataURL();
      this.paper.hidden = false;
    });
    addEventListener("afterprint", () => (this.paper.hidden = true));
    new ResizeObserver(() => this.resize()).observe(this.stage);
  }

  build() {
    const { steps } = this.model;
    const tools = [];
    if (steps.before && steps.after) {
      this.which = segmented(
        "Which step to look into",
        [
          ["after", "With lms"],
          ["before", "Stock"],
        ],
        this.state.active,
        (key) => this.state.activate(key),
      );
      tools.push(this.which);
    }
    if (this.plot.hasTimes()) {
      this.axis = segmented(
        "Horizontal axis",
        [
          ["positions", "Operations"],
          ["time", "Time"],
        ],
        "positions",
        (key) => {
          this.plot.setAxis(key);
          this.axis.show(key);
          this.redraw();
        },
      );
      tools.push(this.axis);
    }
    this.whole = makeButton(
      { class: "quiet", disabled: true, on: { click: () => this.zoomTo(0, this.plot.domain()) } },
      "Show all",
    );
    tools.push(
      makeButton(
        { class: "quiet", id: "to-peak", on: { click: () => this.state.pin(this.state.step.peak) } },
        "Go to the peak",
      ),
      make(
        "span",
        { class: "zoom", role: "group", "aria-label": "Zoom" },
        makeButton({ class: "quiet", "aria-label": "Zoom out", on: { click: () => this.zoom(2) } }, "\u2212"),
        makeButton({ class: "quiet", "aria-label": "Zoom in", on: { click: () => this.zoom(0.5) } }, "+"),
        this.whole,
      ),
    );
    this.chosen = make("div", { class: "chosen", id: "chosen" });
    this.showChosen();
    const help =
      "Move along the step to see what is live; click to pin, drag to zoom. Keys: arrows, Page Up and Page Down, " +
      "Home, End, Enter to pin, Escape to unpin.";
    return make(
      "div",
      { class: "plot" },
      make("div", { class: "tools" }, ...tools),
      this.stage,
      this.legend(),
      this.model.buffers ? this.chosen : null,
      make("p", { class: "help", id: "timeline-help" }, help),
    );
  }

  legend() {
    const items = [];
    const line = (name, text) => items.push(make("li", {}, make("span", { class: `stroke ${name}` }), text));
    if (this.model.steps.after) line("after", "with lms");
    if (this.model.steps.before)
      line(this.model.steps.after ? "stock" : "stock alone", this.model.steps.after ? "stock" : "memory in use");
    if (this.model.report.budget_bytes) line("budget", "budget");
    const counts = new Map();
    for (const step of this.plot.steps) {
      for (const [, kind] of this.plot.events.get(step)) counts.set(kind, (counts.get(kind) || 0) + 1);
    }
    for (const kind of EVENTS) {
      if (!counts.get(kind)) continue;
      const swatch = make("span", { class: "tick", style: { background: `var(--kind-${cssName(kind)})` } });
      items.push(make("li", {}, swatch, `${KIND_WORDS[kind]} (${formatCount(counts.get(kind))})`));
    }
    return make("ul", { class: "legend", "aria-label": "Legend" }, ...items);
  }

  // ---- drawing

  resize() {
    const { width, height } = this.stage.getBoundingClientRect();
    if (width < 40 || height < 40) return;
    this.plot.resize(width, height);
    this.redraw();
  }
  redraw() {
    if (!this.plot.box) return;
    this.plot.draw(this.state.active);
    this.moved();
  }
  moved() {
    if (!this.plot.box) return;
    this.plot.drawOverlay(this.state, this.mark);
    const { step, position } = this.state;
    this.stage.setAttribute("aria-valuemax", String(step.count));
    this.stage.setAttribute("aria-valuenow", String(position + 1));
    const words = [
      `operation ${position + 1} of ${step.count}`,
      step.phase(position),
      shortName(step.op(position)),
      formatBytes(step.bytes[position]),
      this.state.pinned ? "pinned" : "",
    ];
    this.stage.setAttribute("aria-valuetext", words.filter(Boolean).join(", "));
    if (this.whole) this.whole.disabled = !this.plot.zoomed();
  }
  changed(what) {
    if (what === "active") {
      if (this.which) this.which.show(this.state.active);
      this.hideTip();
      return this.redraw();
    }
    if (what === "selected") this.showChosen();
    if (what === "pin" && this.state.pinned) this.reveal(this.state.position);
    this.moved();
  }
  showChosen() {
    const { selected } = this.state;
    const { buffers } = this.model;
    if (selected === null) {
      this.chosen.replaceChildren(
        make("span", { class: "muted" }, "Choose a buffer, here or in the table, to see when it is held."),
      );
      return;
    }
    const words = [formatBytes(buffers.bytes[selected]), buffers.roleOf(selected), buffers.fateOf(selected)];
    if (buffers.reasonOf(selected)) words.push(buffers.reasonOf(selected));
    this.chosen.replaceChildren(
      make("span", { class: "key selected" }),
      make(
        "span",
        { class: "words" },
        nameElement(buffers.nameOf(selected)),
        make("span", { class: "muted" }, words.join(" \u00b7 ")),
      ),
      makeButton({ class: "quiet", on: { click: () => this.state.select(null) } }, "Clear"),
    );
  }

  // ---- zoom

  zoomTo(from, to) {
    this.plot.setView(from, to);
    this.redraw();
  }
  zoom(factor, around) {
    const [from, to] = this.plot.view;
    const middle = around ?? this.plot.begin(this.state.step, this.state.position);
    const anchor = middle >= from && middle <= to ? middle : (from + to) / 2;
    this.zoomTo(anchor - (anchor - from) * factor, anchor + (to - anchor) * factor);
  }
  /** Moves what is shown as far as needed for a position to be in it. */
  reveal(position) {
    const at = this.plot.begin(this.state.step, position);
    const [from, to] = this.plot.view;
    if (at >= from && at <= to) return;
    const half = (to - from) / 2;
    this.zoomTo(at - half, at + half);
  }

  // ---- pointers and keys

  listen() {
    const stage = this.stage;
    let pressed = null;
    const place = (event) => event.clientX - stage.getBoundingClientRect().left;
    stage.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      pressed = { x: place(event), id: event.pointerId, dragged: false };
      if (event.pointerType !== "mouse") this.hover(pressed.x, false);
    });
    stage.addEventListener("pointermove", (event) => {
      const x = place(event);
      if (pressed && Math.abs(x - pressed.x) > 5 && !pressed.dragged) {
        pressed.dragged = true;
        stage.setPointerCapture(pressed.id);
      }
      // A mouse that drags marks a range; a finger looks around.
      const range = pressed && pressed.dragged && event.pointerType === "mouse";
      this.mark.from = range ? Math.max(this.plot.box.left, pressed.x) : null;
      this.hover(x, event.pointerType === "mouse");
    });
    stage.addEventListener("pointerup", (event) => {
      const from = pressed;
      pressed = null;
      if (!from) return;
      const x = place(event);
      if (!from.dragged) {
        this.click(x);
      } else if (event.pointerType === "mouse") {
        this.mark.from = null;
        const ends = [this.plot.value(from.x), this.plot.value(x)].sort((a, b) => a - b);
        this.zoomTo(...ends);
      }
    });
    stage.addEventListener("pointercancel", () => {
      pressed = null;
      this.mark.from = null;
    });
    stage.addEventListener("pointerleave", () => {
      this.mark.x = null;
      this.hideTip();
      this.moved();
    });
    stage.addEventListener(
      "wheel",
      (event) => {
        if (!event.ctrlKey && !event.metaKey) return; // the page scrolls
        event.preventDefault();
        this.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.plot.value(place(event)));
      },
      { passive: false },
    );
    stage.addEventListener("keydown", (event) => this.key(event));
  }

  hover(x, withTip) {
    const { left, right } = this.plot.box;
    const inside = Math.max(left, Math.min(right - 0.01, x));
    this.mark.x = inside;
    const before = this.state.position;
    this.state.look(this.plot.positionUnder(this.state.step, inside));
    if (this.state.pinned || before === this.state.position) this.moved();
    if (withTip) this.showTip(inside);
  }
  click(x) {
    const { left, right } = this.plot.box;
    const at = this.plot.positionUnder(this.state.step, Math.max(left, Math.min(right - 0.01, x)));
    if (this.state.pinned && Math.abs(this.plot.x(this.plot.begin(this.state.step, this.state.position)) - x) < 5)
      this.state.unpin();
    else this.state.pin(at);
  }
  showTip(x) {
    const value = this.plot.value(x);
    const lines = this.plot.steps.map((step) => {
      const at = step === this.state.step ? this.plot.positionUnder(step, x) : this.plot.positionAt(step, value);
      return [step, at < 0 ? "ended" : formatBytes(step.bytes[at])];
    });
    this.tip.replaceChildren(
      ...lines
        .reverse()
        .map(([step, text]) =>
          make(
            "div",
            {},
            make("span", { class: `stroke ${step.key === "after" ? "after" : "stock"}` }),
            make("b", {}, text),
            ` ${step.label}`,
          ),
        ),
    );
    this.tip.hidden = false;
    const room = this.plot.width - x > this.tip.offsetWidth + 24;
    const left = Math.round(room ? x + 14 : x - 14 - this.tip.offsetWidth);
    this.tip.style.transform = `translate(${left}px, ${this.plot.box.top + 8}px)`;
  }
  hideTip() {
    this.tip.hidden = true;
  }
  key(event) {
    const { state } = this;
    const page = Math.max(10, Math.round(state.step.count / 20));
    const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowDown: -1, ArrowUp: 1, PageDown: -page, PageUp: page };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in moves) state.go(state.position + moves[event.key]);
    else if (event.key === "Home") state.go(0);
    else if (event.key === "End") state.go(state.step.count - 1);
    else if (event.key === "Enter" || event.key === " ") state.pinned ? state.unpin() : state.pin(state.position);
    else if (event.key === "Escape") state.unpin();
    else if (event.key === "+") this.zoom(0.5);
    else if (event.key === "-") this.zoom(2);
    else return;
    event.preventDefault();
    this.hideTip();
    this.mark.x = null;
    this.reveal(state.position);
  }
}
