// Light or dark: what the system prefers, until the button says otherwise; paper is light.

const CANVAS_COLORS = ["ink", "muted", "line", "surface", "stock", "after", "budget", "pin", "selected", "unlisted"];

const theme = {
  listeners: [],
  dark: false,
  colors: {},
  known: new Map(), // colors asked for by `of`

  start() {
    const system = matchMedia("(prefers-color-scheme: dark)");
    const button = document.getElementById("theme");
    let chosen = null;
    try {
      chosen = localStorage.getItem("lms-theme");
    } catch {
      // Storage is forbidden here: the button holds until the page is closed.
    }
    const apply = (print = false) => {
      this.dark = !print && (chosen ? chosen === "dark" : system.matches);
      document.documentElement.dataset.theme = this.dark ? "dark" : "light";
      button.textContent = this.dark ? "Light" : "Dark";
      button.setAttribute("aria-label", `Use ${this.dark ? "light" : "dark"} colors`);
      this.read();
      for (const listener of this.listeners) listener();
    };
    button.addEventListener("click", () => {
      chosen = this.dark ? "light" : "dark";
      try {
        localStorage.setItem("lms-theme", chosen);
      } catch {
        // As above.
      }
      apply();
    });
    system.addEventListener("change", () => apply());
    addEventListener("beforeprint", () => apply(true));
    addEventListener("afterprint", () => apply());
    apply();
  },

  /** The style sheet's colors, for the canvas. */
  read() {
    const style = getComputedStyle(document.documentElement);
    this.known.clear();
    const color = (name) => style.getPropertyValue(`--${name}`).trim();
    this.colors = Object.fromEntries(CANVAS_COLORS.map((name) => [name, color(name)]));
    this.colors.font = getComputedStyle(document.body).fontFamily;
  },

  /** A role's or kind's color; that of what is not listed for one that the style sheet lacks. */
  of(group, name) {
    const key = `--${group}-${cssName(name)}`;
    if (!this.known.has(key)) {
      this.known.set(key, getComputedStyle(document.documentElement).getPropertyValue(key).trim());
    }
    return this.known.get(key) || this.colors.unlisted;
  },
};

/** "swap_out" -> "swap-out"; names of reports reach style sheets through this only. */
function cssName(name) {
  return String(name).replace(/[^a-z]+/g, "-");
}
