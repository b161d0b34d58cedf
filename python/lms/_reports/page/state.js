// Where the reader is: which of the two steps, which position, what is pinned, which buffer is
// chosen. Whoever shows any of it listens; nobody else keeps a copy.

class State {
  constructor(model) {
    this.model = model;
    this.active = model.steps.after ? "after" : "before";
    this.position = this.step ? this.step.peak : 0;
    this.pinned = false;
    this.selected = null; // number of a buffer
    this.listeners = [];
  }
  get step() {
    return this.model.steps[this.active];
  }
  listen(listener) {
    this.listeners.push(listener);
  }
  changed(what) {
    for (const listener of this.listeners) listener(what);
  }

  /** Looks at a position; where one is pinned, only `pin` moves. */
  look(position) {
    if (this.pinned || !this.step || position === this.position) return;
    this.position = position;
    this.changed("position");
  }
  pin(position) {
    this.pinned = true;
    this.position = Math.max(0, Math.min(this.step.count - 1, position));
    this.changed("pin");
  }
  unpin() {
    if (!this.pinned) return;
    this.pinned = false;
    this.changed("pin");
  }
  /** Goes by so many positions, with or without the pin. */
  go(position) {
    if (this.pinned) return this.pin(position);
    this.look(Math.max(0, Math.min(this.step.count - 1, position)));
  }
  select(buffer) {
    this.selected = this.selected === buffer ? null : buffer;
    this.changed("selected");
  }
  /** Follows the other step; a pin does not last, as its position is another operation there. */
  activate(key) {
    if (key === this.active || !this.model.steps[key]) return;
    this.active = key;
    this.pinned = false;
    this.position = this.step.peak;
    this.changed("active");
  }
}
