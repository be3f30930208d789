// The page: what is chosen, what is drawn, and every way to choose it.

const KEPT = ["step", "causal", "scaled", "temperature", "row", "everything", "language", "theme"];
const byId = (id) => document.getElementById(id);
let playing = null;

// Change what is shown, draw it, and keep it in the address, which can be bookmarked and handed on.
function set(changes) {
  const before = { ...view };
  Object.assign(view, changes);
  if (view.row !== before.row) view.entry = null;
  const focused = document.activeElement;
  const entry = entryOf(focused);
  const onRow = focused?.id === "row";
  draw(before.step !== view.step || before.everything !== view.everything);
  if (onRow) byId("row")?.focus();
  else if (entry) (find(entry) ?? document.querySelector("#stage td.active")).focus({ preventScroll: true });
  history.replaceState(null, "", `#${new URLSearchParams(KEPT.map((name) => [name, address(view[name])]))}`);
}

const address = (x) => (typeof x === "boolean" ? Number(x) : x);

function find({ step, name, i, j }) {
  const cell = `td[data-name="${name}"][data-i="${i}"][data-j="${j}"]`;
  return document.querySelector(`#stage table[data-step="${step}"] ${cell}`);
}

function draw(isNew) {
  document.documentElement.lang = view.language;
  document.documentElement.dataset.theme = view.theme;
  document.title = text("title");
  for (const each of document.querySelectorAll("[data-text]")) each.textContent = text(each.dataset.text);
  for (const each of document.querySelectorAll("[data-label]")) each.setAttribute("aria-label", text(each.dataset.label));
  byId("facts").textContent = text(DATA.block ? "facts_trained" : DATA.n === 1 ? "facts_one" : "facts", DATA);
  for (const each of document.querySelectorAll("button.language")) {
    each.setAttribute("aria-pressed", each.value === view.language);
  }
  drawControls();
  const shown = view.everything ? STEPS.map((_, index) => index) : [view.step];
  byId("stage").replaceChildren(...shown.map(renderStep));
  byId("stage").classList.toggle("new", isNew);
  document.body.classList.toggle("everything", view.everything);
  document.body.classList.toggle("below", view.everything || DATA.n > 12);
  document.body.classList.toggle("many", DATA.n > 8);
  document.body.classList.toggle("crowd", DATA.n > 16);
  lightMap();
  const isShown = view.entry !== null && (view.everything || view.entry.step === view.step);
  choose(isShown ? view.entry : usual(view.step));
}

function drawControls() {
  const step = STEPS[view.step];
  const back = view.step >= firstBackward();
  const place = text(back ? "place_back" : "place", { k: view.step + 1, all: STEPS.length });
  byId("step").value = view.step;
  byId("step").setAttribute("aria-valuetext", `${place}: ${step.name}, ${text(`title_${step.name}`)}`);
  byId("place").replaceChildren(element("b", {}, step.name), ` ${place}`);
  byId("previous").disabled = view.step === 0;
  byId("next").disabled = view.step === STEPS.length - 1;
  byId("play").textContent = text(playing === null ? "play" : "pause");
  byId("causal").checked = view.causal;
  byId("scaled").checked = view.scaled;
  byId("everything").checked = view.everything;
  byId("temperature").value = view.temperature;
  byId("degrees").textContent = `T = ${DATA.temperatures[view.temperature]}`;
  byId("temperature").setAttribute("aria-valuetext", byId("degrees").textContent);
  byId("theme").value = view.theme;
}

// The entry that a step explains before another is pointed at: where the last one was, as far as it can be.
function usual(index) {
  const { kind, makes } = STEPS[index];
  const [rows, columns] = DATA.axes[makes[0]];
  const i = kind === "jacobian" ? view.row : rows === "words" ? view.word : 0;
  return { step: index, name: makes[0], i, j: Math.min(view.column, size(columns) - 1) };
}

// Explain an entry, and let Tab come back to it.
function choose(entry) {
  view.entry = entry;
  if (STEPS[entry.step].makes.includes(entry.name) && DATA.axes[entry.name][0] === "words" && entry.name !== "J") {
    [view.word, view.column] = [entry.i, entry.j];
  }
  explain(entry);
  showLines(STEPS[entry.step]);
  const active = document.querySelector("#stage td.active");
  for (const each of active.closest("table").querySelectorAll('td[tabindex="0"]')) each.tabIndex = -1;
  active.tabIndex = 0;
}

function entryOf(target) {
  const td = target?.closest?.("#stage td[data-name]");
  if (!td) return null;
  const { name, i, j } = td.dataset;
  return { step: Number(td.closest("table").dataset.step), name, i: Number(i), j: Number(j) };
}

// Show where a number of the equation stands.
function point(number) {
  for (const each of document.querySelectorAll("td.pointed")) each.classList.remove("pointed");
  if (number === null) return;
  const { name, i, j } = number.dataset;
  find({ step: view.entry.step, name, i, j })?.classList.add("pointed");
}

function play(start) {
  clearInterval(playing);
  playing = null;
  if (start) {
    if (view.step === STEPS.length - 1) go(0);
    playing = setInterval(() => {
      go(view.step + 1);
      if (view.step === STEPS.length - 1) play(false);
    }, 3000);
  }
  drawControls();
}

function go(step) {
  if (step < 0 || step >= STEPS.length) return;
  set({ step, entry: null });
  if (view.everything) byId(`title-${step}`).scrollIntoView({ block: "start" });
}

// Arrows move among the entries of a matrix as it is shown.
function moveInside(event, td) {
  const line = td.parentElement;
  const body = line.parentElement;
  const [i, j] = [[...body.rows].indexOf(line), [...line.querySelectorAll("td")].indexOf(td)];
  const last = line.querySelectorAll("td").length - 1;
  const goal = {
    ArrowUp: [i - 1, j],
    ArrowDown: [i + 1, j],
    ArrowLeft: [i, j - 1],
    ArrowRight: [i, j + 1],
    Home: [i, 0],
    End: [i, last],
  }[event.key];
  if (goal === undefined) return;
  event.preventDefault();
  body.rows[goal[0]]?.querySelectorAll("td")[goal[1]]?.focus();
}

const LETTERS = {
  n: () => go(view.step + 1),
  p: () => go(view.step - 1),
  k: () => play(playing === null),
  c: () => set({ causal: !view.causal }),
  s: () => set({ scaled: !view.scaled }),
  t: () => set({ temperature: (view.temperature + 1) % DATA.temperatures.length }),
  r: () => set({ row: (view.row + 1) % DATA.n }),
  a: () => set({ everything: !view.everything }),
  l: () => set({ language: view.language === "en" ? "es" : "en" }),
};

function onKey(event) {
  const td = event.target.closest?.("td[data-name]");
  if (td) moveInside(event, td);
  const typing = event.target.matches?.("select, input[type=text]");
  const held = event.ctrlKey || event.metaKey || event.altKey;
  if (byId("letters").checked && !typing && !held) LETTERS[event.key]?.();
}

function listen() {
  byId("step").addEventListener("input", (event) => go(Number(event.target.value)));
  byId("previous").addEventListener("click", () => go(view.step - 1));
  byId("next").addEventListener("click", () => go(view.step + 1));
  byId("play").addEventListener("click", () => play(playing === null));
  byId("print").addEventListener("click", () => print());
  byId("theme").addEventListener("change", (event) => set({ theme: event.target.value }));
  byId("temperature").addEventListener("input", (event) => set({ temperature: Number(event.target.value) }));
  for (const name of ["causal", "scaled", "everything"]) {
    byId(name).addEventListener("change", (event) => set({ [name]: event.target.checked }));
  }
  for (const each of document.querySelectorAll("button.language")) {
    each.addEventListener("click", () => set({ language: each.value }));
  }
  for (const kind of ["pointerover", "focusin"]) {
    byId("stage").addEventListener(kind, (event) => {
      const entry = entryOf(event.target);
      if (entry) choose(entry);
    });
  }
  byId("explanation").addEventListener("pointerover", (event) => point(event.target.closest("[data-name]")));
  byId("explanation").addEventListener("pointerleave", () => point(null));
  document.addEventListener("keydown", onKey);
  let everything = view.everything;
  window.addEventListener("beforeprint", () => {
    everything = view.everything;
    set({ everything: true });
  });
  window.addEventListener("afterprint", () => set({ everything }));
  window.addEventListener("hashchange", () => {
    readAddress();
    draw(true);
  });
}

// What the address says, as far as it can be: a wrong value is left alone.
function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  const counts = { step: STEPS.length, temperature: DATA.temperatures.length, row: DATA.n };
  for (const [name, count] of Object.entries(counts)) {
    const wanted = Number.parseInt(given.get(name), 10);
    if (wanted >= 0 && wanted < count) view[name] = wanted;
  }
  for (const name of ["causal", "scaled", "everything"]) if (given.has(name)) view[name] = given.get(name) === "1";
  if (given.get("language") in DATA.texts) view.language = given.get("language");
  if (["auto", "light", "dark"].includes(given.get("theme"))) view.theme = given.get("theme");
}

byId("step").max = STEPS.length - 1;
byId("temperature").max = DATA.temperatures.length - 1;
drawMap();
readAddress();
listen();
draw(true);
