// Puts the page together. A part that cannot be drawn says so, and the others are still there.

function part(name, draw) {
  try {
    return draw();
  } catch (error) {
    console.error(`lms report: ${name}:`, error);
    const section = document.getElementById(name);
    section.replaceChildren(
      make(
        "p",
        { class: "empty" },
        `This part could not be drawn (${error.message}). The report's JSON has what it would show.`,
      ),
    );
    section.hidden = false;
    return section;
  }
}

function showTimeline(state) {
  if (!state.step) return null;
  const timeline = new Timeline(state);
  const live = new Live(state);
  const section = fill(
    "timeline",
    "Memory over the step",
    make("div", { class: "board" }, timeline.build(), live.build()),
  );
  timeline.resize();
  return section;
}

function start() {
  const report = JSON.parse(document.getElementById("data").textContent);
  theme.start();
  const model = readModel(report);
  const state = new State(model);
  const links = [];
  const section = (name, label, draw) => {
    if (part(name, draw)) links.push(make("a", { href: `#${name}` }, label));
  };
  part("summary", () => showSummary(report));
  section("timeline", "Timeline", () => showTimeline(state));
  section("layers", "Layers", () => showLayers(report, JSON.parse(document.getElementById("layers-data").textContent)));
  section("buffers", "Buffers", () => model.buffers && showBuffers(state));
  section("decisions", "Decisions", () => showDecisions(state));
  section("hints", "Hints", () => showHints(report));
  section("kept", "Kept", () => showKept(report));
  section("measured", "Measured", () => showMeasured(report));
  section("facts", "More", () => showFacts(report));
  section("terms", "Words", () => showTerms());
  document.getElementById("nav").append(...links);
  document.documentElement.dataset.ready = "true";
}

start();
