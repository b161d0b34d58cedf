// A table of many rows: searched, sorted, and shown a page at a time. Rows are numbers; columns
// tell what to show of a row and by which number it is sorted.

/** For each text of `texts`, where it stands in the alphabet: sorting by it compares numbers. */
function ranksOf(texts) {
  const order = Uint32Array.from(texts, (_, index) => index);
  const lower = texts.map((text) => String(text).toLowerCase());
  order.sort((a, b) => (lower[a] < lower[b] ? -1 : lower[a] > lower[b] ? 1 : 0));
  const ranks = new Uint32Array(texts.length);
  let rank = 0;
  order.forEach((text, index) => {
    if (index && lower[text] !== lower[order[index - 1]]) rank++;
    ranks[text] = rank;
  });
  return ranks;
}

const SIZES = [10, 25, 50, 100, 250]; // rows to a page; the first on phones
const NOTHING = "\u2013";

class Grid {
  /**
   * options: id; noun (["buffer", "buffers"]); count (of rows); columns ([{key, label, numeric,
   * wide, by(row) -> number, show(row) -> node or text, initially: "descending"}]); search(words) ->
   * (row) -> boolean; filters ([{label, choices: [[value, text]], test(value) -> (row) -> boolean}]);
   * hint (of the search); bytes(row), summed up in the line above the table; picked(row), choose(row),
   * detail(row): what a picked row shows below itself.
   */
  constructor(options) {
    this.options = options;
    this.page = 0;
    this.size = SIZES[matchMedia("(max-width: 46rem)").matches ? 0 : 1];
    this.sort = { key: options.sort.key, down: options.sort.down };
    this.tests = new Map();
    this.keys = new Map(); // column -> its sort numbers
    this.rows = Uint32Array.from({ length: options.count }, (_, row) => row);
  }

  build() {
    const { id, noun, columns } = this.options;
    const tools = [];
    if (this.options.search) {
      this.input = make("input", {
        type: "search",
        id: `${id}-search`,
        placeholder: this.options.hint,
        autocomplete: "off",
        spellcheck: "false",
        on: { input: () => this.searched() },
      });
      tools.push(
        make("label", { class: "search" }, make("span", { class: "hidden" }, `Search ${noun[1]}`), this.input),
      );
    }
    for (const filter of this.options.filters || []) {
      const select = make("select", {}, ...filter.choices.map(([value, text]) => make("option", { value }, text)));
      select.addEventListener("change", () => this.filter(filter.label, select.value && filter.test(select.value)));
      tools.push(make("label", {}, make("span", {}, filter.label), select));
    }
    this.extra = make("span", { class: "extra" });
    tools.push(this.extra);
    this.status = make("p", { class: "count", id: `${id}-count`, role: "status" });
    const heads = columns.map((column) => {
      const button = makeButton({ on: { click: () => this.sortBy(column) } }, column.label);
      const head = make(
        "th",
        { scope: "col", class: column.numeric ? "number" : null, "data-key": column.key },
        button,
      );
      column.head = head;
      return head;
    });
    this.body = make("tbody");
    const table = make(
      "table",
      { id: `${id}-table`, "aria-labelledby": `${id}-title`, "aria-describedby": `${id}-count` },
      make("thead", {}, make("tr", {}, ...heads)),
      this.body,
    );
    this.first = makeButton(
      { class: "quiet", "aria-label": "First page", on: { click: () => this.turn(0) } },
      "\u00ab",
    );
    this.back = makeButton({ class: "quiet", on: { click: () => this.turn(this.page - 1) } }, "Back");
    this.next = makeButton({ class: "quiet", on: { click: () => this.turn(this.page + 1) } }, "Next");
    this.last = makeButton(
      { class: "quiet", "aria-label": "Last page", on: { click: () => this.turn(Infinity) } },
      "\u00bb",
    );
    this.place = make("span", { class: "muted" });
    const sizes = make(
      "select",
      {},
      ...SIZES.map((size) => make("option", { value: size, selected: size === this.size }, `${size} rows`)),
    );
    sizes.addEventListener("change", () => {
      this.size = Number(sizes.value);
      this.turn(0);
    });
    this.pager = make(
      "div",
      { class: "pager" },
      this.first,
      this.back,
      this.place,
      this.next,
      this.last,
      make("label", {}, make("span", { class: "hidden" }, "Rows to a page"), sizes),
    );
    this.update();
    return make(
      "div",
      { class: "grid", id: `${id}-grid` },
      make("div", { class: "tools" }, ...tools),
      this.status,
      table,
      this.pager,
    );
  }

  searched() {
    const words = this.input.value.toLowerCase().split(/\s+/).filter(Boolean);
    this.filter("search", words.length ? this.options.search(words) : null);
  }
  filter(name, test) {
    if (test) this.tests.set(name, test);
    else this.tests.delete(name);
    this.page = 0;
    this.update();
  }
  sortBy(column) {
    const down = this.sort.key === column.key ? !this.sort.down : Boolean(column.numeric);
    this.sort = { key: column.key, down };
    this.page = 0;
    this.update();
  }

  /** Chooses and sorts the rows, and shows a page of them. */
  update() {
    const { count, columns, bytes } = this.options;
    const tests = [...this.tests.values()];
    const rows = new Uint32Array(count);
    let found = 0;
    let sum = 0;
    for (let row = 0; row < count; row++) {
      if (!tests.every((test) => test(row))) continue;
      rows[found++] = row;
      if (bytes) sum += bytes(row);
    }
    this.rows = rows.subarray(0, found);
    const column = columns.find((each) => each.key === this.sort.key);
    if (!this.keys.has(column.key)) {
      this.keys.set(
        column.key,
        Float64Array.from({ length: count }, (_, row) => column.by(row)),
      );
    }
    const keys = this.keys.get(column.key);
    const sign = this.sort.down ? -1 : 1;
    this.rows.sort((a, b) => sign * (keys[a] - keys[b]) || a - b);
    for (const each of columns) {
      const here = each === column;
      if (here) each.head.setAttribute("aria-sort", this.sort.down ? "descending" : "ascending");
      else each.head.removeAttribute("aria-sort");
    }
    const noun = this.options.noun[count === 1 ? 0 : 1];
    const of = found === count ? formatCount(count) : `${formatCount(found)} of ${formatCount(count)}`;
    this.status.textContent = `${of} ${noun}${bytes && found ? `, ${formatBytes(sum)} in sum` : ""}`;
    this.showPage();
  }

  pages() {
    return Math.max(1, Math.ceil(this.rows.length / this.size));
  }
  turn(page) {
    this.page = Math.max(0, Math.min(this.pages() - 1, page));
    this.showPage();
  }
  /** Turns to a row, where it is among those shown. */
  turnTo(row) {
    const at = this.rows.indexOf(row);
    if (at >= 0) this.turn(Math.floor(at / this.size));
    else this.showPage();
  }

  showPage() {
    const { columns } = this.options;
    const from = this.page * this.size;
    const shown = this.rows.subarray(from, from + this.size);
    const rows = Array.from(shown).flatMap((row) => {
      const picked = this.options.picked && this.options.picked(row);
      const cells = columns.map((column, index) => {
        const content = column.show(row);
        const inner =
          index === 0 && this.options.choose
            ? makeButton({ class: "pick", "aria-pressed": String(Boolean(picked)) }, content)
            : content;
        return make(
          index === 0 ? "th" : "td",
          {
            scope: index === 0 ? "row" : null,
            class:
              [column.numeric ? "number" : "", content === NOTHING ? "nothing" : "", column.class || ""]
                .join(" ")
                .trim() || null,
            "data-label": column.label,
          },
          inner,
        );
      });
      const line = make("tr", { class: picked ? "picked" : null }, ...cells);
      if (this.options.choose) line.addEventListener("click", () => this.choose(row));
      if (!picked || !this.options.detail) return [line];
      return [line, make("tr", { class: "detail" }, make("td", { colspan: columns.length }, this.options.detail(row)))];
    });
    if (!rows.length) {
      const clear = makeButton({ class: "quiet", on: { click: () => this.clear() } }, "Show all of them");
      rows.push(
        make(
          "tr",
          {},
          make(
            "td",
            { class: "none", colspan: columns.length },
            `No ${this.options.noun[1]} match. `,
            this.tests.size ? clear : null,
          ),
        ),
      );
    }
    this.body.replaceChildren(...rows);
    const last = this.pages() - 1;
    for (const button of [this.first, this.back]) button.disabled = this.page === 0;
    for (const button of [this.next, this.last]) button.disabled = this.page === last;
    const to = Math.min(this.rows.length, from + this.size);
    this.place.textContent = this.rows.length
      ? `${formatCount(from + 1)}\u2013${formatCount(to)} of ${formatCount(this.rows.length)}`
      : "none";
    this.pager.hidden = this.options.count <= this.size && this.size <= SIZES[1];
  }

  choose(row) {
    const focused = this.body.contains(document.activeElement);
    this.options.choose(row);
    // The rows were made anew: whoever came by keyboard stays where they were.
    const at = this.rows.indexOf(row) - this.page * this.size;
    if (focused)
      this.body.querySelectorAll("tr:not(.detail) > :first-child > button")[at]?.focus({ preventScroll: true });
  }
  clear() {
    this.tests.clear();
    if (this.input) this.input.value = "";
    for (const select of this.pager.parentElement.querySelectorAll(".tools select")) select.value = "";
    for (const box of this.extra.querySelectorAll("input")) box.checked = false;
    this.update();
  }
}
