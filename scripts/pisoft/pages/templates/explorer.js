"use strict";
// Shows the packed data of the page. Text of records goes into the page as textContent only.

const VIEWS = ["raw", "normalised", "calibrated"];
const LIGHT_TO_DARK = [[237, 245, 252], [158, 202, 225], [49, 130, 189], [8, 48, 107]];
const ORDERS = ["ns", "nc"]; // by the place of a metric's area; "run" is neither
const FEW = 3; // methods that are shown until more are asked for
const PHONE = matchMedia("(max-width: 40rem)");
const NOT_KNOWN = "not known";

const state = { model: "", dataset: "", sample: "", step: 0, view: "normalised", pi: 0, hidden: new Set(), whole: false, order: "ns", all: false };
let data = null; // what Python has written into the page, unpacked
let shown = null; // the chosen model, dataset, sample and step
let cards = []; // of the methods that are shown
let active = null; // position of the token whose values are read

const get = (id) => document.getElementById(id);

function make(name, className, text) {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

// Data ------------------------------------------------------------------------------------------

// Returns JSON that was compressed by gzip and written in base64.
async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

// Gives every step the tokens and scores that it shares with others of its sample.
function shareOut({ models }) {
  for (const sample of models.flatMap(({ datasets }) => datasets.flatMap(({ samples }) => samples))) {
    for (const step of sample.steps) {
      step.perturbable = sample.perturbable;
      step.methods = sample.scores[step.scores];
    }
  }
}

// What is chosen ---------------------------------------------------------------------------------

// Returns the item whose key has a value, or the first item.
function find(items, key, value) {
  return items.find((item) => item[key] === value) ?? items[0];
}

function choose() {
  const model = find(data.models, "name", state.model);
  const dataset = find(model.datasets, "name", state.dataset);
  const sample = find(dataset.samples, "id", state.sample);
  const step = sample && find(sample.steps, "step", state.step);
  shown = { model, dataset, sample, step };
  state.model = model.name;
  state.dataset = dataset.name;
  state.sample = sample?.id ?? "";
  state.step = step?.step ?? 0;
}

function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  const pi = data.grid.indexOf(Number(given.get("pi")));
  state.model = given.get("model");
  state.dataset = given.get("dataset");
  state.sample = given.get("sample");
  state.step = Number(given.get("step"));
  state.view = VIEWS.includes(given.get("view")) ? given.get("view") : "normalised";
  state.pi = pi >= 0 ? pi : Math.floor(data.grid.length / 2);
  state.whole = given.get("tokens") === "all";
  state.order = given.get("order") === "run" || ORDERS.includes(given.get("order")) ? given.get("order") : "ns";
  state.all = given.get("methods") === "all";
  state.hidden = new Set((given.get("hide") ?? "").split(",").filter(Boolean));
}

function writeAddress() {
  const { model, dataset, sample, step, view, hidden } = state;
  const address = new URLSearchParams({ model, dataset, sample, step, view, pi: data.grid[state.pi] });
  if (state.whole) address.set("tokens", "all");
  if (state.order !== "ns") address.set("order", state.order);
  if (state.all) address.set("methods", "all");
  if (hidden.size) address.set("hide", [...hidden].join(","));
  history.replaceState(null, "", `#${address}`);
}

// Scores -----------------------------------------------------------------------------------------

// Returns a method's shown values of the perturbable tokens; null if it has none.
function values(card) {
  if (!card.raw) return null;
  if (state.view === "raw") return Float64Array.from(shown.step.perturbable, (at) => card.raw[at]);
  if (state.view === "normalised") return Float64Array.from(card.log, Math.exp);
  if (!card.alpha) return null;
  const [least, most] = [Math.log(data.floor), Math.log(1 - data.floor)];
  const alpha = card.alpha[state.pi];
  return Float64Array.from(card.log, (log) => Math.exp(alpha * Math.min(Math.max(log, least), most)));
}

// Says why a method has no values.
function gap(entry) {
  if (!entry) return "This method was not run on this dataset.";
  if (entry.status) return `No scores: ${entry.status}`;
  return `Not calibrated: ${entry.evaluation ?? "not evaluated"}`;
}

const written = (value) => (state.view === "raw" ? String(value) : value.toFixed(4));
const threeDecimals = (value) => value.toFixed(3).replace("-", "\u2212");

// Colours ----------------------------------------------------------------------------------------

function mixed(share) {
  const place = share * (LIGHT_TO_DARK.length - 1);
  const first = Math.min(Math.floor(place), LIGHT_TO_DARK.length - 2);
  return LIGHT_TO_DARK[first].map((from, channel) =>
    Math.round(from + (place - first) * (LIGHT_TO_DARK[first + 1][channel] - from)));
}

// Black or white, whichever stands out more.
function ink(colour) {
  const [red, green, blue] = colour.map((level) =>
    level <= 10 ? level / 3294 : ((level / 255 + 0.055) / 1.055) ** 2.4);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? "#000" : "#fff";
}

const PALETTE = Array.from({ length: 256 }, (_, level) => {
  const colour = mixed(level / 255);
  return { background: `rgb(${colour})`, ink: ink(colour) };
});

// Controls ---------------------------------------------------------------------------------------

function fill(select, options, chosen) {
  select.replaceChildren(...options.map(([value, text]) => {
    const option = make("option", "", text);
    option.value = value;
    option.dir = "auto";
    return option;
  }));
  select.value = chosen;
}

const oneLine = (text) => text.replace(/\s*\n\s*/g, "↵");

function fillControls() {
  const { model, dataset, sample } = shown;
  fill(get("model"), data.models.map((item) => [item.name, item.label]), state.model);
  fill(get("dataset"), model.datasets.map((item) => [item.name, item.label]), state.dataset);
  const marks = { true: " ✓", false: " ✗", null: "" };
  fill(get("sample"), dataset.samples.map((item, place) =>
    [item.id, `${place + 1} · ${item.id}${marks[item.correct]}`]), state.sample);
  fill(get("step"), (sample?.steps ?? []).map(({ step }) =>
    [step, `${step + 1}: ${oneLine(sample.output[step] ?? "–")}`]), state.step);
  const place = dataset.samples.indexOf(sample);
  get("previous").setAttribute("aria-disabled", place <= 0);
  get("next").setAttribute("aria-disabled", place >= dataset.samples.length - 1);
  get("method-boxes").replaceChildren(...model.methods.map(methodBox));
}

function methodBox({ name, label }) {
  const box = make("input");
  box.type = "checkbox";
  box.value = name;
  box.addEventListener("change", () => {
    if (box.checked) state.hidden.delete(name);
    else state.hidden.add(name);
    update();
  });
  const line = make("label");
  line.append(box, make("bdi", "", label));
  return line;
}

function refreshControls() {
  for (const box of document.querySelectorAll("#method-boxes input")) {
    box.checked = !state.hidden.has(box.value);
  }
  get("methods-shown").textContent = `(${cards.length} of ${shown.model.methods.length} shown)`;
  document.querySelector(`input[name="view"][value="${state.view}"]`).checked = true;
  get("whole").checked = state.whole;
  get("order").value = state.order;
  get("cards").classList.toggle("perturbable-only", !state.whole);
  const pi = data.grid[state.pi];
  get("pi").value = state.pi;
  get("pi").setAttribute("aria-valuetext", `π = ${pi}`);
  get("pi-value").textContent = `π = ${pi}`;
  const raw = state.view === "raw";
  get("lowest").textContent = raw ? "a method's lowest" : "0";
  get("highest").textContent = raw ? "its highest" : "1";
}

// The sample -------------------------------------------------------------------------------------

function describe() {
  const { dataset, sample, step } = shown;
  const list = make("dl");
  const say = (term, ...content) => {
    const [pair, detail] = [make("div"), make("dd")];
    detail.append(...content);
    pair.append(make("dt", "", term), detail);
    list.append(pair);
  };
  say("Shown here", `${dataset.samples.length} of ${dataset.total} samples`);
  if (sample) describeSample(say, sample, step);
  get("record").replaceChildren(list);
}

function describeSample(say, sample, step) {
  if (sample.status !== "ok") say("Failed", make("span", "notice", sample.status));
  if (sample.predicted !== null) say("Prediction", make("bdi", "", sample.predicted));
  if (sample.explained !== null) say("Explained token", make("bdi", "", sample.explained.join(" or ")));
  if (sample.label !== null) say("Label", make("bdi", "", sample.label));
  if (sample.correct !== null) {
    say("Correct", make("span", sample.correct ? "right" : "wrong", sample.correct ? "yes" : "no"));
  }
  const text = make("div", "generated");
  text.dir = "auto";
  const isExplained = (token, place) => place === step?.step && (sample.explained ?? [token]).includes(token);
  text.append(...sample.output.map((token, place) => make(isExplained(token, place) ? "mark" : "span", "", token)));
  const count = sample.evidence?.length;
  say("Evidence", count === undefined ? NOT_KNOWN : `${count} ${count === 1 ? "token" : "tokens"}, underlined`);
  const cut = sample.truncated ? ", the record cut to fit" : "";
  const inside = step ? `${step.perturbable.length} of ${sample.tokens.length} tokens` : NOT_KNOWN;
  say("Perturbable", `${inside} (scope ${data.scope})${cut}`);
  if (sample.steps.length > 1) say("AUC, LDS, evidence", "means over the evaluated tokens");
  say("Generated text", sample.output.length ? text : "none");
}

// Heatmaps ---------------------------------------------------------------------------------------

function tokenSpans(sample, step) {
  const perturbable = new Set(step.perturbable);
  const evidence = new Set(sample.evidence ?? []);
  return sample.tokens.map((text, position) => {
    const span = make("span", "", text);
    span.setAttribute("role", "option");
    if (!perturbable.has(position)) span.classList.add("fixed");
    if (evidence.has(position)) span.classList.add("evidence");
    if (text.includes("\n") && !text.trim()) span.classList.add("break");
    if (text === "") span.classList.add("nothing");
    if (!text.trim()) span.setAttribute("aria-label", text.includes("\n") ? "line break" : "space");
    return span;
  });
}

// Returns the methods by the area that is chosen, the largest first, those without one last.
function ordered(methods, sample) {
  const place = ORDERS.indexOf(state.order);
  const area = ({ name }) => {
    const areas = Object.values(sample?.measured[name]?.areas ?? {}).find(Array.isArray);
    return areas ? areas[place] : -Infinity;
  };
  return place < 0 ? methods : [...methods].sort((a, b) => area(b) - area(a) || 0);
}

// Says what both metrics are at the chosen π.
function curveLines(curves) {
  return Object.entries(curves ?? {}).filter(([, values]) => values.length).map(([protocol, values]) => {
    const [ns, nc] = [values[state.pi], values[data.grid.length + state.pi]].map(threeDecimals);
    return `At π = ${data.grid[state.pi]}, ${protocol} routing: π-Soft-NS ↑ ${ns} · π-Soft-NC ↑ ${nc}`;
  });
}

// Draws both metrics of the first routing over π, with their names beside them.
function drawn(curves) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const part = (name, attributes) => {
    const element = document.createElementNS(svg.namespaceURI, name);
    Object.entries(attributes).forEach(([key, value]) => element.setAttribute(key, value));
    svg.append(element);
  };
  const values = Object.values(curves ?? {}).find((one) => one.length);
  if (!values) return [];
  const [low, high] = [Math.min(0, ...values), Math.max(1, ...values)];
  const points = (of) => of.map((value, place) =>
    `${200 * data.grid[place]},${(50 * (high - value)) / (high - low)}`).join(" ");
  svg.setAttribute("viewBox", "0 -1 200 52");
  svg.setAttribute("class", "curves");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", "π-Soft-NS (solid) and π-Soft-NC (dashed) over π");
  part("line", { x1: 200 * data.grid[state.pi], x2: 200 * data.grid[state.pi], y1: 0, y2: 50 });
  part("polyline", { points: points(values.slice(0, data.grid.length)) });
  part("polyline", { points: points(values.slice(data.grid.length)), class: "nc" });
  const names = make("span");
  names.append(make("span", "ns", "π-Soft-NS"), make("span", "nc", "π-Soft-NC"), " over π");
  return [svg, names];
}

// Says what the tables count of this sample, or why they do not.
function measuredLines(measured, sample, step) {
  const lines = Object.entries(measured?.areas ?? {}).map(([protocol, areas]) => {
    const values = Array.isArray(areas)
      ? `π-Soft-NS ↑ ${threeDecimals(areas[0])} · π-Soft-NC ↑ ${threeDecimals(areas[1])}`
      : areas;
    return `AUC, ${protocol} routing: ${values}`;
  });
  for (const [protocol, lds] of Object.entries(measured?.lds ?? {})) {
    const value = Array.isArray(lds) ? `↑ ${threeDecimals(lds[0])}` : lds;
    lines.push(`LDS given count, ${protocol} routing: ${value}`);
  }
  const evidence = measured?.evidence;
  if (evidence) {
    lines.push(`Evidence: ${Array.isArray(evidence) ? evidenceText(evidence, sample, step) : evidence}`);
  }
  return lines;
}

function evidenceText([first, recovery, mass, precision], sample, step) {
  const inside = new Set(step.perturbable);
  const count = sample.evidence.filter((position) => inside.has(position)).length;
  const top = { 1: "yes", 0: "no" }[first] ?? threeDecimals(first);
  const shares = `recovery@${count} ↑ ${threeDecimals(recovery)} · mass ↑ ${threeDecimals(mass)}`;
  return `top-1 on it: ${top} · ${shares} · AUPRC ↑ ${threeDecimals(precision)}`;
}

function buildCard(method, place) {
  const { sample, step } = shown;
  const entry = step?.methods[method.name];
  const card = { method, entry, article: make("article", "card"), figures: make("p", "figures"), atPi: make("div", "measured"), drawing: make("div", "drawing"), readout: make("p", "readout") };
  card.article.dataset.method = method.name;
  const heading = make("h2");
  heading.id = `heading-${place}`;
  heading.append(make("bdi", "", method.label));
  const lines = measuredLines(sample?.measured[method.name], sample, step);
  card.curves = sample?.measured[method.name]?.curves;
  const [areas, others] = [true, false].map((area) =>
    lines.filter((line) => line.startsWith("AUC") === area).map((line) => make("p", "measured", line)));
  card.article.append(heading, ...areas, card.atPi, card.figures);
  if (!entry?.raw) {
    card.article.append(...others);
    return card;
  }
  card.raw = entry.raw;
  card.log = entry.log;
  card.alpha = entry.alpha;
  card.places = new Map(step.perturbable.map((position, index) => [position, index]));
  card.spans = tokenSpans(sample, step);
  const text = make("div", "tokens");
  text.dir = "auto";
  text.tabIndex = 0;
  text.setAttribute("role", "listbox");
  text.setAttribute("aria-orientation", "horizontal");
  text.setAttribute("aria-labelledby", heading.id);
  text.append(...card.spans);
  text.addEventListener("keydown", (event) => moveInText(event, card));
  text.addEventListener("focus", () => activate(active ?? step.perturbable[0]));
  text.addEventListener("mouseover", (event) => {
    const position = card.spans.indexOf(event.target);
    if (position >= 0) activate(position);
  });
  card.text = text;
  card.article.append(card.readout, text, ...others, card.drawing);
  return card;
}

function buildCards() {
  const chosen = shown.model.methods.filter(({ name }) => !state.hidden.has(name));
  const methods = ordered(chosen, shown.sample).slice(0, state.all ? chosen.length : FEW);
  active = null;
  cards = methods.map(buildCard);
  get("more").hidden = cards.length === chosen.length;
  get("more").textContent = `Show all ${chosen.length} methods`;
  get("cards").replaceChildren(...cards.map((card) => card.article));
  if (!cards.length) get("cards").append(make("p", "notice", "No method is shown."));
}

function paint() {
  for (const card of cards) {
    card.values = values(card);
    card.figures.classList.toggle("notice", !card.values);
    card.figures.textContent = card.values ? figures(card) : gap(card.entry);
    card.atPi.replaceChildren(...curveLines(card.curves).map((line) => make("div", "", line)));
    card.drawing.replaceChildren(...drawn(card.curves));
    if (card.spans) colour(card);
  }
  readValues();
}

function colour(card) {
  const raw = state.view === "raw";
  const [low, high] = raw ? extent(card.values) : [0, 1];
  shown.step.perturbable.forEach((position, index) => {
    const { style } = card.spans[position];
    const share = !card.values || high === low ? 0.5 : (card.values[index] - low) / (high - low);
    const look = PALETTE[Math.round(255 * share)];
    style.backgroundColor = card.values ? look.background : "";
    style.color = card.values ? look.ink : "";
  });
}

function extent(numbers) {
  return [numbers.reduce((a, b) => Math.min(a, b)), numbers.reduce((a, b) => Math.max(a, b))];
}

function figures(card) {
  const sum = card.values.reduce((a, b) => a + b, 0);
  const mean = sum / card.values.length;
  if (state.view === "raw") {
    const [low, high] = extent(card.values).map((value) => Number(value.toPrecision(4)));
    return `mean ${Number(mean.toPrecision(4))} · from ${low} to ${high}`;
  }
  const retained = `mean ${mean.toFixed(4)} · E[R] ${sum.toFixed(2)} of ${card.values.length} tokens`;
  return state.view === "normalised" ? retained : `${retained} · α ${Number(card.alpha[state.pi].toPrecision(4))}`;
}

// One token in every text ------------------------------------------------------------------------

function activate(position) {
  for (const card of cards) {
    card.spans?.[active]?.classList.remove("active");
    card.spans?.[position]?.classList.add("active");
  }
  active = position;
  readValues();
}

function valueText(card) {
  const index = card.places.get(active);
  if (index !== undefined) return card.values ? written(card.values[index]) : "–";
  return state.view === "raw" ? `${card.raw[active]} (not perturbable)` : "not perturbable";
}

function readValues() {
  cards.filter((card) => card.spans).forEach((card, place) => {
    card.text.removeAttribute("aria-activedescendant");
    if (active === null) {
      card.readout.textContent = "";
      return;
    }
    const span = card.spans[active];
    const value = valueText(card);
    span.id = `token-${place}-${active}`;
    span.setAttribute("aria-label", `${oneLine(span.textContent)}: ${value}`);
    card.text.setAttribute("aria-activedescendant", span.id);
    const quoted = make("bdi", "", oneLine(span.textContent));
    card.readout.replaceChildren(`Token ${active + 1} “`, quoted, "”: ", make("b", "", value));
  });
}

function moveInText(event, card) {
  const last = card.spans.length - 1;
  const goal = { ArrowRight: active + 1, ArrowDown: active + 1, ArrowLeft: active - 1, ArrowUp: active - 1, Home: 0, End: last }[event.key];
  if (goal === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  activate(Math.min(Math.max(goal, 0), last));
  card.spans[active].scrollIntoView({ block: "nearest" });
}

// Together ---------------------------------------------------------------------------------------

// Shows another sample, step or choice of methods.
function update() {
  choose();
  buildCards();
  describe();
  repaint();
}

// Shows other scores of the same sample and step.
function repaint() {
  refreshControls();
  paint();
  writeAddress();
}

function change(key, value) {
  state[key] = value;
  choose();
  fillControls();
  update();
}

function move(by) {
  const { dataset, sample } = shown;
  const next = dataset.samples[dataset.samples.indexOf(sample) + by];
  if (next) change("sample", next.id);
}

function showFromAddress() {
  readAddress();
  choose();
  fillControls();
  update();
}

function listen() {
  for (const key of ["model", "dataset", "sample"]) {
    get(key).addEventListener("change", (event) => change(key, event.target.value));
  }
  get("step").addEventListener("change", (event) => change("step", Number(event.target.value)));
  get("previous").addEventListener("click", () => move(-1));
  get("next").addEventListener("click", () => move(1));
  for (const radio of document.querySelectorAll('input[name="view"]')) {
    radio.addEventListener("change", () => {
      state.view = radio.value;
      repaint();
    });
  }
  get("normalisation").textContent = `(${data.normalisation})`;
  get("pi").max = data.grid.length - 1;
  get("pi").addEventListener("input", (event) => {
    state.pi = Number(event.target.value);
    state.view = "calibrated";
    repaint();
  });
  get("show-all").addEventListener("click", () => {
    state.hidden.clear();
    update();
  });
  get("show-none").addEventListener("click", () => {
    state.hidden = new Set(shown.model.methods.map(({ name }) => name));
    update();
  });
  get("order").addEventListener("change", (event) => change("order", event.target.value));
  get("more").addEventListener("click", () => change("all", true));
  get("whole").addEventListener("change", (event) => {
    state.whole = event.target.checked;
    repaint();
  });
  get("controls").addEventListener("submit", (event) => event.preventDefault());
  document.addEventListener("keydown", (event) => {
    // A letter in a list of choices looks for an entry that begins with it.
    if (event.target.tagName === "SELECT" || event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === "n") move(1);
    if (event.key === "p") move(-1);
  });
  window.addEventListener("hashchange", showFromAddress);
  get("gradient").style.background = `linear-gradient(to right, ${[0, 64, 128, 191, 255].map((level) => PALETTE[level].background)})`;
}

async function start() {
  if (!("DecompressionStream" in window)) {
    const needed = "This page needs a newer browser: Chrome or Edge 80, Firefox 113, Safari 16.4, or later.";
    get("cards").append(make("p", "notice", needed));
    return;
  }
  data = await unpacked(get("data").textContent);
  shareOut(data);
  for (const id of ["view", "about"]) get(id).open = !PHONE.matches;
  listen();
  showFromAddress();
}

start();
