// Numbers and elements. Text of reports reaches the page through text nodes only: nothing here, or
// anywhere else in these files, makes markup of a string.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

/** The unit (an index of UNITS) in which `count` bytes are written. */
function unitOf(count) {
  let unit = 0;
  for (let size = Math.abs(count); size >= 1023.95 && unit < UNITS.length - 1; size /= 1024) unit++;
  return unit;
}

/** 1536 -> "1.5 KiB". */
function formatBytes(count) {
  if (!Number.isFinite(count)) return "unknown";
  const unit = unitOf(count);
  const value = count / 1024 ** unit;
  return `${unit === 0 ? formatCount(value) : value.toFixed(unit >= 3 ? 2 : 1)} ${UNITS[unit]}`;
}

const groups = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** 12345 -> "12,345". */
function formatCount(count) {
  return groups.format(count);
}

/** Microseconds: 1500 -> "1.50 ms". */
function formatTime(us) {
  if (!Number.isFinite(us)) return "unknown";
  const size = Math.abs(us);
  if (size === 0) return "0";
  if (size < 1000) return `${us.toFixed(size < 10 ? 2 : 1)} \u00b5s`;
  if (size < 1e6) return `${(us / 1e3).toFixed(2)} ms`;
  return `${(us / 1e6).toFixed(2)} s`;
}

/** A share: 0.0712 -> "7.1%". */
function formatShare(share, digits = 1) {
  return `${(share * 100).toFixed(digits)}%`;
}

/**
 * A new element. `properties`: "class", "on" (event -> listener), "style" (custom properties and
 * others, by their CSS names), the rest attributes; null, undefined and false leave one out.
 */
function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else if (name === "style") {
      for (const [key, item] of Object.entries(value)) element.style.setProperty(key, item);
    } else {
      element.setAttribute(name, value === true ? "" : value);
    }
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

/** A button that is not of a form. */
function makeButton(properties, ...children) {
  return make("button", { type: "button", ...properties }, ...children);
}

/** Fills a section of the page, which was hidden so far. Returns it. */
function fill(id, title, ...children) {
  const section = document.getElementById(id);
  section.replaceChildren(make("h2", { id: `${id}-title` }, title), ...children.filter(Boolean));
  section.hidden = false;
  return section;
}

/** What names begin with and says nothing: TensorFlow's inlined call. The port 0 says nothing either. */
const CALL = /^(?:StatefulPartitionedCall|PartitionedCall)(?:_\d+)?\//;

function shortName(name) {
  return name.replace(CALL, "").replace(/:0$/, "");
}

/** `text` with places to break it after slashes. */
function breakable(text) {
  return text.split(/(?<=\/)/).flatMap((piece, index) => (index ? [make("wbr"), piece] : [piece]));
}

/** A node's name, its last part set off from the path to it. `title` has all of it. */
function nameElement(name) {
  const short = shortName(name);
  const cut = short.lastIndexOf("/") + 1;
  const path = cut ? [make("span", { class: "path" }, ...breakable(short.slice(0, cut))), make("wbr")] : [];
  return make("span", { class: "name", title: name }, ...path, short.slice(cut));
}
